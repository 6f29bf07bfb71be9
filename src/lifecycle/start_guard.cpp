#include "lifecycle/start_guard.hpp"

#include "base/activity.hpp"
#include "base/check.hpp"
#include "base/log.hpp"
#include "io/metrics/launches.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace trivium {

namespace {

constexpr std::chrono::milliseconds poll_interval(50);
constexpr std::chrono::milliseconds
    patience(1500); // the watchdog forwards the signal to rank 0 within half a second, and rank 0 logs it
constexpr int requeue = 75;

} // namespace

StartGuard::StartGuard(const RunSignals& signals, int rank)
    : signals_(signals), rank_(rank), thread_([this] { run(); })
{
}

void StartGuard::launch_began(const std::string& log_dir)
{
    const std::lock_guard lock(mutex_);
    log_dir_ = log_dir;
}

void StartGuard::release()
{
    {
        const std::lock_guard lock(mutex_);
        released_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable())
        thread_.join();
}

void StartGuard::run()
{
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, poll_interval, [this] { return released_; })) {
        const int signal = signals_.stop();
        if (signal == 0)
            continue;
        if (rank_ > 0 && wake_.wait_for(lock, patience, [this] { return released_; }))
            return;
        end_run(signal);
    }
}

void StartGuard::end_run(int signal)
{
    const std::string reason = str("signal ", name_of_signal(signal));
    const std::string line =
        str("stopped on ", reason, " before the first step, in ", Activity::of_process().read().phase,
            ": nothing to save yet; start the run again");
    if (rank_ == 0)
        log_info(line);
    else // whose log is quiet
        std::fprintf(stderr, "rank %d: %s\n", rank_, line.c_str());
    std::fflush(nullptr);
    try {
        leave_status(requeue);
        if (!log_dir_.empty())
            end_last_launch(log_dir_, requeue, reason);
    } catch (const Error&) { // the process must end; the log has the reason
    }
    std::_Exit(requeue);
}

} // namespace trivium
