#pragma once
// Decides when a run must begin to stop, so that it is saved before its job's time limit.
#include "lifecycle/job_time.hpp"

namespace trivium {

/// Compares the remaining time with the duration of a stop, by measured steps and saves. For rank 0.
class Deadline {
public:
    /// `log_dir`: its metrics contain the durations of earlier saves. `save_bytes`: bytes that this node
    /// writes per save, for an estimate before the first measured save.
    Deadline(const Job& job, const std::string& log_dir, Bytes save_bytes);

    /// Whether the stop has to begin now. Never waits.
    bool is_over() { return time_.is_over(lead()); }
    /// Whether less than half of the time that was left at the start of the launch is left: a signal to stop
    /// may then come from the job's time limit.
    bool is_late() const { return job_.end && job_.left() < max_lead_; }

    void step_took(Seconds seconds);
    void save_begins() { paused_at_save_ = paused_; }
    void save_took(Seconds seconds);

private:
    /// Duration of a stop, with a margin: a save and a step may just have begun.
    Seconds lead() const;

    Job job_;
    JobTime time_;
    RecentTimes steps_;
    Seconds guess_;            ///< estimated duration of a save
    Seconds longest_save_ = 0; ///< of this launch; before its first save, the newest save of the run
    i64 saves_seen_ = 0;       ///< saves of this launch
    Seconds paused_ = 0;       ///< total suspension of the job up to the last step
    Seconds paused_at_save_ = 0;
    Seconds max_lead_ = 1e30; ///< of lead() before the first save: half of the time left at the start
};

} // namespace trivium
