#pragma once
// A run of a program on the simulator's clock, with one rank for each stage of the pipeline.
#include "compile/compile.hpp"
#include "schedule/timeline.hpp"

namespace trivium {

/// The first rank of a pipeline rank along the other axes.
struct SimulatedRank {
    i64 rank = 0;
    Program program;
    MemoryPlan memory;
    Timeline timeline;
};

struct SimulatedStep {
    std::vector<SimulatedRank> ranks; ///< by pipeline rank
    Seconds seconds = 0;              ///< from step to step
    ParallelConfig parallel;          ///< without "auto"
    i64 chunks = 1;
    int threads = 1;
    Seconds length() const; ///< of the timelines
};

/// CPU threads per rank on `machine`, as if it were this one. `limit` as in thread_count().
int planned_threads(const ParallelConfig& config, const Machine& machine, int limit);

/// Fills the timelines, of one step. Returns the time from step to step: with synchronous updates its length;
/// with post-validated ones a rank begins the next step when it has ended this one. `overlap`:
/// parallel.overlap. \pre `ranks` has all stages, in order
Seconds simulate(std::vector<SimulatedRank>& ranks, const Machine& machine, int threads, bool overlap);

/// Compiles and simulates one of the programs of compile_training(). Throws UserError.
SimulatedStep simulate_step(const Choices& choices, const CompileConfig& options, std::size_t program,
                            int thread_limit);

} // namespace trivium
