#pragma once
// Config -> Graph -> Schedule, in one function. `plan`, `explain` and `train` call it, so they print what
// runs. Nothing is chosen here: choose/decide.hpp has replaced each "auto" by a value before.
#include "compile/bucket_plans.hpp"
#include "compile/model_axes.hpp"
#include "compile/pipeline.hpp"
#include "config/run_config.hpp"
#include "passes/local.hpp"
#include "plan/machine.hpp"
#include "schedule/lay_out.hpp"

#include <functional>
#include <map>
#include <memory>

namespace trivium {

/// The pipeline ranks that hold a parameter or an optimizer state, by the name of the value.
using HoldersOf = std::map<std::string, std::vector<int>>;

/// The programs of one rank. They share the arenas and the run-lifetime values.
struct Compiled {
    std::vector<Program> programs;
    MemoryPlan memory; ///< of the device arena
    MemoryPlan host;   ///< of the host arena (parallel.offload); without one, 0 bytes
    std::vector<PassRecord> passes;
    std::vector<int> rank_of_block; ///< pipeline rank of the embedding, then of each layer, then of the head
    HoldersOf holders;              ///< empty with one pipeline rank
    PipelineOrder order;            ///< of training
    Coordinates at;                 ///< of the rank, on the graphs' mesh
    ParallelConfig parallel;        ///< of training, without "auto" except in `schedule`
    Flops flops = 0;                ///< model FLOPs of a step of train.global_batch, over all ranks
};

/// The joint axes along which the programs communicate (ir/collectives.hpp), for their Grid.
std::vector<std::string> joint_axes(const Compiled& compiled);

struct CompileConfig {
    Machine machine;
    RunnerConfig runner;
    i64 rank = 0; ///< the rank to compile for
    /// The program `train` and the memory alone, without offsets in the arena, whose size is a lower bound:
    /// to compare strategies. In a pipeline for the first rank of each stage alone.
    bool outline = false;
    MovePrices* moves = nullptr; ///< PartitionConfig::moves
};

enum : std::size_t { train_program = 0, eval_program = 1 };
/// With parallel.update = "post-validated" (passes/pipeline/post_validate.hpp).
enum : std::size_t { validate_program = 2, restore_program = 3, redo_program = 4 };
/// The program `train` for steps of this many microbatches: train_program, or with train.batch_ramp one after
/// the others. \pre there is one
std::size_t training_program(const Compiled& compiled, i64 microbatches);
/// Behind all others: with train.ema `eval` with the averaged parameters; with log.layer_norms the programs
/// of passes/layer_norms.hpp, the one before a step and the one after it.
inline constexpr const char *average_evaluation = "eval-average", *remember_weights_program = "remember",
                            *norms_program = "norms";
/// The program of that name, if there is one.
std::optional<std::size_t> program_called(const Compiled& compiled, std::string_view name);

/// The graph `train` of all ranks, with every value's sharding, and the passes that made it.
struct ShardedTraining {
    std::shared_ptr<const Graph> graph; ///< null: not made
    std::vector<PassRecord> passes;
};

/// A training config in which nothing is left to choose.
struct Choices {
    RunConfig config;    ///< without "auto", except in parallel.schedule
    PipelineOrder order; ///< the order that parallel.schedule stands for
    /// For checkpoints: `config`, with "auto" where a resumed run decides again for its own grid.
    RunConfig recorded;
    ShardedTraining sharded; ///< of `config`, if a choice needed it; saves compiling it again
};

/// Compiles ranks of a training, one after another; passes that all ranks share run once. Throws UserError if
/// the model does not fit the grid. Does not check parallel.memory_limit.
class TrainingCompiler {
public:
    /// `config`: without "auto", except in parallel.schedule, which stands for `order`, and in
    /// parallel.bucket. These three arguments must outlive the TrainingCompiler.
    /// `made`: the graph of this config and order, without skipped passes; null: it is made here. `plain`:
    /// the plain() of a config with the same plain_key(), from which it is then made.
    TrainingCompiler(const RunConfig& config, const PipelineOrder& order, const CompileConfig& options,
                     const ShardedTraining& made = {}, const ShardedTraining& plain = {});
    ShardedTraining sharded() const { return {train_, runner_.records()}; }
    /// The graph before backward passes are divided and anything is recomputed. \pre `made` was null
    const ShardedTraining& plain() const { return plain_; }
    const Mesh& mesh() const { return train_->mesh; }
    BucketPlans& bucket_plans() { return buckets_; }
    /// The graph `train` of the first rank of a pipeline stage, before collectives are merged.
    Graph unbucketed(i64 stage);
    /// The graph that the first rank runs if it has all blocks, with the collectives merged as `mode` says.
    /// rank() takes it.
    const Graph& alone(const std::string& mode);
    /// The programs `train` and `eval` of a rank; with post-validated updates three more; with
    /// train.batch_ramp then a `train` for each other number of microbatches; then those with names above.
    /// `mode`: parallel.bucket, or what that stands for. \pre the same mode in all calls
    Compiled rank(i64 rank, const std::string& mode);

private:
    ShardedTraining made_plain();
    PartitionConfig partition_config(const Coordinates& at) const;
    Graph unbucketed(const Graph& sharded, const Coordinates& at);
    StageGraphs* stages(const Graph& sharded);
    /// The graph that a rank runs, of that of all ranks.
    Graph finished(const Graph& sharded, const Coordinates& at, const std::string& mode);
    /// The same of `train`. Equal stages are compiled once.
    Graph outline(const Coordinates& at, const std::string& mode);
    /// What all ranks of a stage do alike, with the passes that `mode` and the config ask for.
    const FinishConfig& finish_of(const Graph& sharded, const Coordinates& at, const Graph& own,
                                  const std::string& mode);
    /// `first`: unbucketed() of the first rank of the stage.
    FinishConfig finish_config(const Graph& first, const std::string& mode);

