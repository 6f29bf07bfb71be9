#pragma once
// Config -> Graph -> Schedule, in one function that reads top to bottom. `plan`, `explain` and `train` all call it,
// so what they print and what runs is the same.
#include "config/run_config.hpp"
#include "passes/runner.hpp"
#include "plan/machine.hpp"

namespace trivium {

/// A graph with its Steps.
struct Program {
    Graph graph;
    i64 microbatches = 1;
    Schedule schedule{};
};

/// What one rank runs: programs that share an arena and their run-lifetime values.
struct Compiled {
    std::vector<Program> programs;
    MemoryPlan memory;
    std::vector<PassRecord> passes;
};

struct CompileConfig {
    Machine machine;
    RunnerConfig runner;
};

enum : std::size_t { train_program = 0, eval_program = 1 };
enum : std::size_t { prefill_program = 0, decode_program = 1 };

/// Programs `train` and `eval`. \pre resolved and validated
Compiled compile_training(const RunConfig& config, const CompileConfig& options);
/// The program `eval` alone, in train's precision.
Compiled compile_evaluation(const RunConfig& config, const CompileConfig& options);

struct GenerationShape {
    i64 batch = 1;
    i64 prefill = 64;    ///< tokens per prefill call
    i64 capacity = 1024; ///< of the KV cache
};

/// Programs `prefill` and `decode`.
Compiled compile_generation(const RunConfig& config, const GenerationShape& shape, const CompileConfig& options);

DType compute_type(Precision precision);
DType master_type(Precision precision);

} // namespace trivium
