#pragma once
// The Slurm job that a run belongs to.
#include "base/units.hpp"

#include <optional>
#include <string>

namespace trivium {

struct Job {
    std::string id{};       ///< empty: not in a job
    i64 restart = 0;        ///< how often it was requeued
    std::optional<i64> end; ///< its time limit, seconds since 1970

    /// Seconds until `end`; negative after it. \pre `end` has a value
    Seconds left() const;
};

/// Reads SLURM_JOB_ID, SLURM_RESTART_COUNT and SLURM_JOB_END_TIME (0: no limit).
Job job_of_environment();

} // namespace trivium
