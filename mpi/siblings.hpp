#pragma once
// The other processes of this launch on this node, as /proc shows them: what can be said of ranks before they
// can speak.
#include <string>
#include <vector>

namespace trivium {

struct Sibling {
    int process = 0;
    int rank = -1; ///< as the launcher numbers them; -1: the launcher has not yet started the program in it
    char state = '?'; ///< as proc(5) has it: T is stopped, t stopped by a debugger
};

/// Of this process: its launcher's job and its rank in it, from the environment that the launcher gave it.
struct LaunchId {
    int rank = -1;                     ///< -1: no launcher
    int ranks = 1;                     ///< of the job; 1 where it is not known
    int on_node = 0;                   ///< of those on this node; 0 where it is not known
    std::string rank_variable{};       ///< the environment variable that has the rank
    std::vector<std::string> shared{}; ///< "NAME=value" of the environment that all ranks of the job have
};

/// Open MPI, PMIx (srun), MPICH's Hydra, PALS.
LaunchId launch_of_environment();

/// Processes of this user that belong to other ranks of `launch`, ascending by rank; without those that have
/// ended. Those that a launcher's process has made for a rank, and in which it has not started the program
/// yet, are there with rank -1.
std::vector<Sibling> siblings_of(const LaunchId& launch);

/// The name of processes that are no ranks, though they have a rank's environment; at most 15 letters.
inline constexpr const char* helper_name = "trivium-end";

/// What is wrong with them: "rank 3 is stopped (process 4711, state T); 1 of 4 ranks of this node is not
/// there". Empty: nothing.
std::string describe(const LaunchId& launch, const std::vector<Sibling>& others);

} // namespace trivium
