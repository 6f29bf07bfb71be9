#pragma once
// How much time a job has left: Slurm's word, asked anew from time to time, as limits are raised and lowered,
// and suspended jobs get their time back.
#include "lifecycle/job.hpp"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace trivium {

/// What squeue's %e (SLURM_TIME_FORMAT=standard, this machine's time zone) says of a job's end.
struct JobEnd {
    bool known = false;       ///< it is a time, or says that there is none
    std::optional<i64> end{}; ///< seconds since 1970; none: no limit
};
JobEnd job_end_in(const std::string& text);

/// What a command prints, where it ends with status 0 within `limit`; else it is killed, also where
/// `given_up` becomes true. Any thread may call it.
std::optional<std::string> output_of(const std::vector<std::string>& words, Seconds limit,
                                     const std::atomic<bool>& given_up);

/// Whether to stop for the end of the time.
struct TimeLeft {
    Seconds left = 0, lead = 0; ///< until the end, and what a stop takes
    Seconds tried = 1e30;       ///< since Slurm was last asked, with an answer or without
    Seconds waiting = -1;       ///< for the answer that is under way; -1: none is
};
enum class TimeVerdict { go_on, ask, stop };
/// Nobody stops by an end that was not asked for just before, and nobody waits for an answer for long.
TimeVerdict judge(const TimeLeft& time);

/// The last durations of something that is done again and again.
class RecentTimes {
public:
    void add(Seconds time);
    /// That nine of ten do not exceed, of the last 64; of several, never the longest alone. 0: none yet.
    Seconds usual() const;

private:
    std::vector<Seconds> times_;
    std::size_t next_ = 0;
};

/// Of the job that this process is in, if it is in one: a thread asks Slurm once a minute, in a process of
/// its own, which has 5 s. Where that fails, what was known stays.
class JobTime {
public:
    explicit JobTime(const Job& job);
    JobTime(const JobTime&) = delete;
    JobTime& operator=(const JobTime&) = delete;
    ~JobTime();

    /// Whether a stop that takes `lead` has to begin now. Never waits; the first time that it would be so, it
    /// has Slurm asked first.
    bool is_over(Seconds lead);
    /// How long this process was suspended, in all.
    Seconds paused() const;

private:
    void run();
    void suspended(Seconds time);
    void ask(std::unique_lock<std::mutex>& lock);

    Job job_;
    mutable std::mutex mutex_;
    std::condition_variable wake_;
    std::atomic<bool> over_{false};
    bool wanted_ = false;
    Seconds tried_ = -1e30, wanted_since_ = 0;
    Seconds paused_ = 0, looked_ = 0; ///< suspended in all; when the thread last ran
    std::thread thread_;              ///< last: it uses the others
};

} // namespace trivium
