#pragma once
// The Schedule: ordered Steps over buffers. The executor runs it, the simulator computes its duration, and
// `explain` prints it.
//
// A Step has a queue and waits for other Steps. Steps of one queue run in the order of the list; the list is
// one legal order of all Steps. Buffers get their offsets in the arena from memory.hpp.
#include "config/run_config.hpp"
#include "ir/op_table.hpp"
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
std::string_view name_of(MemoryKind kind);

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
    std::vector<StepId> waits;
    std::vector<BufferId> operands, results; ///< of feed: results; of fetch: operands
    BufferId scratch;                        ///< invalid: none
};

inline constexpr i64 every_microbatch = i64{1} << 62;

struct Schedule {
    std::vector<std::string> queues; ///< "compute", "host_to_device", "device_to_host", then one per axis
                                     ///< and per peer, direction and tag of messages, and the HostQueues, if
                                     ///< some op uses them
    std::vector<Step> steps;
    std::vector<Buffer> buffers;
    std::vector<ColumnsIn> columns; ///< by value: its place in its buffer; empty: all are dense
    /// Steps from here on change run-lifetime values. Before the first of them, all ranks decide together
    /// whether they run. With a post-validated update the decision is early, and about the step before.
    std::size_t decision = 0;
    bool decides_early = false;
    i64 microbatches = 1;
    i64 slots = 1; ///< the most microbatches of which a value has buffers
    /// Microbatches from this one on have the same overlaps as earlier ones, so memory planning skips them.
    i64 representative = every_microbatch;

    const Buffer& operator[](BufferId id) const { return buffers[id.index()]; }
    ColumnsIn columns_of(ValueId v) const { return columns.empty() ? ColumnsIn{} : columns[v.index()]; }
};

/// The queues of ops on the host, and of copies of values to the host and to the device. Feeds and fetches
/// have other queues, so that none waits behind a large copy.
enum class HostQueue { host, to_host, to_device };
template <>
inline constexpr std::array<std::string_view, 3> names_of_enum<HostQueue>{"host", "to_host", "to_device"};

enum Queue { queue_compute = 0, queue_host_to_device = 1, queue_device_to_host = 2 };

/// Scratch per kind of kernel (op_table.hpp), from the machine file. An op with a larger minimum gets that
/// minimum.
struct ScratchBudget {
    Bytes product = 0, attention = 0, reduction = 0, exchange = 0;
    Bytes of(ScratchKind kind) const;
};

struct ScheduleConfig {
    i64 microbatches = 1;
    RankOrder tasks{}; ///< empty: each microbatch forward through the graph's stages, then backward
    ScratchBudget scratch{};
    bool place = true; ///< communication is placed to overlap with compute (place.hpp)
    /// With `place`: messages too. Not for devices, where a receive that waits would stop its communicator.
    bool receive_early = false;
    i64 head = 0; ///< tasks before the decision, if the graph decides early (unroll.hpp)
};

/// Throws UserError if as many microbatches of at least `ops` ops have more Steps than can be planned.
void require_few_steps(i64 microbatches, i64 ops);

/// Unrolls the regions of a verified graph into Steps.
Schedule build_schedule(const Graph& graph, const ScheduleConfig& config);

/// One line per Step and buffer of a schedule that was built from `graph`.
std::string to_text(const Schedule& schedule, const Graph& graph);

} // namespace trivium
