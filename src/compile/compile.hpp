#pragma once
// Config -> Graph -> Schedule, in one function. `plan`, `explain` and `train` call it, so they print what
// runs.
#include "compile/pipeline.hpp"
#include "config/run_config.hpp"
#include "passes/runner.hpp"
#include "plan/machine.hpp"

#include <functional>
#include <map>
#include <memory>

namespace trivium {

/// One rank's graph with its Steps.
struct Program {
    Graph graph;
    i64 microbatches = 1;
    Schedule schedule{};
    /// The graph of all ranks: whole shapes, and the sharding of each value. Null: there is none.
    std::shared_ptr<const Graph> sharded{};
    RankOrder tasks{}; ///< of the schedule; empty: plain_order()
    i64 head = 0;      ///< of these, before the decision (schedule/unroll.hpp)
};

/// The pipeline ranks that hold a parameter or an optimizer state, by its name.
using HoldersOf = std::map<std::string, std::vector<int>>;

/// The programs of one rank. They share the arenas and the values of lifetime run.
struct Compiled {
    std::vector<Program> programs;
    MemoryPlan memory; ///< of the device arena
    MemoryPlan host;   ///< of the host arena (parallel.offload); without one, 0 bytes
    std::vector<PassRecord> passes;
    std::vector<int> rank_of_block; ///< pipeline ranks; 0: the embedding, then the layers, then the head
    HoldersOf holders;              ///< if there is more than one pipeline rank
    PipelineOrder order;            ///< of training
    Coordinates at;                 ///< the rank, on the graphs' mesh
    ParallelConfig parallel;        ///< of training: with values for what is "auto" (settle.hpp)
    Flops flops = 0;                ///< model FLOPs of an optimizer step, over all ranks
};

/// The joint axes along which its programs communicate (ir/collectives.hpp), for their Grid.
std::vector<std::string> joint_axes(const Compiled& compiled);

struct CompileConfig {
    Machine machine;
    RunnerConfig runner;
    i64 rank = 0; ///< the rank to compile for
};

enum : std::size_t { train_program = 0, eval_program = 1 };
/// With parallel.update = "post-validated" (passes/post_validate.hpp).
enum : std::size_t { validate_program = 2, restore_program = 3, redo_program = 4 };
enum : std::size_t { prefill_program = 0, decode_program = 1 };
enum : std::size_t { only_program = 0 }; ///< of compile_evaluation()

/// Programs `train` and `eval` of a resolved and validated config; with post-validated updates three more.
/// Throws UserError if the model does not fit the grid.
Compiled compile_training(const RunConfig& config, const CompileConfig& options);
/// The same for each rank that is `included`, one after the other; passes that all ranks share run once.
/// Throws UserError with the largest rank if it exceeds parallel.memory_limit.
void compile_ranks(const RunConfig& config, const CompileConfig& options,
                   const std::function<bool(const Mesh&, i64 rank)>& included,
                   const std::function<void(i64 rank, Compiled&)>& visit);

/// Compiled::rank_of_block of a validated config, without compiling.
/// Throws UserError if there are more stages than blocks.
std::vector<int> ranks_of_blocks(const RunConfig& config);

/// The stages of its blocks on a pipeline of that shape, without compiling.
StageConfig stages_of_model(const RunConfig& config, const PipelineShape& shape);

/// Whether a save first copies its data to host memory: from a device, or to write while training continues.
bool saves_from_snapshot(const RunConfig& config, const Machine& machine);

/// The grid of a config: data x pipeline x tensor, the last axis fastest. With hybrid sharding, data is two
/// axes: replica x data.
Mesh mesh_of(const ParallelConfig& config);
/// The pipeline stage of a rank on such a mesh.
i64 stage_of(const Mesh& mesh, i64 rank);
/// Whether a rank is the first of its stage along the other axes; it has the largest shards.
bool is_first_of_stage(const Mesh& mesh, i64 rank);

/// Only the program `eval`, in train's precision, on one rank.
Compiled compile_evaluation(const RunConfig& config, const CompileConfig& options);

struct GenerationShape {
    i64 batch = 1;
    i64 prefill = 64;    ///< tokens per prefill call
    i64 capacity = 1024; ///< of the KV cache
};

/// Programs `prefill` and `decode`.
Compiled compile_generation(const RunConfig& config, const GenerationShape& shape,
                            const CompileConfig& options);

DType compute_type(Precision precision);
DType master_type(Precision precision);

} // namespace trivium
