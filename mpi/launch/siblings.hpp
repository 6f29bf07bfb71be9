#pragma once
// The other processes of this launch on this node, from /proc: the state of ranks before they can
// communicate.
#include <string>
#include <vector>

namespace trivium {

struct Sibling {
    int process = 0;
    int rank = -1;    ///< the launcher's rank; -1: the launcher has not started the program in it yet
    char state = '?'; ///< see proc(5): T is stopped, t stopped by a debugger
};

/// The job and rank of this process, from the launcher's environment variables.
struct LaunchId {
    int rank = -1;                     ///< -1: no launcher
    int ranks = 1;                     ///< of the job; 1 if unknown
    int on_node = 0;                   ///< ranks on this node; 0 if unknown
    std::string rank_variable{};       ///< environment variable of the rank
    std::vector<std::string> shared{}; ///< "NAME=value" in the environment of all ranks of the job
};

/// Knows Open MPI, PMIx (srun), MPICH's Hydra and PALS.
LaunchId launch_of_environment();

/// Running processes of this user that belong to other ranks of `launch`, ascending by rank, without helper
/// processes. Processes in which the launcher has not started the program yet have rank -1.
std::vector<Sibling> siblings_of(const LaunchId& launch);

/// Describes stopped and missing ranks: "rank 3 is stopped (process 4711, state T); 1 of the 4 ranks of this
/// node is missing". Empty if there are none.
std::string describe(const LaunchId& launch, const std::vector<Sibling>& others);

} // namespace trivium
