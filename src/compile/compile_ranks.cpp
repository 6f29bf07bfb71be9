#include "base/check.hpp"
#include "compile/compile.hpp"
#include "plan/check_steps.hpp"

#include <vector>

namespace trivium {

namespace {

/// What decide() has made is of use unless passes are to be skipped or dumped.
TrainingCompiler compiler_of(const Choices& choices, const CompileConfig& options)
{
    const bool plain = options.runner.skip.empty() && options.runner.dump_dir.empty();
    return {choices.config, choices.order, options, plain ? choices.sharded : ShardedTraining{}};
}

/// The values of a program may go from any block to any other. Throws UserError if the stages of the pipeline
/// would wait for each other. `first`: rank 0.
void require_runnable(TrainingCompiler& compiler, const Compiled& first, const std::string& mode,
                      const ParallelConfig& parallel)
{
    std::vector<Compiled> others;
    for (const i64 rank : compiler.mesh().group(first.at, {pipeline_axis}))
        if (rank > 0)
            others.push_back(compiler.rank(rank, mode));
    for (std::size_t program = 0; program < first.programs.size(); ++program) {
        std::vector<StageProgram> stages{{&first.programs[program].graph, &first.programs[program].schedule}};
        for (const Compiled& other : others)
            stages.push_back({&other.programs[program].graph, &other.programs[program].schedule});
        if (const auto fault = find_fault(stages, parallel.overlap))
            throw UserError({"parallel.pipeline",
                             str("the stages of the program cannot run together with schedule \"",
                                 parallel.schedule, "\""),
                             fault->problem,
                             "use another parallel.schedule, such as \"1f1b\" or \"gpipe\", fewer stages, or "
                             "other blocks"});
    }
}

} // namespace

Compiled compile_training(const Choices& choices, const CompileConfig& options)
{
    TrainingCompiler compiler = compiler_of(choices, options);
    const std::string& mode =
        choices.buckets[static_cast<std::size_t>(stage_of(compiler.mesh(), options.rank))];
    Compiled compiled = compiler.rank(options.rank, mode);
    if (choices.config.model.is_program() && choices.config.parallel.pipeline > 1 && options.rank == 0)
        require_runnable(compiler, compiled, mode, choices.config.parallel);
    return compiled;
}

void compile_ranks(const Choices& choices, const CompileConfig& options,
                   const std::function<bool(const Mesh&, i64)>& included,
                   const std::function<bool(i64, Compiled&)>& visit)
{
    TrainingCompiler compiler = compiler_of(choices, options);
    for (i64 rank = 0; rank < compiler.mesh().ranks(); ++rank)
        if (included(compiler.mesh(), rank)) {
            Compiled compiled = compiler.rank(
                rank, choices.buckets[static_cast<std::size_t>(stage_of(compiler.mesh(), rank))]);
            if (!visit(rank, compiled))
                return;
        }
}

} // namespace trivium
