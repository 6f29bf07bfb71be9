#include "compile/forward.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "compile/describe.hpp"
#include "compile/graphs.hpp"
#include "compile/simulated_step.hpp"
#include "passes/local.hpp"
#include "passes/sharding/propagate.hpp"
#include "plan/cost.hpp"

#include <numeric>

namespace trivium {

namespace {

/// Adds programs of one rank.
class ForwardCompiler {
public:
    ForwardCompiler(const RunConfig& config, const CompileConfig& options)
        : config_(config), options_(options), runner_(options.runner),
          work_(work_prices(deciding_machine(config.parallel, options.machine.is_device),
                            rank_count(config.parallel))),
          order_(std::make_shared<PipelineOrder>(forward_order(config)))
    {
        made_.at = mesh_of(config.parallel).coordinates(options.rank);
        made_.parallel = config.parallel;
    }

    PassRunner& runner() { return runner_; }
    const WorkPrices& work() const { return work_; }

    void add(Graph graph)
    {
        const std::string suffix = suffix_of(graph);
        const ParallelConfig& p = config_.parallel;
        if (stages_.stage_of_block.empty()) { // the same for all programs, which share parameters
            stages_ = stages_of(graph, order_->shape, p.stage_layers);
            for (std::size_t block = 0; block < stages_.stage_of_block.size(); ++block)
                made_.rank_of_block.push_back(stages_.rank_of_block(static_cast<int>(block)));
        }
        const PartitionConfig own{made_.at, pipeline_axis, config_.model.is_program(), stages_.stage_of_block,
                                  work_,    nullptr};
        FinishConfig finish;
        finish.buckets.most = p.tile;
        finish.ring = p.context_form == ContextForm::ring;
        std::optional<StageGraphs> stages;
        if (config_.parallel.pipeline > 1)
            stages.emplace(graph, stages_);
        Graph local = finish_local(part_of_rank(graph, own, stages ? &*stages : nullptr, suffix, runner_),
                                   finish, suffix, runner_);
        const auto stage = static_cast<std::size_t>(stage_of(graph.mesh, options_.rank));
        made_.programs.push_back({std::move(local),
                                  1,
                                  {},
                                  std::make_shared<const Graph>(std::move(graph)),
                                  order_->ranks[stage],
                                  order_});
    }

    Compiled finished()
    {
        made_.passes = runner_.records();
        lay_out(made_, config_, options_.machine);
        require_within(made_.memory, config_.parallel.memory_limit, str("rank ", options_.rank));
        return std::move(made_);
    }

private:
    const RunConfig& config_;
    const CompileConfig& options_;
    PassRunner runner_;
    WorkPrices work_;
    std::shared_ptr<const PipelineOrder> order_;
    StageConfig stages_;
    Compiled made_;
};

} // namespace

RunConfig config_on(RunConfig config, i64 ranks, const FitsRanks& fits)
{
    ParallelConfig& p = config.parallel;
    config.train.micro_batch = micro_batch(config);
    p.offload = Offload::none;
    if (ranks == rank_count(p))
        return config;
    if (config.model.is_program() && ranks > 1)
        throw UserError(
            {"[parallel]", str("the grid has ", counted(rank_count(p), "rank"), ", ", ranks, " were started"),
             describe_grid(p), "start as many ranks as the grid has, or one, or change the grid"});
    p.context = 1;
    p.context_heads = p.shard = 0;
    for (ProgramAxes::Axis& axis : p.axes.list)
        axis.degree = 1;
    const auto on = [&](i64 tensor, i64 pipeline) {
        RunConfig other = config;
        other.parallel.tensor = tensor;
        other.parallel.pipeline = pipeline;
        other.parallel.data = ranks / tensor / pipeline;
        other.parallel.expert = std::gcd(p.expert, other.parallel.data);
        return other;
    };
    const i64 tensor = std::gcd(p.tensor, ranks);
    const RunConfig like = on(tensor, std::gcd(p.pipeline, ranks / tensor));
    if (!fits || ranks == 1 || fits(like))
        return like;
    for (i64 sharers = 1; sharers <= ranks; ++sharers) // of a model
        for (i64 t = sharers; t >= 1; --t)
            if (ranks % sharers == 0 && sharers % t == 0)
                if (const RunConfig other = on(t, sharers / t); fits(other))
                    return other;
    return like;
}

Compiled compile_evaluation(const RunConfig& config, const CompileConfig& options)
{
    ForwardCompiler compiler(config, options);
    compiler.add(evaluation_graph(config, compiler.work(), nullptr, compiler.runner()));
    Compiled compiled = compiler.finished();
    if (config.model.is_program() && config.parallel.pipeline > 1 && options.rank == 0) {
        // Stages of a program may be unable to run together.
        std::vector<Compiled> others;
        std::vector<StageProgram> stages;
        const auto add = [&](const Program& program) {
            stages.push_back({&program.graph, &program.schedule});
        };
        for (const i64 rank : mesh_of(config.parallel).group(compiled.at, {pipeline_axis}))
            if (rank != 0) {
                CompileConfig other = options;
                other.rank = rank;
                others.push_back(compile_evaluation(config, other));
            }
        add(compiled.programs[only_program]);
        for (const Compiled& other : others)
            add(other.programs[only_program]);
        require_runnable(stages, config);
    }
    return compiled;
}

i64 rows_on(const ParallelConfig& config, i64 rows)
{
    return round_up(rows, batch_ranks(config) * config.context);
}

RunConfig generating(RunConfig config)
{
    ParallelConfig& p = config.parallel;
    p.data *= p.context;
    p.shard *= p.context;
    p.context = 1;
    p.context_heads = 0;
    p.sequence = false;
    p.expert_buffer = 0; // few tokens are spread less evenly
    return config;
}

Compiled compile_generation(const RunConfig& given, const GenerationShape& shape,
                            const CompileConfig& options)
{
    const RunConfig config = generating(given);
    TRV_CHECK(shape.rows % rows_on(config.parallel, 1) == 0, shape.rows, " rows");
    ForwardCompiler compiler(config, options);
    GraphConfig of_graph = graph_config(config);
    of_graph.batch = shape.rows;
    std::vector<DecodeShape> programs{{shape.prefill, shape.capacity}, {1, shape.capacity}};
    if (shape.scores)
        programs.push_back({shape.prefill, shape.capacity, true});
    for (const DecodeShape& program : programs) {
        Graph g = build_decode_graph(config.model, of_graph, program);
        if (&program == &programs.front())
            g.name = "prefill"; // also of one token
        const std::string suffix = "-" + g.name;
        g.mesh = mesh_of(config.parallel);
        g = complete_annotations(std::move(g));
        if (gathers_in_microbatches(config.parallel)) // otherwise each rank has all that it reads
            shard_parameters(g, config.parallel);
        g = gathered(std::move(g), config.parallel, suffix, compiler.runner());
        compiler.add(sharded(std::move(g), suffix, false, compiler.work(), nullptr, compiler.runner()));
    }
    return compiler.finished();
}

} // namespace trivium
