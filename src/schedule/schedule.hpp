#pragma once
// The Schedule: ordered Steps over buffers, the one thing that the executor runs, the simulator clocks and
// `explain` prints.
//
// A Step has a queue and waits for other Steps. Steps of one queue run in the order of the list; the list
// order is one legal order of all. Buffers get their offsets in the arena from memory.hpp.
#include "config/run_config.hpp"
#include "ir/op_table.hpp"

#include <string>
#include <vector>

namespace trivium {

using StepId = Id<struct StepTag>;
using BufferId = Id<struct BufferTag>;

/// What a buffer is for; the rows of the memory table.
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
    scratch
};
inline constexpr int memory_kind_count = 11;
std::string_view name_of(MemoryKind kind);

/// A stretch of the arena. A microbatch value has one buffer per slot, shared by the microbatches of that
/// slot.
struct Buffer {
    std::string name;
    Bytes bytes = 0;
    Bytes offset = -1; ///< from the arena's start; -1 until memory is planned
    Lifetime lifetime = Lifetime::microbatch;
    MemoryKind kind = MemoryKind::activations;
};

enum class StepKind {
    op,    ///< runs the op
    feed,  ///< the host hands in the content of a value
    fetch, ///< the host reads a value
};

struct Step {
    StepKind kind = StepKind::op;
    OpId op;                ///< for op
    ValueId value;          ///< for feed and fetch
    i64 microbatch = -1;    ///< -1: a step of the step region
    bool overwrite = false; ///< an accumulating op that writes: the accumulator is still zero
    int queue = 0;
    std::vector<StepId> waits;
    std::vector<BufferId> operands, results; ///< of feed: results; of fetch: operands
    BufferId scratch;                        ///< invalid: none
};

inline constexpr i64 every_microbatch = i64{1} << 62;

struct Schedule {
    std::vector<std::string>
        queues; ///< "compute", "host_to_device", "device_to_host", then one per direction of communication
    std::vector<Step> steps;
    std::vector<Buffer> buffers;
    /// Steps from here on change run-lifetime values; before the first of them all ranks agree whether they
    /// run.
    std::size_t decision = 0;
    i64 microbatches = 1;
    i64 slots = 1;
    /// Microbatches from this one on overlap with nothing but what earlier ones showed: memory need not look
    /// at them.
    i64 representative = every_microbatch;

    const Buffer& operator[](BufferId id) const { return buffers[id.index()]; }
};

enum Queue { queue_compute = 0, queue_host_to_device = 1, queue_device_to_host = 2 };

/// Scratch per kind of kernel (op_table.hpp), from the machine file. An op that names a larger least gets
/// that.
struct ScratchBudget {
    Bytes product = 0, attention = 0, reduction = 0, exchange = 0;
    Bytes of(ScratchKind kind) const;
};

struct ScheduleConfig {
    ScheduleKind kind = ScheduleKind::one_f_one_b;
    i64 stage = 0, stages = 1;
    i64 microbatches = 1;
    ScratchBudget scratch;
};

/// Unrolls the regions of a verified graph into Steps.
Schedule build_schedule(const Graph& graph, const ScheduleConfig& config);

/// One line per Step and buffer of a schedule that was built from `graph`.
std::string to_text(const Schedule& schedule, const Graph& graph);

} // namespace trivium
