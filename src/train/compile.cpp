#include "train/compile.hpp"

#include "base/check.hpp"
#include "model/model.hpp"
#include "passes/autodiff.hpp"
#include "passes/optimizer.hpp"
#include "passes/simplify.hpp"

namespace trivium {

namespace {

GraphConfig graph_config(const RunConfig& config)
{
    return {micro_batch(config), compute_type(config.train.precision), master_type(config.train.precision)};
}

/// What this version cannot run yet. (ZeRO shards over data ranks: with one of them every stage is the same.)
void refuse_unbuilt(const RunConfig& config)
{
    const auto refuse = [](const char* key, const std::string& what, const std::string& remedy) {
        throw UserError({key, what + " is not built yet", "this version runs the core on one rank", remedy});
    };
    const ParallelConfig& p = config.parallel;
    if (rank_count(p) != 1)
        refuse("parallel", str("a grid of ", rank_count(p), " ranks"), "set data, tensor and pipeline to 1");
    if (p.chunks != 1)
        refuse("parallel.chunks", "an interleaved schedule", "set chunks to 1");
    if (p.recompute != Recompute::none && p.recompute != Recompute::automatic)
        refuse("parallel.recompute", "recomputation", "set recompute to \"none\"");
    if (!p.strategy.empty())
        refuse("parallel.strategy", "the strategy search", "give data, tensor and pipeline");
}

Graph training_graph(const RunConfig& config, PassRunner& runner)
{
    Graph g = build_loss_graph(config.model, graph_config(config));
    g.name = "train";
    g.mesh.axes = {{"data", config.parallel.data}, {"pipeline", config.parallel.pipeline}, {"tensor", config.parallel.tensor}};
    g = runner.run("model", Level::global, std::move(g), [](Graph graph) { return graph; });
    g = runner.run("autodiff", Level::global, std::move(g), [&](Graph graph) { return autodiff(std::move(graph), {}); });
    g = runner.run("optimizer", Level::global, std::move(g), [&](Graph graph) {
        return add_optimizer(std::move(graph), {config.train.grad_clip, config.train.weight_decay});
    });
    g = runner.run("simplify", Level::global, std::move(g), simplify);
    return g;
}

Graph evaluation_graph(const RunConfig& config, PassRunner& runner)
{
    Graph g = build_loss_graph(config.model, graph_config(config));
    g.name = "eval";
    return runner.run("simplify-eval", Level::global, std::move(g), simplify);
}

/// Steps for each program, and one arena for all.
void lay_out(Compiled& compiled, const RunConfig& config, const Machine& machine)
{
    std::vector<Schedule*> schedules;
    for (Program& program : compiled.programs) {
        program.schedule = build_schedule(program.graph, {config.parallel.schedule, 0, 1, program.microbatches, machine.scratch});
        schedules.push_back(&program.schedule);
    }
    MemoryConfig memory;
    memory.red_zone = contracts_on ? 256 : 0;
    memory.limit = config.parallel.memory_limit;
    compiled.memory = plan_memory(schedules, memory);
    compiled.memory.process = machine.process;
}

} // namespace

DType compute_type(Precision precision)
{
    return precision == Precision::bf16 ? DType::bf16 : precision == Precision::f64 ? DType::f64 : DType::f32;
}

DType master_type(Precision precision) { return precision == Precision::f64 ? DType::f64 : DType::f32; }

Compiled compile_training(const RunConfig& config, const CompileConfig& options)
{
    refuse_unbuilt(config);
    PassRunner runner(options.runner);
    Compiled compiled;
    compiled.programs.push_back({training_graph(config, runner), microbatch_count(config)});
    compiled.programs.push_back({evaluation_graph(config, runner)});
    compiled.passes = runner.records();
    lay_out(compiled, config, options.machine);
    return compiled;
}

Compiled compile_evaluation(const RunConfig& config, const CompileConfig& options)
{
    PassRunner runner(options.runner);
    Compiled compiled;
    compiled.programs.push_back({evaluation_graph(config, runner)});
    compiled.passes = runner.records();
    lay_out(compiled, config, options.machine);
    return compiled;
}

Compiled compile_generation(const RunConfig& config, const GenerationShape& shape, const CompileConfig& options)
{
    PassRunner runner(options.runner);
    Compiled compiled;
    GraphConfig graph = graph_config(config);
    graph.batch = shape.batch;
    for (const i64 queries : {shape.prefill, i64{1}})
        compiled.programs.push_back({runner.run(queries == 1 ? "decode" : "prefill", Level::global,
                                                build_decode_graph(config.model, graph, queries, shape.capacity), simplify)});
    compiled.passes = runner.records();
    lay_out(compiled, config, options.machine);
    return compiled;
}

} // namespace trivium
