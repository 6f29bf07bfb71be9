#pragma once
// The order in which a pipeline rank runs the forward and backward passes of its microbatches.
#include "config/run_config.hpp"
#include "ir/graph.hpp"

namespace trivium {

struct Task {
    Phase phase = Phase::forward;
    i64 microbatch = 0;
    bool operator==(const Task&) const = default;
};

/// The tasks of stage `stage` of `stages`, in order. GPipe (Huang et al. 2019): every forward, then every
/// backward, first in first out. 1F1B (Narayanan et al. 2021, "PipeDream-Flush"): first stages - stage - 1
/// forward passes, then forward and backward passes alternate.
std::vector<Task> pipeline_order(ScheduleKind kind, i64 stage, i64 stages, i64 microbatches);

/// Maximum number of microbatches whose forward pass has begun and whose backward pass has not ended: the
/// slots that activations need.
i64 in_flight(const std::vector<Task>& tasks);

} // namespace trivium
