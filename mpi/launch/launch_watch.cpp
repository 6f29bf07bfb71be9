#include "mpi/launch/launch_watch.hpp"

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/helper_process.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <unistd.h>

namespace trivium {

namespace {

constexpr Seconds turn = 1;           ///< between two checks
constexpr Seconds stopped_limit = 30; ///< how long a rank may be stopped
constexpr Seconds asked_limit = 10;   ///< from a signal to the end of a start that does not finish
constexpr Seconds writing = 5;        ///< for writing the record of a hang
constexpr Seconds leaving = 5;        ///< for the other processes to exit after the end of MPI
constexpr int status_again = 75;

bool is_stopped(const Sibling& each) { return each.state == 'T' || each.state == 't'; }

} // namespace

Seconds start_limit(int ranks)
{
    const char* given = std::getenv("TRIVIUM_START_LIMIT");
    return given ? std::strtod(given, nullptr) : std::min(600.0, 50 + 0.25 * ranks);
}

LaunchVerdict judge(const LaunchWait& wait, Seconds limit, int rank)
{
    TRV_EXPECT(limit > 0, "a limit of ", limit, " s");
    if (wait.asked >= asked_limit)
        return LaunchVerdict::stop;
    // One rank reports per node, and one for all nodes; if it is silent, the next one does.
    if (wait.stopped >= std::min(stopped_limit, limit) + wait.before ||
        wait.waited >= limit + 0.5 * std::clamp(rank, 0, 60))
        return LaunchVerdict::hung;
    return LaunchVerdict::wait;
}

LaunchWatch::LaunchWatch(const char* what, LaunchWatchConfig config)
    : what_(what), config_(std::move(config)), launch_(launch_of_environment()), thread_([this] { run(); })
{
}

LaunchWatch::~LaunchWatch()
{
    {
        const std::lock_guard lock(mutex_);
        is_over_ = true;
    }
    over_.notify_all();
    thread_.join();
}

void LaunchWatch::run()
{
    const Seconds limit = start_limit(launch_.ranks);
    if (limit <= 0)
        return;
    Seconds begin = now(), before = begin, free = begin, asked = -1; // `free`: when no rank was seen stopped
    std::unique_lock lock(mutex_);
    while (!over_.wait_for(lock, std::chrono::duration<double>(turn), [this] { return is_over_; })) {
        const Seconds time = now();
        if (time - before > suspension_gap) // this process was stopped too
            begin = free = time;
        before = time;
        if (asked < 0 && config_.asked && config_.asked())
            asked = time;
        const bool ended = config_.ended_by_launcher && config_.ended_by_launcher();
        LaunchWait wait{.waited = time - begin, .asked = ended ? asked_limit : asked < 0 ? -1 : time - asked};
        std::vector<Sibling> others;
        if (wait.waited > 2 * turn) { // do not inspect other processes during a normal start
            others = siblings_of(launch_);
            if (std::none_of(others.begin(), others.end(), is_stopped))
                free = time;
            wait.stopped = time - free;
            for (const Sibling& each : others)
                wait.before += !is_stopped(each) && each.rank >= 0 && each.rank < launch_.rank ? 1 : 0;
        }
        const LaunchVerdict verdict = judge(wait, limit, launch_.rank);
        if (verdict == LaunchVerdict::stop) {
            if (!ended || launch_.rank == 0)
                std::fprintf(
                    stderr,
                    "trivium: rank %d: stopped on a signal during %s, before there was anything to save\n",
                    launch_.rank, what_);
            std::fflush(stderr);
            std::_Exit(ended ? status_again : leave_status(status_again)); // MPI did not finish
        }
        if (verdict == LaunchVerdict::hung)
            end_hung(others, wait.waited);
    }
}

void LaunchWatch::end_hung(const std::vector<Sibling>& others, Seconds waited) const
{
    const std::string seen = describe(launch_, others);
    const std::string cause = str(what_, " has not finished after ", static_cast<int>(waited), " s",
                                  seen.empty() ? "" : ": " + seen);
    std::fprintf(
        stderr,
        "trivium: the run hangs: rank %d: %s\n%s  remedy: %s; TRIVIUM_START_LIMIT sets the time (0: none)\n",
        launch_.rank, cause.c_str(),
        seen.empty() ? "  reason: a rank on another node is late, or MPI cannot use the network between the "
                       "nodes\n"
                     : "",
        seen.empty() ? "check whether `mpirun -n 2 hostname` and a small run on two nodes work"
                     : "find out what stopped or ended it; the run resumes when it is started again");
    std::fflush(stderr);
    // On a separate thread, because the disk may be what hangs.
    auto written = std::make_shared<std::promise<int>>();
    std::future<int> done = written->get_future();
    std::thread([written, cause, on_hang = config_.on_hang] {
        int status = status_again;
        try {
            if (on_hang)
                status = on_hang("hang: " + cause);
        } catch (const std::exception&) { // already logged
        }
        written->set_value(leave_status(status));
    }).detach();
    const int status = done.wait_for(std::chrono::duration<double>(writing)) == std::future_status::ready
                           ? done.get()
                           : status_again;
    for (const Sibling& each : others)
        if (each.rank < 0 && is_stopped(each))
            ::kill(each.process, SIGKILL);
    std::_Exit(status);
}

namespace {

/// Waits until all ranks of the node have exited.
void wait_for_ranks(LaunchId launch)
{
    launch.rank = -1; // include the rank that made this process
    const Seconds limit = std::min(stopped_limit, start_limit(launch.ranks));
    Seconds begin = now(), before = begin, free = begin, pause = 0.01;
    for (;;) {
        std::vector<Sibling> ranks = siblings_of(launch);
        std::erase_if(ranks, [](const Sibling& each) { return each.rank < 0; });
        const Seconds time = now();
        if (time - before > suspension_gap) // this process was stopped too
            begin = free = time;
        before = time;
        const bool any = std::any_of(ranks.begin(), ranks.end(), is_stopped);
        if (!any)
            free = time;
        if (ranks.empty() || (!any && time - begin >= leaving))
            return;
        if (any && time - free >= limit)
            for (const Sibling& each : ranks)
                if (is_stopped(each))
                    ::kill(each.process, SIGKILL);
        std::this_thread::sleep_for(std::chrono::duration<double>(pause));
        pause = std::min(2 * pause, 0.5);
    }
}

} // namespace

void reap_stopped_ranks()
{
    const LaunchId launch = launch_of_environment();
    if (launch.rank < 0 || launch.ranks == 1 || start_limit(launch.ranks) <= 0)
        return;
    int before = 0;
    for (const Sibling& each : siblings_of(launch))
        before += each.rank >= 0 && each.rank < launch.rank && !is_stopped(each) ? 1 : 0;
    if (before > 1 || ::fork() != 0)
        return;
    become_helper();
    ::setsid();
    ::close_range(0, ~0U, 0); // the launcher waits until they are closed
    try {
        wait_for_ranks(launch);
    } catch (const std::exception&) { // best effort
    }
    std::_Exit(0);
}

} // namespace trivium
