#include "mpi/session.hpp"

#include "base/address_space.hpp"
#include "base/check.hpp"
#include "base/log.hpp"
#include "mpi/grid.hpp"
#include "mpi/mpi_comm.hpp"
#include "mpi/nccl.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mpi.h>
#include <optional>
#include <string_view>
#include <thread>

namespace trivium {

namespace {

/// Set by mpirun (OpenMPI, MPICH's Hydra) and by srun's PMI plug-ins.
bool launched_as_rank()
{
    for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK", "PALS_RANKID"})
        if (std::getenv(name))
            return true;
    return false;
}

/// On one node Open MPI needs no TCP. Whatever connects to its ports (another user, a port scanner) and stays
/// stalls the rank. A value of the user's stays.
void close_tcp_on_one_node()
{
    const char *all = std::getenv("OMPI_COMM_WORLD_SIZE"), *here = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE"),
               *nodes = std::getenv("SLURM_STEP_NUM_NODES");
    if (all && here ? std::string_view(all) == here : nodes && std::string_view(nodes) == "1")
        setenv("OMPI_MCA_btl", "^tcp,ofi", 0); // ofi: libfabric over TCP
}

} // namespace

Session::Session(const LaunchWatchConfig& watch)
{
    if (!launched_as_rank()) {
        // srun without a PMI plug-in starts independent tasks: each would train the whole run.
        const char* tasks = std::getenv("SLURM_STEP_NUM_TASKS");
        const char* step = std::getenv("SLURM_STEP_ID");
        if (tasks && step && std::strtol(tasks, nullptr, 10) > 1)
            throw UserError({"srun", str("started ", tasks, " tasks without MPI's start-up interface"),
                             "no PMI variable is set, so each task would be a separate run",
                             "use `srun --mpi=pmix` (`srun --mpi=list` lists what is available), or mpirun"});
        world_ = make_self_comm();
        prepare_device_environment(1);
        return;
    }
    int provided = 0;
    {
        const LaunchWatch waits("the start of MPI", watch);
        close_tcp_on_one_node();
        check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
        started_ = true;
        if (provided < MPI_THREAD_FUNNELED)
            throw UserError({"MPI", "does not support programs with threads (MPI_THREAD_FUNNELED)",
                             "kernels and saves run on threads",
                             "install an MPI library that was built with support for threads"});
        world_ = make_mpi_world(node_name());
    }
    if (world_->size() == 1)
        world_ = make_self_comm();
    rank_ = world_->rank();
    ranks_ = world_->size();
    prepare_device_environment(ranks_);
}

Session::~Session()
{
    std::optional<LaunchWatch> waits;
    if (started_ && status_ >= 0)
        waits.emplace("the end of MPI", LaunchWatchConfig{.on_hang = [status = status_](const std::string&) {
                          return status;
                      }});
    world_.reset();
    if (started_)
        MPI_Finalize();
    if (waits) {
        waits.reset();
        reap_stopped_ranks();
    }
}

int Session::end_together(int status)
{
    if (started_ && ranks_ > 1)
        agree(*world_, 0);
    return status_ = status;
}

void Session::abort(int exit_status) const
{
    std::fflush(nullptr);
    leave_status(exit_status);
    if (started_) // give the launcher time to forward the message before its own
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
    if (started_)
        MPI_Abort(MPI_COMM_WORLD, exit_status);
    std::_Exit(exit_status);
}

namespace {

void print_error(const char* what)
{
    log_progress("");
    std::fprintf(stderr, "trivium: %s\n", what);
}

} // namespace

int run_session(const std::function<int(Session&)>& body, const LaunchWatchConfig& watch)
{
    Session session(watch);
    if (session.ranks() == 1)
        return body(session);
    try {
        return body(session);
    } catch (const Error& error) {
        const auto* agreed = dynamic_cast<const Agreed*>(&error);
        if (!agreed)
            print_error(str("rank ", session.rank(), ": ", error.what()).c_str());
        else if (agreed->rank() == 0)
            print_error(error.what());
        if (agreed && agreed->members() == session.ranks())
            return session.ends_with(leave_status(error.exit_status()));
        if (agreed && agreed->rank() > 0) // the first rank of the group prints and ends this rank too
            std::this_thread::sleep_for(std::chrono::seconds(5));
        session.abort(error.exit_status());
    } catch (const std::exception& error) {
        print_error(str("rank ", session.rank(), ": ", describe_exception(error)).c_str());
    }
    session.abort(1);
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
