#pragma once
// How much time a job has left, as Slurm reports it. Slurm is queried repeatedly, because limits are raised
// and lowered, and the limit of a suspended job is extended.
#include "lifecycle/job.hpp"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace trivium {

/// A job's end as squeue's %e prints it (SLURM_TIME_FORMAT=standard, in this machine's time zone).
struct JobEnd {
    bool known = false;       ///< squeue printed a time, or that there is no limit
    std::optional<i64> end{}; ///< seconds since 1970; none: no limit
};
JobEnd job_end_in(const std::string& text);

/// The output of a command, of less than 64 KiB, that ends with status 0 within `limit`; otherwise nullopt.
/// Kills the command after `limit`, or when `cancelled` becomes true, and waits for its end for up to 2 s.
/// Any thread may call it.
std::optional<std::string> output_of(const std::vector<std::string>& command, Seconds limit,
                                     const std::atomic<bool>& cancelled);

/// The input of judge().
struct TimeLeft {
    Seconds left = 0, lead = 0; ///< until the time limit; duration of a stop
    Seconds since_asked = 1e30; ///< since the last query of Slurm ended, with an answer or without
    Seconds waiting = -1;       ///< since a query began that has not ended; -1: there is none
};
enum class TimeVerdict { keep_running, ask, stop };
/// Whether to stop because of the time limit: only after a recent answer, or if no answer arrives within 6 s.
TimeVerdict judge(const TimeLeft& time);

/// The recent durations of a repeated operation.
class RecentTimes {
public:
    void add(Seconds time);
    /// The 90th percentile of the last 64; 0: none yet.
    Seconds usual() const;

private:
    std::vector<Seconds> times_;
    std::size_t next_ = 0;
};

/// The time limit of the job that this process belongs to, if any: a thread runs squeue once a minute, with a
/// timeout of 5 s. If squeue fails, the last known limit applies.
class JobTime {
public:
    explicit JobTime(const Job& job);
    JobTime(const JobTime&) = delete;
    JobTime& operator=(const JobTime&) = delete;
    ~JobTime();

    /// Whether a stop that takes `lead` has to begin now. Never waits: before the first true, the thread
    /// queries Slurm once more.
    bool is_over(Seconds lead);
    /// How long this process was suspended in total.
    Seconds paused() const;

private:
    void run();
    void suspended(Seconds time);
    void ask(std::unique_lock<std::mutex>& lock);

    Job job_;
    mutable std::mutex mutex_;
    std::condition_variable wake_;
    std::atomic<bool> over_{false};
    bool requested_ = false;
    Seconds asked_at_ = -1e30, requested_at_ = 0;
    Seconds paused_ = 0, last_run_ = 0; ///< total suspension; when the thread last ran
    std::thread thread_;                ///< last: it uses the others
};

} // namespace trivium
