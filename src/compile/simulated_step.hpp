#pragma once
// A run of a program on the simulator's clock, with one rank for each stage of the pipeline.
#include "compile/compile.hpp"
#include "plan/cost.hpp"
#include "plan/step_parts.hpp"

namespace trivium {

/// The first rank of a pipeline stage along the other axes.
struct SimulatedRank {
    i64 rank = 0;
    Program program;
    MemoryPlan memory;
    Timeline timeline;
};

struct SimulatedStep {
    std::vector<SimulatedRank> ranks; ///< by pipeline rank
    Seconds seconds = 0;              ///< from step to step
    ParallelConfig parallel;          ///< Compiled::parallel
    i64 chunks = 1;
    int threads = 1;        ///< per rank
    Seconds length() const; ///< the largest Timeline::length()
};

/// CPU threads per rank on `machine`, with the cores of this process. `limit` as in thread_count().
int planned_threads(const ParallelConfig& config, const Machine& machine, int limit);

/// Simulates a step and fills the timelines. Returns the time from step to step: with synchronous updates the
/// length of the step; with post-validated ones a rank begins the next step when it has ended this one.
/// With `config.parallel.overlap`. Throws as require_runnable().
/// \pre `ranks` has all stages, in order
Seconds simulate(std::vector<SimulatedRank>& ranks, const Machine& machine, int threads,
                 const RunConfig& config);

/// Throws UserError if the stages of a program, whose values may go from any block to any other, cannot run a
/// step together (check_steps.hpp), InternalError if those of a transformer cannot. `stages`: all of a
/// pipeline, in order.
void require_runnable(const std::vector<StageProgram>& stages, const RunConfig& config);

/// simulate() for one of many candidates, of which the chosen one is checked later. Throws InternalError if
/// the ranks wait for each other forever.
Seconds simulate_unchecked(std::vector<SimulatedRank>& ranks, const Machine& machine, int threads);

/// The result of simulate() on another machine, without its timelines. \pre as simulate(), which accepted
/// `ranks`
Seconds step_seconds(const std::vector<SimulatedRank>& ranks, const Machine& machine, int threads);

/// Of the simulated rank that computes longest. `length`: of the step.
StepParts busiest_parts(const std::vector<SimulatedRank>& ranks, Seconds length);

/// Compiles and simulates one of the programs of compile_training(). Throws UserError as compile_training()
/// and thread_count().
SimulatedStep simulate_step(const Choices& choices, const CompileConfig& options, std::size_t program,
                            int thread_limit);

} // namespace trivium
