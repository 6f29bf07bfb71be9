#pragma once
// How the program that started the ranks (mpirun) ends them.
#include "base/units.hpp"

#include <string>

namespace trivium {

/// Open MPI's mpirun (also orterun, prterun), if it started this process.
struct Launcher {
    bool is_mpirun = false;
    int process = 0;     ///< its process id if it is this process's parent, otherwise 0
    Seconds grace = 1;   ///< from the TERM that it sends its ranks to the KILL: odls_base_sigkill_timeout
    bool in_job = false; ///< in a job of a batch system, where Ctrl-C is not possible
};

Launcher launcher_of_environment();

/// One line on how to stop with a checkpoint more safely than by Ctrl-C; empty if Ctrl-C is safe.
std::string how_to_stop(const Launcher& launcher);
/// What the launcher does after its TERM, worded to follow "saving and stopping"; empty if unknown.
std::string what_follows_term(const Launcher& launcher);

} // namespace trivium
