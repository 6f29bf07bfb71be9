#include "lifecycle/launcher.hpp"

#include "base/check.hpp"

#include <cstdlib>
#include <fstream>
#include <unistd.h>

namespace trivium {

namespace {

constexpr Seconds enough = 10; // for a save on one machine

} // namespace

Launcher launcher_of_environment()
{
    Launcher launcher;
    launcher.is_mpirun = std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr; // srun sets none
    for (const char* name :
         {"PRTE_MCA_odls_base_sigkill_timeout", "OMPI_MCA_odls_base_sigkill_timeout"}) // Open MPI 5, 4
        if (const char* value = std::getenv(name))
            launcher.grace = std::strtod(value, nullptr);
    for (const char* name : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID"})
        launcher.in_job = launcher.in_job || std::getenv(name) != nullptr;
    std::ifstream file(str("/proc/", ::getppid(), "/comm"));
    std::string name;
    if (file >> name && (name == "mpirun" || name == "orterun" || name == "prterun" || name == "mpiexec"))
        launcher.process = ::getppid();
    return launcher;
}

std::string how_to_stop(const Launcher& l)
{
    if (!l.is_mpirun || l.in_job || l.grace >= enough)
        return "";
    return str(
        "to stop with a checkpoint: kill -USR1 ", l.process > 0 ? std::to_string(l.process) : "PID_OF_MPIRUN",
        "; on Ctrl-C, mpirun kills its ranks after ", l.grace,
        " s, saved or not, unless OMPI_MCA_odls_base_sigkill_timeout=", enough, " is set in its environment");
}

std::string what_follows_term(const Launcher& l)
{
    if (!l.is_mpirun)
        return "";
    return str("; mpirun kills the ranks ", l.grace, " s after this signal unless they have ended");
}

} // namespace trivium
