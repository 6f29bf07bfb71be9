#pragma once
// From the graphs of one rank to what its executor runs: the Steps of each, and the arenas that they share.
#include "schedule/memory.hpp"

#include <memory>
#include <span>

namespace trivium {

/// One rank's graph with its Steps.
struct Program {
    Graph graph;
    i64 microbatches = 1;
    Schedule schedule{};
    /// The graph of all ranks: whole shapes, and the sharding of each value. Null: made by post_validate().
    std::shared_ptr<const Graph> sharded{};
    RankOrder tasks{}; ///< of the schedule; empty: plain_order()
    std::shared_ptr<const PipelineOrder>
        order{};  ///< of all ranks, with these tasks; may be null if these are empty
    i64 head = 0; ///< number of tasks before an early decision (schedule/unroll.hpp)
};

struct LayOutConfig {
    ScratchBudget scratch{};
    bool place = true;          ///< ScheduleConfig::place
    bool receive_early = false; ///< ScheduleConfig::receive_early
    Bytes process = 0;          ///< MemoryPlan::process
    bool offsets = true;        ///< MemoryConfig::place
};

/// The arenas of one rank.
struct ArenaPlans {
    MemoryPlan device;
    MemoryPlan host; ///< 0 bytes if nothing is offloaded
};

/// Makes the Steps of a program, without offsets.
void build_steps(Program& program, const LayOutConfig& config);

/// Makes the Steps of each program (Program::schedule), with offsets in one arena per space that all programs
/// share. \pre the graphs are local (Level::local), or those of one rank
ArenaPlans lay_out(std::span<Program> programs, const LayOutConfig& config);

} // namespace trivium
