#pragma once
// How long Steps take by a roofline: the larger of work over peak and bytes over bandwidth, plus a launch.
#include "plan/machine.hpp"
#include "schedule/timeline.hpp"

namespace trivium {

/// Bytes that a rank sends for one run of a communicating op, on average.
Bytes bytes_sent(const Graph& graph, const Op& op);

/// Seconds of each Step on `threads` threads of `machine`.
std::vector<Seconds> step_seconds(const Graph& graph, const Schedule& schedule, const Machine& machine,
                                  i64 threads);

/// What the stages of a pipeline run, each at its place.
struct StageProgram {
    const Graph* graph = nullptr;
    const Schedule* schedule = nullptr;
};

/// The stages on one clock: a message arrives when its sender has sent it; other moves take the same time on
/// all ranks of their group. Throws InternalError where stages wait for each other for ever.
std::vector<Timeline> simulate(const std::vector<StageProgram>& stages, const Machine& machine, i64 threads);

/// The Schedule on the machine's clock.
Timeline simulate(const Graph& graph, const Schedule& schedule, const Machine& machine, i64 threads);

/// Model flops of one optimizer step: three times the forward ops' (forward once, backward twice), for all
/// microbatches. Attention counts the keys that a query sees (causal: half and the diagonal); recomputation
/// and element-wise work count nothing.
Flops model_flops(const Graph& graph, i64 microbatches);

} // namespace trivium
