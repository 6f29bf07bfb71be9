#include "compile/compile.hpp"

#include "base/check.hpp"
#include "compile/graphs.hpp"
#include "compile/model_axes.hpp"
#include "compile/saved_values.hpp"
#include "ir/collectives.hpp"
#include "model/model.hpp"
#include "passes/autodiff.hpp"
#include "passes/layer_norms.hpp"
#include "passes/memory/recompute.hpp"
#include "passes/memory/tile.hpp"
#include "passes/memory/zero.hpp"
#include "passes/optimizer.hpp"
#include "passes/pipeline/equal_stages.hpp"
#include "passes/pipeline/post_validate.hpp"
#include "passes/pipeline/split_backward.hpp"
#include "passes/sharding/lookahead.hpp"
#include "passes/sharding/propagate.hpp"
#include "passes/simplify.hpp"
#include "plan/cost.hpp"

#include <algorithm>

namespace trivium {

GraphConfig graph_config(const RunConfig& config)
{
    return {micro_batch(config) * batch_ranks(config.parallel),
            compute_type(config.train.precision),
            master_type(config.train.precision),
            model_axes(config),
            config.train.fp8,
            config.data.by_documents(),
            trained_parameters(config)};
}

namespace {

/// With what only the training has.
GraphConfig training_config(const RunConfig& config)
{
    GraphConfig graph = graph_config(config);
    graph.regularisers = {config.model.dropout,         config.train.seed,         config.train.z_loss,
                          config.train.label_smoothing, config.train.balance_loss, config.train.router_z_loss,
                          config.train.balance_rate,    config.train.lora.dropout};
    graph.loads = true;
    return graph;
}

/// For passes that are not part of the report: it neither skips nor dumps.
PassRunner unseen_runner(const CompileConfig& options)
{
    RunnerConfig config;
    config.verify = options.runner.verify;
    return PassRunner(config);
}

} // namespace

bool gathers_in_microbatches(const ParallelConfig& p)
{
    return p.zero == 3 && shard_ranks(p) > 1 && p.gather_every != GatherEvery::step;
}

bool reduces_in_microbatches(const ParallelConfig& p)
{
    return p.zero >= 2 && shard_ranks(p) > 1 && p.reduce_every != ReduceEvery::step;
}

Graph gathered(Graph g, const ParallelConfig& p, const std::string& suffix, PassRunner& runner)
{
    if (!gathers_in_microbatches(p))
        return g;
    if (p.tile > 0)
        g = runner.run("tile" + suffix, Level::global, std::move(g), [&](Graph graph) {
            return simplify(tile(std::move(graph), {p.tile, zero_axis(p)}));
        });
    return runner.run("gather" + suffix, Level::global, std::move(g), gather_in_microbatches);
}

namespace {

/// The loss graph on the mesh of a run. Parts of an axis (`x:(2)2`) that has one rank there shard nothing.
/// Throws UserError if the shardings do not fit the mesh otherwise.
Graph loss_graph(const RunConfig& config, const GraphConfig& graph)
{
    Graph g = build_loss_graph(config.model, graph);
    g.mesh = mesh_of(config.parallel);
    for (Value& v : g.values)
        for (DimSharding& dim : v.sharding.edit().dims)
            std::erase_if(dim.axes, [&](const std::string& name) {
                const std::size_t part = name.find(':');
                return part != std::string::npos && g.mesh.size(name.substr(0, part)) == 1;
            });
    if (config.model.is_program())
        verify(g, Level::global);
    return g;
}

} // namespace

Graph sharded(Graph g, const std::string& suffix, bool moves_weights, const WorkPrices& work,
              MovePrices* known, PassRunner& runner)
{
    g = runner.run("simplify" + suffix, Level::global, std::move(g), simplify);
    g = runner.run("propagate" + suffix, Level::sharded, std::move(g), propagate);
    return runner.run("look-ahead" + suffix, Level::sharded, std::move(g), [&](const Graph& graph) {
        return look_ahead(graph, {{}, pipeline_axis, moves_weights, {}, work, known});
    });
}

namespace {

/// The program of all ranks, with every value's sharding, before what schedules and memory ask for.
Graph plain_graph(const RunConfig& config, const WorkPrices& work, MovePrices* known, PassRunner& runner)
{
    const ParallelConfig& p = config.parallel;
    Graph g = loss_graph(config, training_config(config));
    g.name = "train";
    OptimizerConfig optimizer{config.train.grad_clip, config.train.weight_decay};
    optimizer.kind = config.train.optimizer;
    optimizer.momentum = config.train.momentum;
    optimizer.average = config.train.ema;
    optimizer.shard_axis = p.zero > 0 && shard_ranks(p) > 1 ? zero_axis(p) : "";
    optimizer.shard_frozen = gathers_in_microbatches(p);
    AutodiffConfig gradients;
    gradients.accumulate_bf16 = p.accumulate == GradientType::bf16;
    gradients.reduce_axis = reduces_in_microbatches(p) ? optimizer.shard_axis : "";
    for (const ProgramAxes::Axis& axis : p.axes.list)
        if (axis.shards_batch && axis.degree > 1)
            gradients.batch_axes.push_back(axis.name);
    gradients.reduce_bf16 = p.reduce == GradientType::bf16 && !gradients.reduce_axis.empty();
    if (p.reduce == GradientType::bf16 && !gradients.reduce_bf16) { // otherwise once, in each microbatch
        optimizer.bf16_axes = gradients.batch_axes;
        optimizer.bf16_axes.insert(optimizer.bf16_axes.end(), {replica_axis, data_axis});
    }
    g = runner.run("model", Level::global, std::move(g), complete_annotations);
    g = runner.run("whole-matrices", Level::global, std::move(g),
                   [&](Graph graph) { return keep_matrices_whole(std::move(graph), optimizer); });
    g = gathered(std::move(g), p, "", runner);
    g = runner.run("autodiff", Level::global, std::move(g),
                   [&](Graph graph) { return autodiff(std::move(graph), gradients); });
    g = runner.run("optimizer", Level::global, std::move(g),
                   [&](Graph graph) { return add_optimizer(std::move(graph), optimizer); });
    return sharded(std::move(g), "", config.model.is_program(), work, known, runner);
}

/// The program of all ranks. `split`: weight gradients have their own phase. `every_block`: the first and the
/// last block may recompute, too.
std::shared_ptr<const Graph> training_graph(std::shared_ptr<const Graph> plain, const ParallelConfig& p,
                                            bool split, bool every_block, PassRunner& runner)
{
    const bool gathers = gathers_in_microbatches(p);
    const RecomputeConfig again{gathers && p.gather_every != GatherEvery::microbatch, p.recompute,
                                p.recompute_layers, gathers && p.tile > 0, every_block};
    const bool recomputes = again.gathers || again.parts || again.activations != Recompute::none;
    if (!split && !recomputes)
        return plain;
    Graph g = *plain;
    plain.reset();
    if (split)
        g = runner.run("split-backward", Level::sharded, std::move(g), split_backward);
    if (recomputes)
        g = runner.run("recompute", Level::sharded, std::move(g),
                       [&](Graph graph) { return simplify(recompute(std::move(graph), again)); });
    return std::make_shared<Graph>(std::move(g));
}

} // namespace

Graph evaluation_graph(const RunConfig& config, const WorkPrices& work, MovePrices* known, PassRunner& runner,
                       const Graph* kept)
{
    GraphConfig evaluated = graph_config(config);
    evaluated.metrics = true;
    evaluated.shown = config.log.samples;
    Graph g = loss_graph(config, evaluated);
    g = complete_annotations(std::move(g));
    if (kept)
        for (const ValueId id : g.with_role(Role::parameter))
            g[id].sharding = (*kept)[kept->find(g[id].name)].sharding;
    else if (config.parallel.zero > 0)
        shard_parameters(g, config.parallel);
    g.name = "eval";
    g = gathered(std::move(g), config.parallel, "-eval", runner);
    return sharded(stack_outputs(std::move(g)), "-eval", config.model.is_program(), work, known, runner);
}

namespace {

Graph sharded_norms(Graph g, const WorkPrices& work, MovePrices* known, PassRunner& runner)
{
    const std::string suffix = "-" + g.name;
    return sharded(std::move(g), suffix, false, work, known, runner);
}

} // namespace

void shard_parameters(Graph& graph, const ParallelConfig& p)
{
    if (shard_ranks(p) == 1)
        return;
    const FurtherSharding further(graph, zero_axis(p));
    for (const ValueId id : graph.with_role(Role::parameter))
        graph[id].sharding = further(graph[id].sharding, graph[id].type.shape);
}

std::string suffix_of(const Graph& sharded) { return sharded.name == "train" ? "" : "-" + sharded.name; }

void lay_out(Compiled& compiled, const RunConfig& config, const Machine& machine, bool offsets)
{
    ArenaPlans arenas = lay_out(compiled.programs, lay_out_config(config, machine, offsets));
    compiled.memory = arenas.device;
    compiled.host = arenas.host;
}

LayOutConfig lay_out_config(const RunConfig& config, const Machine& machine, bool offsets)
{
    return {machine.scratch, config.parallel.overlap, !machine.is_device, machine.process, offsets};
}

bool saves_from_snapshot(const RunConfig& config, const Machine& machine)
{
    return machine.is_device || (config.checkpoint.async && config.checkpoint.every > 0);
}

DType compute_type(Precision precision)
{
    return precision == Precision::bf16 ? DType::bf16 : precision == Precision::f64 ? DType::f64 : DType::f32;
}

DType master_type(Precision precision) { return precision == Precision::f64 ? DType::f64 : DType::f32; }

std::vector<std::string> joint_axes(const Compiled& compiled)
{
    std::vector<std::string> axes;
    for (const Program& program : compiled.programs)
        for (std::string& axis : joint_axes(program.graph))
            if (std::find(axes.begin(), axes.end(), axis) == axes.end())
                axes.push_back(std::move(axis));
    return axes;
}

std::size_t training_program(const Compiled& compiled, i64 microbatches)
{
    const auto at = std::ranges::find_if(compiled.programs, [&](const Program& p) {
        return p.graph.name == "train" && p.microbatches == microbatches;
    });
    TRV_CHECK(at != compiled.programs.end(), "no program has ", microbatches, " microbatches");
    return static_cast<std::size_t>(at - compiled.programs.begin());
}

std::optional<std::size_t> program_called(const Compiled& compiled, std::string_view name)
{
    const auto at = std::ranges::find_if(compiled.programs,
                                         [&](const Program& program) { return program.graph.name == name; });
    if (at == compiled.programs.end())
        return std::nullopt;
    return static_cast<std::size_t>(at - compiled.programs.begin());
}

TrainingCompiler::TrainingCompiler(const RunConfig& config, const PipelineOrder& order,
                                   const CompileConfig& options, const ShardedTraining& made,
                                   const ShardedTraining& plain)
    : config_(config), order_(std::make_shared<PipelineOrder>(order)), options_(options),
      runner_(options.runner, made.graph ? made.passes : plain.passes),
      work_(work_prices(deciding_machine(config.parallel, options.machine.is_device),
                        rank_count(config.parallel))),
      buckets_(config, deciding_machine(config.parallel, options.machine.is_device)),
      plain_(made.graph || plain.graph ? plain : made_plain()),
      train_(made.graph ? made.graph
                        : training_graph(plain_.graph, config.parallel, order.is_split(),
                                         config.model.is_program(), runner_)),
      stages_(stages_of(*train_, order.shape, config.parallel.stage_layers)),
      flops_(model_flops(*train_, microbatch_count(config)))
{
    for (PipelineOrder& ramp : ramp_orders(config))
        ramps_.push_back(std::make_shared<PipelineOrder>(std::move(ramp)));
    if (made.graph && options.runner.verify)
        verify(*train_, Level::sharded);
    if (config.parallel.pipeline > 1)
        holders_ = stages(*train_)->holders();
}

ShardedTraining TrainingCompiler::made_plain()
{
    ShardedTraining made;
    made.graph = std::make_shared<Graph>(plain_graph(config_, work_, options_.moves, runner_));
    made.passes = runner_.records();
    return made;
}

Graph TrainingCompiler::unbucketed(i64 stage) { return unbucketed(*train_, first_of_stage(mesh(), stage)); }

Graph TrainingCompiler::unbucketed(const Graph& sharded, const Coordinates& at)
{
    PassRunner unseen = unseen_runner(options_);
    return part_of_rank(sharded, partition_config(at), stages(sharded), "", unseen);
}

StageGraphs* TrainingCompiler::stages(const Graph& sharded)
{
    return config_.parallel.pipeline > 1 ? &staged_.try_emplace(&sharded, sharded, stages_).first->second
                                         : nullptr;
}

Graph TrainingCompiler::finished(const Graph& sharded, const Coordinates& at, const std::string& mode)
{
    if (const auto known = alone_.find(mode);
        known != alone_.end() && &sharded == train_.get() && at == first_of_stage(mesh(), 0))
        return known->second;
    const std::string suffix = suffix_of(sharded);
    Graph own = part_of_rank(sharded, partition_config(at), stages(sharded), suffix, runner_);
    const FinishConfig& finish = finish_of(sharded, at, own, mode);
    return finish_local(std::move(own), finish, suffix, runner_);
}

Graph TrainingCompiler::outline(const Coordinates& at, const std::string& mode)
{
    if (config_.parallel.pipeline == 1)
        return finished(*train_, at, mode);
    const i64 stage = at[static_cast<std::size_t>(mesh().find(pipeline_axis))];
    TRV_CHECK(at == first_of_stage(mesh(), stage), "an outline of another rank than the first of its stage");
    Graph own = stages(*train_)->of(static_cast<int>(stage));
    for (const Outlined& known : outlined_)
        if (known.mode == mode)
            if (const auto translation = StageTranslation::between(known.own, own))
                return translation->translate(known.finished, at);
    Graph part = part_of_stage(own, partition_config(at), "", runner_);
    const FinishConfig& finish = finish_of(*train_, at, part, mode);
    Graph made = finish_local(std::move(part), finish, "", runner_);
    outlined_.push_back({mode, std::move(own), made});
    return made;
}

PartitionConfig TrainingCompiler::partition_config(const Coordinates& at) const
{
    return {at, pipeline_axis, config_.model.is_program(), stages_.stage_of_block, work_, options_.moves};
}

/// Decided on the first rank of the stage: shards differ between ranks, collectives must not.
const FinishConfig& TrainingCompiler::finish_of(const Graph& sharded, const Coordinates& at, const Graph& own,
                                                const std::string& mode)
{
    const i64 stage = at[static_cast<std::size_t>(mesh().find(pipeline_axis))];
    const auto [known, unknown] = made_.try_emplace({stage, sharded.name});
    if (unknown) {
        const Coordinates first = first_of_stage(mesh(), stage);
        known->second = finish_config(first == at ? own : unbucketed(sharded, first), mode);
    }
    return known->second;
}

FinishConfig TrainingCompiler::finish_config(const Graph& first, const std::string& mode)
{
    const ParallelConfig& p = config_.parallel;
    FinishConfig made;
    made.group = p.group;
    made.offload = p.offload == Offload::optimizer;
    made.ring = p.context_form == ContextForm::ring;
    if (p.overlap)
        made.overlap = [&](const Graph& g) {
            return overlap_seconds(g, buckets_.machine(), buckets_.threads());
        };
    made.buckets = buckets_.with_mode(first, mode);
    if (p.overlap && !made.ring)
        made.parts = parts_of_gathers(first, made.overlap, !buckets_.machine().is_device);
    return made;
}

const Graph& TrainingCompiler::alone(const std::string& mode)
{
    auto known = alone_.find(mode);
    if (known == alone_.end()) {
        if (!part_)
            part_ = unbucketed(0);
        PassRunner unseen = unseen_runner(options_);
        known = alone_.emplace(mode, finish_local(*part_, finish_config(*part_, mode), "", unseen)).first;
    }
    return known->second;
}

Compiled TrainingCompiler::rank(i64 rank, const std::string& mode)
{
    if (!eval_ && !options_.outline) {
        eval_ =
            std::make_shared<Graph>(evaluation_graph(config_, work_, options_.moves, runner_, train_.get()));
        evaluation_ = std::make_shared<PipelineOrder>(evaluation_order(order_->shape));
        if (config_.train.ema > 0)
            extras_.push_back(std::make_shared<Graph>(with_averages(*eval_, *train_, average_evaluation)));
        if (config_.log.layer_norms > 0) {
            NormPrograms made = norm_programs(*train_);
            for (Graph* graph : {&made.remember, &made.norms})
                extras_.push_back(std::make_shared<Graph>(
                    sharded_norms(std::move(*graph), work_, options_.moves, runner_)));
        }
    }
    Compiled compiled;
    if (!options_.outline) {
        for (std::size_t block = 0; block < stages_.stage_of_block.size(); ++block)
            compiled.rank_of_block.push_back(stages_.rank_of_block(static_cast<int>(block)));
        compiled.holders = holders_;
        compiled.order = *order_;
    }
    compiled.at = mesh().coordinates(rank);
    compiled.parallel = config_.parallel;
    compiled.parallel.bucket = mode;
    compiled.flops = flops_;
    const auto stage = static_cast<std::size_t>(stage_of(mesh(), rank));
    const auto add = [&](const std::shared_ptr<const Graph>& sharded, const SharedOrder& order) {
        compiled.programs.push_back(
            {options_.outline ? outline(compiled.at, mode) : finished(*sharded, compiled.at, mode),
             order->shape.microbatches,
             {},
             sharded,
             order->ranks[stage],
             order});
    };
    add(train_, order_);
    if (!options_.outline)
        add(eval_, evaluation_);
    if (config_.parallel.update == UpdateMode::post_validated) {
        Program& train = compiled.programs[train_program];
        PostValidated made;
        train.graph = runner_.run("post-validate", Level::local, std::move(train.graph), [&](const Graph& g) {
            made = post_validate(g);
            return made.train;
        });
        train.head = head_tasks(*order_)[stage];
        for (Graph* graph : {&made.validate, &made.restore, &made.redo}) {
            if (options_.outline)
                break;
            runner_.run(graph->name, Level::local, *graph, [](Graph g) { return g; });
            compiled.programs.push_back({std::move(*graph)});
        }
    }
    for (const SharedOrder& order : ramps_) {
        if (options_.outline)
            break;
        Program smaller = compiled.programs[train_program];
        smaller.microbatches = order->shape.microbatches;
        smaller.tasks = order->ranks[stage];
        smaller.order = order;
        if (config_.parallel.update == UpdateMode::post_validated)
            smaller.head = head_tasks(*order)[stage];
        compiled.programs.push_back(std::move(smaller));
    }
    for (const auto& extra : extras_)
        add(extra, evaluation_);
    lay_out(compiled, config_, options_.machine, !options_.outline);
    if (saves_from_snapshot(config_, options_.machine))
        for (const SavedValue& saved : saved_values(compiled.programs[train_program], compiled.at, holders_))
            compiled.memory.snapshot += saved.written();
    if (config_.model.is_program())
        for (const Graph& train = compiled.programs[train_program].graph;
             const ValueId input : train.with_role(Role::input))
            compiled.memory.read_ahead += train[input].type.bytes();
    compiled.passes = runner_.records();
    return compiled;
}

std::string plain_key(const RunConfig& config)
{
    const ParallelConfig& p = config.parallel;
    std::string key;
    for (const i64 degree : degrees_of(p))
        key += str(degree, " ");
    for (const std::string& axis : p.order)
        key += axis + " ";
    const bool gathers = gathers_in_microbatches(p);
    return str(key, p.context_heads, " ", p.expert, " ", p.expert_buffer, " ", config.model.layers, " ",
               config.model.seq, " ", micro_batch(config), " ", p.zero, " ", p.shard, " ", p.sequence, " ",
               gathers, " ", gathers ? p.tile : 0, " ", p.zero >= 2 ? name_of(p.reduce_every) : "", " ",
               name_of(p.reduce), " ", name_of(p.accumulate));
}

Graph graph_of_stages(const RunConfig& config)
{
    RunConfig whole = config;
    whole.parallel.tensor = 1; // costs of all ranks together
    return build_loss_graph(whole.model, training_config(whole));
}

std::vector<int> ranks_of_blocks(const RunConfig& config)
{
    if (config.parallel.pipeline == 1)
        return std::vector<int>(static_cast<std::size_t>(config.model.blocks()), 0);
    const StageConfig stages =
        stages_of(graph_of_stages(config), training_order(config).shape, config.parallel.stage_layers);
    std::vector<int> ranks;
    for (const int stage : stages.stage_of_block)
        ranks.push_back(stages.rank_of_stage[static_cast<std::size_t>(stage)]);
    return ranks;
}

} // namespace trivium
