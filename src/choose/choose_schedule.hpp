#pragma once
// parallel.schedule = "auto", and parallel.update = "auto".
#include "choose/estimator.hpp"

namespace trivium {

/// With values for parallel.schedule, parallel.update and train.micro_batch; the other settings that are
/// "auto" stay so. If the schedule is "auto": an order that on the simulator's clock is never slower than the
/// named schedules that fit parallel.memory_limit, or without one the device's memory (on hosts: that keep no
/// more activations than zb-h2); ParallelConfig::schedule_near names the schedule from which it was found. If
/// train.micro_batch is 0 then, the microbatch with the shortest step, too; without several microbatches to
/// choose from, all of a data rank's sequences. If the update is "auto": synchronous, or post-validated where
/// that fits and makes the step shorter by at least 1 %. Decided for deciding_machine(), so it does not
/// depend on where the run is. Throws UserError if the schedule does not fit the model.
Candidate choose_schedule(const RunConfig& config, Estimator& estimator);

} // namespace trivium
