#pragma once
// Duration of Steps. Of an op that computes: the larger of work / FLOP/s and bytes / bandwidth, each times
// the efficiency that the machine's table states for its kind, plus a launch. Of a transfer: a latency, and
// bytes / bandwidth.
#include "passes/partition.hpp"
#include "plan/machine.hpp"
#include "schedule/timeline.hpp"

namespace trivium {

/// Bytes that a rank sends for one run of a communicating op: of a collective averaged over the ranks, of an
/// exchange of boxes those of this rank.
Bytes bytes_sent(const Graph& graph, const Op& op);

/// What a collective along an axis takes: start + messages (twice for an all-reduce) + bytes sent /
/// bytes_per_second.
struct TransferCost {
    Seconds start = 0, messages = 0;
    double bytes_per_second = 0;
    bool between_nodes = false; ///< some messages leave a node
};
TransferCost transfer_cost(const std::string& axis, const Mesh& mesh, const Machine& machine);

/// What a FLOP costs if the bytes of collectives over `ranks` ranks cost 1 each, on one thread or device.
WorkPrices work_prices(const Machine& machine, i64 ranks);

/// Duration of each op in seconds, on `threads` threads of `machine`.
std::vector<Seconds> op_seconds(const Graph& graph, const Machine& machine, i64 threads);

/// The programs of all stages of a pipeline.
struct StageProgram {
    const Graph* graph = nullptr;
    const Schedule* schedule = nullptr;
};

/// Simulates all stages on one clock: a message arrives when its sender has sent it; other transfers take the
/// same time on all ranks of their group; those of all stages begin on all at the same time. Collectives of
/// several axes that use the same link at a time,
/// within a node or between nodes, slow each other down. Throws InternalError if stages wait for each other
/// forever. On CPUs, copies between ranks of a node delay the computation.
/// `begins`: when each stage begins; empty: at 0.
std::vector<Timeline> simulate(const std::vector<StageProgram>& stages, const Machine& machine, i64 threads,
                               const std::vector<Seconds>& begins = {});

/// Simulates one Schedule on the same clock; messages arrive when they are asked for. With `measured`, Steps
/// that do not communicate take as long as there.
Timeline simulate(const Graph& graph, const Schedule& schedule, const Machine& machine, i64 threads,
                  const Timeline* measured = nullptr);

/// Model FLOPs of one optimizer step: three times those of the forward ops (forward once, backward twice),
/// for all microbatches. Attention counts the keys that a query sees (causal: half and the diagonal).
/// Recomputation and element-wise ops count nothing.
Flops model_flops(const Graph& graph, i64 microbatches);

} // namespace trivium
