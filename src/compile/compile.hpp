#pragma once
// Config -> Graph -> Schedule, in one function that reads top to bottom. `plan`, `explain` and `train` all
// call it, so what they print and what runs is the same.
#include "config/run_config.hpp"
#include "passes/runner.hpp"
#include "plan/machine.hpp"

#include <functional>
#include <map>

namespace trivium {

/// One rank's graph with its Steps.
struct Program {
    Graph graph;
    i64 microbatches = 1;
    Schedule schedule{};
    Graph sharded{}; ///< the same of all ranks: whole shapes, and how each value is cut
};

/// The pipeline stages that hold a parameter or an optimizer state, by its name.
using StagesOf = std::map<std::string, std::vector<int>>;

/// What one rank runs: programs that share an arena and their run-lifetime values.
struct Compiled {
    std::vector<Program> programs;
    MemoryPlan memory;
    std::vector<PassRecord> passes;
    std::vector<int> stage_of_block; ///< 0: the embedding, then the layers, then the head
    StagesOf stages_of;              ///< where there is more than one stage
    Coordinates at;                  ///< the rank, on the graphs' mesh
    Flops flops = 0;                 ///< model flops of an optimizer step, over all ranks
};

struct CompileConfig {
    Machine machine;
    RunnerConfig runner;
    i64 rank = 0; ///< whose programs are wanted
};

enum : std::size_t { train_program = 0, eval_program = 1 };
enum : std::size_t { prefill_program = 0, decode_program = 1 };
enum : std::size_t { only_program = 0 }; ///< of compile_evaluation()

/// Programs `train` and `eval` of a resolved and validated config.
/// Throws UserError where the model does not fit the grid.
Compiled compile_training(const RunConfig& config, const CompileConfig& options);
/// The same for each rank of the grid that is `wanted`, one after the other: what all share is made once.
/// Throws UserError that names the largest of them where it exceeds parallel.memory_limit.
void compile_ranks(const RunConfig& config, const CompileConfig& options,
                   const std::function<bool(const Mesh&, i64 rank)>& wanted,
                   const std::function<void(i64 rank, Compiled&)>& visit);

/// Compiled::stage_of_block of a validated config, without compiling.
/// Throws UserError where there are more stages than blocks.
std::vector<int> stages_of_blocks(const RunConfig& config);

/// Whether a save copies what it writes to memory of the host first: from a device, or to write while
/// training goes on.
bool saves_from_snapshot(const RunConfig& config, const Machine& machine);

/// The grid that a config asks for: data x pipeline x tensor, the last one fastest.
Mesh mesh_of(const ParallelConfig& config);

/// The program `eval` alone, in train's precision, on one rank whatever the grid.
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