    const RunConfig& config_;
    using SharedOrder = std::shared_ptr<const PipelineOrder>; ///< of the programs of all ranks
    const SharedOrder order_;
    SharedOrder evaluation_;         ///< from the first rank() on
    std::vector<SharedOrder> ramps_; ///< for the other numbers of microbatches
    const CompileConfig& options_;
    PassRunner runner_;
    WorkPrices work_;
    BucketPlans buckets_;
    ShardedTraining plain_;
    std::shared_ptr<const Graph> train_, eval_;        ///< of all ranks; eval_ from the first rank() on
    std::vector<std::shared_ptr<const Graph>> extras_; ///< those with names; from the first rank() on
    StageConfig stages_;
    std::map<const Graph*, StageGraphs> staged_; ///< of graphs of all ranks
    struct Outlined {
        std::string mode;
        Graph own, finished; ///< after `stage`, and after all passes
    };
    std::vector<Outlined> outlined_; ///< stages that differ
    std::optional<Graph> part_;      ///< unbucketed(0), if it was needed
    std::map<std::string, Graph> alone_;
    HoldersOf holders_;
    Flops flops_ = 0;
    std::map<std::pair<i64, std::string>, FinishConfig> made_; ///< by stage and program
};

/// What TrainingCompiler::plain() depends on, of the settings in which the candidates of a choice differ:
/// [parallel], the microbatch, the model's layers and the length of its sequences.
std::string plain_key(const RunConfig& config);

/// The programs of rank `options.rank` (TrainingCompiler::rank()). Of a program of the user's own, rank 0
/// also checks that the stages of its pipeline can run together; UserError if not.
Compiled compile_training(const Choices& choices, const CompileConfig& options);
/// Compiles each rank that is `included`, in ascending order, until `visit` returns false. If the first ranks
/// of all stages are among them, checks that the stages of a program can run together, as compile_training().
void compile_ranks(const Choices& choices, const CompileConfig& options,
                   const std::function<bool(const Mesh&, i64 rank)>& included,
                   const std::function<bool(i64 rank, Compiled&)>& visit);

/// Compiled::rank_of_block of a validated config, without compiling. Throws UserError as training_order().
std::vector<int> ranks_of_blocks(const RunConfig& config);

/// The loss graph from which stages_of() finds the stages of a training, without compiling.
Graph graph_of_stages(const RunConfig& config);

/// How the programs of a config are laid out on `machine`.
LayOutConfig lay_out_config(const RunConfig& config, const Machine& machine, bool offsets = true);

/// Whether a save first copies its data to host memory: from a device, or to write while training continues.
bool saves_from_snapshot(const RunConfig& config, const Machine& machine);

DType compute_type(Precision precision); ///< of activations
DType master_type(Precision precision);  ///< of stored parameters and optimizer states

} // namespace trivium
