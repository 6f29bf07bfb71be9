#include "mpi/session.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "mpi/grid.hpp"
#include "mpi/mpi_comm.hpp"
#include "mpi/nccl.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mpi.h>
#include <mutex>
#include <new>
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

/// Ends the process where what it waits for has not come in time: there is no watchdog yet, and no checkpoint to lose.
class Patience {
public:
    explicit Patience(const char* what)
        : thread_([this, what] {
              const char* given = std::getenv("TRIVIUM_START_LIMIT");
              const double limit = given ? std::strtod(given, nullptr) : 600;
              std::unique_lock lock(mutex_);
              if (limit <= 0 || over_.wait_for(lock, std::chrono::duration<double>(limit), [this] { return is_over_; }))
                  return;
              std::fprintf(stderr, "trivium: %s has not come back for %.0f s\n  reason: a rank did not start, or the network between the nodes does not carry MPI\n"
                           "  remedy: see whether `mpirun -n 2 hostname` and a small run on two nodes work; TRIVIUM_START_LIMIT sets the time (0: none)\n", what, limit);
              std::fflush(stderr);
              std::_Exit(1);
          })
    {
    }
    Patience(const Patience&) = delete;
    Patience& operator=(const Patience&) = delete;
    ~Patience()
    {
        {
            const std::lock_guard lock(mutex_);
            is_over_ = true;
        }
        over_.notify_all();
        thread_.join();
    }

private:
    std::mutex mutex_;
    std::condition_variable over_;
    bool is_over_ = false;
    std::thread thread_; ///< last: it uses the others
};

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
        world_ = make_self_comm();
        prepare_device_environment(1);
        return;
    }
    int provided = 0;
    {
        const Patience patience("the start of MPI");
        check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
        started_ = true;
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
    world_.reset();
    if (started_)
        MPI_Finalize();
}

void Session::abort(int exit_status) const
{
    std::fflush(nullptr);
    leave_status(exit_status);
    if (started_) // the message travels through the launcher, which has its own to print
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

int run_session(const std::function<int(Session&)>& body)
{
    Session session;
    if (session.ranks() == 1)
        return body(session);
    try {
        return body(session);
    } catch (const Error& error) {
        const auto* agreed = dynamic_cast<const Agreed*>(&error);
        if (!agreed || agreed->rank() == 0)
            print_error(error.what());
        if (agreed && agreed->members() == session.ranks())
            return leave_status(error.exit_status());
        if (agreed && agreed->rank() > 0) // the first of the group speaks, and ends this rank too
            std::this_thread::sleep_for(std::chrono::seconds(5));
        session.abort(error.exit_status());
    } catch (const std::bad_alloc&) {
        print_error(str("rank ", session.rank(), ": out of memory\n  remedy: `trivium plan` shows what a run needs").c_str());
    } catch (const std::exception& error) {
        print_error(str("rank ", session.rank(), ": internal error: ", error.what()).c_str());
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
