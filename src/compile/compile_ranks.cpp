#include "compile/compile.hpp"
#include "compile/simulated_step.hpp"

#include <vector>

namespace trivium {

namespace {

/// What decide() has made is of use unless passes are to be skipped or dumped.
TrainingCompiler compiler_of(const Choices& choices, const CompileConfig& options)
{
    const bool plain = options.runner.skip.empty() && options.runner.dump_dir.empty();
    return {choices.config, choices.order, options, plain ? choices.sharded : ShardedTraining{}};
}

/// Checks that the pipeline of a program's rank 0 can run each of its programs.
class RunnableCheck {
public:
    explicit RunnableCheck(const RunConfig& config) : config_(config) {}

    bool is_needed() const { return config_.model.is_program() && config_.parallel.pipeline > 1; }
    /// The first rank of the next stage.
    void add(const Compiled& compiled) { stages_.push_back(compiled.programs); }
    /// Throws UserError. Does nothing if a stage is missing.
    void run() const
    {
        if (static_cast<i64>(stages_.size()) != config_.parallel.pipeline)
            return;
        for (std::size_t program = 0; program < stages_.front().size(); ++program) {
            std::vector<StageProgram> stages;
            for (const std::vector<Program>& stage : stages_)
                stages.push_back({&stage[program].graph, &stage[program].schedule});
            require_runnable(stages, config_);
        }
    }

private:
    const RunConfig& config_;
    std::vector<std::vector<Program>> stages_;
};

} // namespace

Compiled compile_training(const Choices& choices, const CompileConfig& options)
{
    TrainingCompiler compiler = compiler_of(choices, options);
    const std::string& mode = choices.config.parallel.bucket;
    Compiled compiled = compiler.rank(options.rank, mode);
    RunnableCheck check(choices.config);
    if (check.is_needed() && options.rank == 0) {
        for (const i64 rank : compiler.mesh().group(compiled.at, {pipeline_axis}))
            check.add(rank == 0 ? compiled : compiler.rank(rank, mode));
        check.run();
    }
    return compiled;
}

void compile_ranks(const Choices& choices, const CompileConfig& options,
                   const std::function<bool(const Mesh&, i64)>& included,
                   const std::function<bool(i64, Compiled&)>& visit)
{
    TrainingCompiler compiler = compiler_of(choices, options);
    RunnableCheck check(choices.config);
    for (i64 rank = 0; rank < compiler.mesh().ranks(); ++rank)
        if (included(compiler.mesh(), rank)) {
            Compiled compiled = compiler.rank(rank, choices.config.parallel.bucket);
            if (check.is_needed() && is_first_of_stage(compiler.mesh(), rank))
                check.add(compiled);
            if (!visit(rank, compiled))
                return;
        }
    check.run();
}

} // namespace trivium
