#pragma once
// The Schedule: ordered Steps over buffers. The executor runs it, the simulator computes its duration, and
// `explain` prints it.
//
// Steps of one queue run in the order of the list, and the list is one legal order of all Steps. A Step waits
// for the last write to each buffer that it reads and for the last accesses to each buffer that it writes.
// Buffers get their offsets in the arena from memory.hpp.
#include "base/short_list.hpp"
#include "config/run_config.hpp"
#include "ir/ops/op_table.hpp"
#include "schedule/order.hpp"
#include "schedule/roots.hpp"

#include <array>
#include <string>
#include <vector>

namespace trivium {

using StepId = Id<struct StepTag>;
using BufferId = Id<struct BufferTag>;

/// The purpose of a buffer; the rows of the memory table.
enum class MemoryKind {
    parameters,
    optimizer,
    constants,
    cache,
    compute_copies,
    gradients,
    inputs,
    activations,
    backward,
    update,
    validation,
    scratch
};
inline constexpr int memory_kind_count = 12;
template <>
inline constexpr std::array<std::string_view, memory_kind_count> names_of_enum<MemoryKind>{
    "parameters",       "optimizer states",    "constants",  "KV cache",
    "parameter copies", "gradients",           "inputs",     "activations",
    "backward",         "norm and statistics", "validation", "scratch"};

/// A range of the arena of its space. A microbatch value has one buffer per slot, which the microbatches of
/// that slot share.
struct Buffer {
    std::string name;
    Bytes bytes = 0;
    Bytes offset = -1; ///< from the arena's start; -1 until memory is planned
    Lifetime lifetime = Lifetime::microbatch;
    MemoryKind kind = MemoryKind::activations;
    Space space = Space::device; ///< of its arena
};

enum class StepKind {
    op,    ///< runs the op
    feed,  ///< the host provides the content of a value
    fetch, ///< the host reads a value
};

struct Step {
    StepKind kind = StepKind::op;
    OpId op;                ///< for op
    ValueId value;          ///< for feed and fetch
    i64 microbatch = -1;    ///< -1: of the step region
    bool overwrite = false; ///< the accumulator is still zero, so the accumulating op writes
    int queue = 0;
    ShortList<StepId, 4> waits;               ///< earlier Steps on other queues that must have ended
    ShortList<BufferId, 4> operands, results; ///< a feed has only results, a fetch only operands
    BufferId scratch;                         ///< invalid: none
};

inline constexpr i64 every_microbatch = i64{1} << 62;

struct Schedule {
    /// "compute", "host_to_device", "device_to_host", then those that some op uses: one per axis of
    /// collectives, one per peer, direction and tag of messages, and the HostQueues.
    std::vector<std::string> queues;
    std::vector<Step> steps;
    std::vector<Buffer> buffers;
    std::vector<ColumnsIn> columns; ///< by value: its place in its buffer; empty: all are dense
    /// Index of the first Step after the decision, where all ranks decide together whether the next Steps
    /// run. No earlier Step updates a parameter or an optimizer state. With a post-validated update the
    /// decision is early, and about the previous step.
    std::size_t decision = 0;
    bool decides_early = false;
    i64 microbatches = 1;
    i64 slots = 1; ///< the largest number of microbatches of which one value has buffers
    /// Microbatches from this one on have the same overlaps as earlier ones, so memory planning skips them.
    i64 representative = every_microbatch;

    const Buffer& operator[](BufferId id) const { return buffers[id.index()]; }
    ColumnsIn columns_of(ValueId v) const { return columns.empty() ? ColumnsIn{} : columns[v.index()]; }
};

/// The queues of ops on the host, and of ops that copy values to the host and to the device. Feeds and
/// fetches have other queues, so that none waits for a large copy.
enum class HostQueue { host, to_host, to_device };
template <>
inline constexpr std::array<std::string_view, 3> names_of_enum<HostQueue>{"host", "to_host", "to_device"};

enum Queue { queue_compute = 0, queue_host_to_device = 1, queue_device_to_host = 2 };

/// Maximum scratch in bytes per kind of kernel (op_table.hpp), from the machine file. An op with a larger
/// minimum gets that minimum.
struct ScratchBudget {
    Bytes product = 0, attention = 0, reduction = 0, exchange = 0;
    Bytes of(ScratchKind kind) const;
};

struct ScheduleConfig {
    i64 microbatches = 1;
    RankOrder tasks{}; ///< empty: each microbatch forward through the graph's stages, then backward
    const PipelineOrder* order = nullptr; ///< of all ranks; null: messages have no Attributes::reader
    ScratchBudget scratch{};
    bool place = true; ///< communication is placed to overlap with compute (place.hpp)
    /// With `place`: receives too. Not for devices, where a receive that waits would block its communicator.
    bool receive_early = false;
    i64 head = 0; ///< number of tasks before the decision, if the graph decides early (unroll.hpp)
};

/// Throws UserError if `microbatches` of at least `ops` ops each have more than 2^22 Steps.
void require_few_steps(i64 microbatches, i64 ops);

/// Unrolls the regions of a verified graph of one rank into Steps. Throws UserError if there are too many
/// Steps or queues, or more than 2^60 bytes of buffers.
Schedule build_schedule(const Graph& graph, const ScheduleConfig& config);

/// One line per Step, with its buffers and their offsets. \pre the Schedule was built from `graph`
std::string to_text(const Schedule& schedule, const Graph& graph);

} // namespace trivium
