#pragma once
// What the program that started the ranks does to them when it is told to end.
#include "base/units.hpp"

#include <string>

namespace trivium {

/// Open MPI's mpirun (also orterun, prterun), where one started this process.
struct Launcher {
    bool is_mpirun = false;
    int process = 0;     ///< its number, where it runs on this node; else 0
    Seconds grace = 1;   ///< between the TERM that it sends its ranks and the KILL: odls_base_sigkill_timeout
    bool in_job = false; ///< a batch system's, so that nobody types Ctrl-C
};

Launcher launcher_of_environment();

/// What it takes for a checkpoint to be surer than by Ctrl-C, in one line; empty where there is nothing to
/// say.
std::string how_to_stop(const Launcher& launcher);
/// What follows a TERM that the launcher sent, for behind "saving and stopping"; empty where nothing is
/// known.
std::string what_follows_term(const Launcher& launcher);

} // namespace trivium
