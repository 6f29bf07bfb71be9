#pragma once
// Duration of Steps. An op that computes takes a launch and the larger of FLOPs / (FLOP/s x efficiency) and
// bytes / (bandwidth x efficiency), with the machine's efficiencies (the roofline model, Williams et al.
// 2009); products are less efficient the smaller they are. A transfer takes a latency and bytes / bandwidth.
// docs/planner.md has the formulas.
#include "passes/sharding/partition.hpp"
#include "plan/machine.hpp"
#include "schedule/timeline.hpp"

namespace trivium {

/// Bytes that a rank sends for one run of a communicating op: for a collective averaged over the ranks, for
/// an exchange of boxes (ir/exchange.hpp) those of the graph's rank, for a receive 0.
Bytes bytes_sent(const Graph& graph, const Op& op);
/// The same, of the average rank of the axes.
Bytes mean_bytes_sent(const Graph& graph, const Op& op);

/// Duration of a collective along an axis: start + messages (twice for an all-reduce) + bytes sent /
/// bytes_per_second. On devices, of NCCL's algorithm and protocol that is the fastest for its bytes.
struct TransferCost {
    Seconds start = 0, messages = 0;
    double bytes_per_second = 0;
    bool between_nodes = false; ///< some messages leave a node
    double share = 0;           ///< of a device's compute, that it takes while it runs
};
/// Of a collective in one direction that sends `bytes`.
TransferCost transfer_cost(const std::string& axis, const Mesh& mesh, const Machine& machine,
                           Bytes bytes = Bytes{1} << 30);

/// The price of a FLOP on one thread or device: bytes that a collective over `ranks` ranks sends meanwhile.
WorkPrices work_prices(const Machine& machine, i64 ranks);

/// Duration of each op, by op, on `threads` threads of `machine`, as if no other op ran; on the slowest of
/// the mesh's ranks.
std::vector<Seconds> op_seconds(const Graph& graph, const Machine& machine, i64 threads);

/// op_seconds(), but of a transfer how long the rank may compute meanwhile: on CPUs, less what it copies.
std::vector<Seconds> overlap_seconds(const Graph& graph, const Machine& machine, i64 threads);

/// The program of one rank. What it points to must outlive it.
struct StageProgram {
    const Graph* graph = nullptr;
    const Schedule* schedule = nullptr;
    const Timeline* measured = nullptr; ///< if not null, Steps that do not communicate take as long as in it
};

/// Simulates ranks on one clock: the first rank of each stage, or all ranks. A receive ends when its message
/// has been sent. A collective takes the same time on all ranks of its group. It begins when those of them
/// that are simulated have come to it, an exchange of boxes when those have that send something to the rank.
/// Collectives of several axes that use the same link at a time, within a node or between nodes, slow each
/// other down. While a collective runs, a device computes more slowly; on CPUs, copies between ranks of a
/// node delay compute. `begins`: when each rank begins; empty: at 0. Throws InternalError if ranks wait for
/// each other forever. \pre `ranks` has senders and receivers of all messages
std::vector<Timeline> simulate(const std::vector<StageProgram>& ranks, const Machine& machine, i64 threads,
                               const std::vector<Seconds>& begins = {});

/// Simulates one Schedule alone: no peer delays a message or a collective.
Timeline simulate(const Graph& graph, const Schedule& schedule, const Machine& machine, i64 threads);

/// Model FLOPs of one optimizer step: three times the FLOPs of the graph's forward ops (forward once,
/// backward twice: a product's gradients of both operands), times `microbatches`. The gradient of what only
/// frozen parameters make does not count, as it is not computed. Attention counts the keys that a query sees
/// (causal: half and the diagonal). Recomputation and element-wise ops count 0.
Flops model_flops(const Graph& graph, i64 microbatches);

} // namespace trivium
