#pragma once
// How the program that started the ranks ends them.
#include "base/units.hpp"

#include <string>

namespace trivium {

/// Open MPI's mpirun (also orterun, prterun), where one started this process.
struct Launcher {
    bool is_mpirun = false;
    int process = 0;     ///< its process id, where it runs on this node; else 0
    Seconds grace = 1;   ///< between the TERM that it sends its ranks and the KILL: odls_base_sigkill_timeout
    bool in_job = false; ///< of a batch system, where nobody types Ctrl-C
};

Launcher launcher_of_environment();

/// One line on how to stop with a checkpoint more safely than by Ctrl-C; empty where Ctrl-C is safe.
std::string how_to_stop(const Launcher& launcher);
/// What the launcher does after the TERM that it sent, to follow "saving and stopping"; empty where that is
/// unknown.
std::string what_follows_term(const Launcher& launcher);

} // namespace trivium
