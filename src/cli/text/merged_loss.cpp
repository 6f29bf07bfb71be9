#include "cli/text/merged_loss.hpp"

#include "base/bf16.hpp"
#include "base/check.hpp"
#include "compile/forward.hpp"
#include "compile/threads.hpp"
#include "runtime/initialise.hpp"
#include "train/data/inputs.hpp"
#include "train/data/training_data.hpp"
#include "train/evaluator.hpp"
#include "train/save/saved_tensors.hpp"
#include "train/this_machine.hpp"

#include <functional>

namespace trivium {

namespace {

/// After `fill` has set the parameters.
Evaluation evaluation_of(const RunConfig& config, const Batches& data, const Computing& computing,
                         int threads, const std::function<void(Engine&)>& fill)
{
    Engine engine(compile_evaluation(config, {machine_of(computing), {}, 0}), {.threads = threads});
    engine.initialise(0, Role::constant);
    fill(engine);
    return evaluate(engine, data, 8 * config.train.global_batch, {.program = only_program});
}

} // namespace

Batches open_compared(const CheckpointReader& checkpoint, const RunConfig& config, const std::string& path)
{
    require_no_arrays(path);
    const TokenStoreOptions options = store_options(config.data, config.model.vocab);
    return open_validation(TokenStore::open(path, options), config, options, checkpoint);
}

MergedLosses merged_losses(const CheckpointReader& checkpoint, RunConfig config, const Batches& data,
                           const ModelConfig& model, const ReadParameter& merged, bool rounds)
{
    config.train.precision = Precision::f32;
    config.train.fp8 = false;
    config.parallel = {};
    resolve_and_validate(config);
    const int threads = thread_count(config.parallel, thread_limit());
    const Computing computing(threads);
    const Evaluation before = evaluation_of(config, data, computing, threads, [&](Engine& engine) {
        restore_parameters(checkpoint, engine.program(only_program), engine.arenas());
    });
    config.train.lora = {};
    config.train.freeze.clear();
    config.model = model;
    const Evaluation after = evaluation_of(config, data, computing, threads, [&](Engine& engine) {
        const Program& program = engine.program(only_program);
        for (const ValueId id : program.graph.with_role(Role::parameter)) {
            HostWindow window = kept_window(program.schedule, program.graph[id].name, engine.arenas());
            const std::span<float> values(reinterpret_cast<float*>(window.data()),
                                          static_cast<std::size_t>(program.graph[id].type.elements()));
            merged(program.graph[id].name, 0, values);
            for (float& value : values)
                value = rounds ? static_cast<float>(bf16(value)) : value;
            window.push();
        }
    });
    return {before.loss, after.loss, after.tokens};
}

} // namespace trivium
