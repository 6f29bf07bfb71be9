#pragma once
// When a run has to begin its stop so that everything is saved before its job's time limit.
#include "lifecycle/job_time.hpp"

namespace trivium {

/// Compares the time that is left with what a stop takes, as steps and saves of the run were measured. Rank 0
/// has one.
class Deadline {
public:
    /// `log_dir`: of the run, whose metrics say what earlier saves took. `save_bytes`: what this node writes
    /// in a save, for a guess before any save was measured.
    Deadline(const Job& job, const std::string& log_dir, Bytes save_bytes);

    /// Whether the stop has to begin now. Never waits.
    bool is_over() { return time_.is_over(lead()); }
    /// Whether a stop now may be too late for a save, by the first guess.
    bool is_late() const { return job_.end && job_.left() < max_lead_; }

    void step_took(Seconds seconds);
    void save_begins() { paused_at_save_ = paused_; }
    void save_took(Seconds seconds);

private:
    /// What a stop takes: a save and a step may just have begun; with a margin.
    Seconds lead() const;

    Job job_;
    JobTime time_;
    RecentTimes steps_;
    Seconds guess_;            ///< of a save
    Seconds longest_save_ = 0; ///< of this launch; before its first save, the newest of the run
    i64 saves_seen_ = 0;       ///< of this launch
    Seconds paused_ = 0;       ///< how long the job was suspended up to the last step
    Seconds paused_at_save_ = 0;
    Seconds max_lead_ = 1e30; ///< before a save was seen: half of the time that was left at the start
};

} // namespace trivium
