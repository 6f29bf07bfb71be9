#include "mpi/session.hpp"

#include "base/check.hpp"

#include <cstdlib>
#include <mpi.h>

namespace trivium {

namespace {

void check(int code, const char* call)
{
    if (code == MPI_SUCCESS)
        return;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    throw IoError({"MPI", str(call, " failed"), text, "check the launcher and the network"});
}

/// Set by mpirun (OpenMPI, MPICH's Hydra) and by srun's PMI plug-ins.
bool launched_as_rank()
{
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK", "PALS_RANKID"})
        if (std::getenv(name))
            return true;
    return false;
}

} // namespace

Session::Session()
{
    if (!launched_as_rank()) {
        // srun without a PMI plug-in starts tasks that do not know of each other: each would train the whole run.
        const char* tasks = std::getenv("SLURM_STEP_NUM_TASKS");
        const char* step = std::getenv("SLURM_STEP_ID");
        if (tasks && step && std::strtol(tasks, nullptr, 10) > 1)
            throw UserError({"srun", str("started ", tasks, " tasks without MPI's start-up interface"),
                             "no PMI variable is set, so each task would be a run of its own",
                             "use `srun --mpi=pmix` (`srun --mpi=list` shows what there is), or mpirun"});
        return;
    }
    int provided = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    started_ = true;
    check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(MPI_COMM_WORLD, &ranks_), "MPI_Comm_size");
}

Session::~Session()
{
    if (started_)
        MPI_Finalize();
}

void Session::abort(int exit_status) const
{
    if (started_)
        MPI_Abort(MPI_COMM_WORLD, exit_status);
    std::_Exit(exit_status);
}

std::string mpi_description()
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length = 0;
    MPI_Get_library_version(text, &length);
    const std::string line(text, static_cast<std::size_t>(length));
    return line.substr(0, line.find_first_of(",\n"));
}

} // namespace trivium
