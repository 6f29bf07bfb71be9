#pragma once
// parallel.schedule = "auto", and parallel.update = "auto".
#include "choose/estimator.hpp"

namespace trivium {

/// The config with an order for its schedule and a value for parallel.update; other settings that are "auto"
/// stay "auto".
/// - parallel.schedule = "auto" on several pipeline ranks: of the order that the search finds and the three
///   best named schedules, the one with the shortest simulated step within parallel.memory_limit, or without
///   a limit within the device's memory (on hosts: that keeps no more activations than zb-h2). schedule_near
///   names the schedule from which it was found.
/// - train.micro_batch = 0, with that: also the microbatch with the shortest step, of the powers of two that
///   divide a data rank's sequences into at most 32 microbatches per pipeline rank; without any, all
///   sequences. With a memory limit, the step with what with_memory_policy() then recomputes.
/// - parallel.update = "auto": synchronous, or post-validated where that fits and shortens the step by 1 %.
/// Decided for deciding_machine(), so it does not depend on where the run is. Throws UserError if the
/// schedule does not fit the model.
Candidate choose_schedule(const RunConfig& config, Estimator& estimator);

} // namespace trivium
