#pragma once
// How long Steps take by a roofline: the larger of work over peak and bytes over bandwidth, plus a launch.
#include "plan/machine.hpp"
#include "schedule/timeline.hpp"

namespace trivium {

/// Seconds of each Step on `threads` threads of `machine`.
std::vector<Seconds> step_seconds(const Graph& graph, const Schedule& schedule, const Machine& machine, i64 threads);

/// The Schedule on the machine's clock.
Timeline simulate(const Graph& graph, const Schedule& schedule, const Machine& machine, i64 threads);

/// Model flops of one optimizer step: three times the forward ops' (forward once, backward twice), for all
/// microbatches. Attention counts the keys that a query sees (causal: half and the diagonal); recomputation and
/// element-wise work count nothing.
Flops model_flops(const Graph& graph, i64 microbatches);

} // namespace trivium
