#pragma once
// A run of a program on the simulator's clock, with one rank for each stage of the pipeline.
#include "compile/compile.hpp"
#include "plan/cost.hpp"
#include "plan/step_parts.hpp"

#include <optional>

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
/// With `config.parallel.overlap`. Of a program throws as require_runnable(); InternalError if the ranks wait
/// for each other forever. \pre `ranks` has all stages, in order
Seconds simulate(std::vector<SimulatedRank>& ranks, const Machine& machine, int threads,
                 const RunConfig& config);

/// Throws UserError if the stages of a program, whose values may go from any block to any other, cannot run a
/// step together (check_steps.hpp), InternalError if those of a transformer cannot. `stages`: all of a
/// pipeline, in order.
void require_runnable(const std::vector<StageProgram>& stages, const RunConfig& config);

/// Of the simulated rank that computes longest. `length`: of the step.
StepParts busiest_parts(const std::vector<SimulatedRank>& ranks, Seconds length);

/// Numbers of microbatches after which a pipeline runs evenly: each further one takes as long as those from
/// `few` to `more`.
struct EvenMicrobatches {
    i64 few = 0, more = 0, all = 0;

    /// What it is with `all` microbatches, from what it is with `few` and with `more`.
    double extended(double of_few, double of_more) const;
    StepParts extended(StepParts of_few, const StepParts& of_more) const;
};
/// Of a step in this order; nothing if it has no more than that, or if its schedule never runs evenly.
std::optional<EvenMicrobatches> even_microbatches(const RunConfig& config, const PipelineOrder& order);
/// The config, and its order, with as many microbatches in each step.
std::pair<RunConfig, PipelineOrder> with_microbatches(const RunConfig& config, i64 microbatches);
/// Gives the program of pipeline rank `rank` the Steps of that order, without offsets.
void set_steps(Program& program, const std::shared_ptr<const PipelineOrder>& order, std::size_t rank,
               const LayOutConfig& config);

/// A simulated step of the first ranks of all stages. If it has too many Steps, and if fewer microbatches
/// suffice, only those are simulated.
class PlayedStep {
public:
    static constexpr std::size_t most_steps = std::size_t{1} << 20;

    /// `most`: Steps, of all ranks. \pre `order` is that of `config`
    PlayedStep(const RunConfig& config, const PipelineOrder& order, const Machine& machine,
               std::size_t most = most_steps);
    /// Adds the rank of the next stage. `memory`: with all microbatches.
    void add(i64 rank, Program program, const MemoryPlan& memory);
    /// As simulate(). \pre it has all stages
    Seconds simulate(const Machine& machine, int threads);
    /// The result of simulate() on another machine. \pre simulate() has accepted it
    Seconds seconds(const Machine& machine, int threads) const;
    /// Of the simulated rank that computes longest. \pre simulate()
    StepParts parts() const;
    /// By pipeline rank; with microbatches() in their programs.
    const std::vector<SimulatedRank>& ranks() const { return ranks_; }
    i64 microbatches() const { return ranks_.front().program.microbatches; }

private:
    Seconds extended(Seconds of_fewer, Seconds of_ranks) const
    {
        return fewer_.empty() ? of_ranks : even_->extended(of_fewer, of_ranks);
    }

    RunConfig config_;
    LayOutConfig lay_out_;
    std::size_t most_;
    std::optional<EvenMicrobatches> even_;
    std::shared_ptr<const PipelineOrder> few_, more_;
    std::vector<SimulatedRank> ranks_, fewer_; ///< fewer_: with the microbatches of few_; may be empty
    Seconds seconds_ = 0, fewer_seconds_ = 0;  ///< of simulate()
};

/// Compiles and simulates one of the programs of compile_training(). Throws UserError as compile_training()
/// and thread_count().
SimulatedStep simulate_step(const Choices& choices, const CompileConfig& options, std::size_t program,
                            int thread_limit);

} // namespace trivium
