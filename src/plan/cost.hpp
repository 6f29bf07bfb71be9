#pragma once
// Duration of Steps by a roofline model: the larger of work / peak and bytes / bandwidth, plus a launch.
#include "plan/machine.hpp"
#include "schedule/timeline.hpp"

namespace trivium {

/// Bytes that a rank sends for one run of a communicating op, averaged over the ranks.
Bytes bytes_sent(const Graph& graph, const Op& op);

/// Duration of each Step in seconds, on `threads` threads of `machine`.
std::vector<Seconds> step_seconds(const Graph& graph, const Schedule& schedule, const Machine& machine,
                                  i64 threads);

/// The programs of all stages of a pipeline.
struct StageProgram {
    const Graph* graph = nullptr;
    const Schedule* schedule = nullptr;
};

/// Simulates all stages on one clock: a message arrives when its sender has sent it; other transfers take the
/// same time on all ranks of their group. Throws InternalError if stages wait for each other forever.
std::vector<Timeline> simulate(const std::vector<StageProgram>& stages, const Machine& machine, i64 threads);

/// Simulates the Schedule on the machine's clock.
Timeline simulate(const Graph& graph, const Schedule& schedule, const Machine& machine, i64 threads);

/// Model FLOPs of one optimizer step: three times those of the forward ops (forward once, backward twice),
/// for all microbatches. Attention counts the keys that a query sees (causal: half and the diagonal).
/// Recomputation and element-wise ops count nothing.
Flops model_flops(const Graph& graph, i64 microbatches);

} // namespace trivium
