#include "model/program.hpp"

#include "base/check.hpp"
#include "base/words.hpp"
#include "ir/names.hpp"
#include "ir/needed.hpp"
#include "ir/ops/op_table.hpp"
#include "ir/text/text.hpp"
#include "ir/verify.hpp"
#include "model/refusal.hpp"
#include "model/sample_slice.hpp"
#include "model/statistics.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace trivium {

namespace {

constexpr const char *batch_size = "b", *count_name = "count", *count_suffix = ".count";

bool is_scalar(const Value& value) { return value.type.shape.empty(); }

/// The one of `outputs` called `name`; invalid if there is none.
ValueId called(const Graph& graph, const std::vector<ValueId>& outputs, std::string_view name)
{
    const auto at = std::ranges::find_if(outputs, [&](ValueId id) { return graph[id].name == name; });
    return at == outputs.end() ? ValueId{} : *at;
}

ValueId output_called(const Graph& graph, std::string_view name)
{
    return called(graph, graph.outputs, name);
}

void require_forward_pass(const Graph& graph)
{
    if (!graph.at.empty() || !graph.stage_of_block.empty())
        refuse(graph, 0, graph.at.empty() ? "has a line `stages`" : "has a line `at`",
               "a model is a graph over all ranks, and stages follow from parallel.pipeline",
               "remove the line");
    for (const Value& v : graph.values) {
        if (v.role == Role::state || v.role == Role::carry || v.role == Role::hyper || v.role == Role::kept)
            refuse(
                graph, v.line, str("has the ", name_of(v.role), " %", v.name),
                "the optimizer adds what a step keeps",
                "use inputs, parameters (of running statistics with `update average(decay=0.9)`), constants "
                "and ops of a forward pass");
        if (v.role == Role::parameter && !is_floating(v.type.dtype))
            refuse(graph, v.line, str("has the parameter %", v.name, " of type ", v.type),
                   "gradients are of floating-point types", "make it an input or a constant");
        if (v.role == Role::input && v.type.shape.empty())
            refuse(graph, v.line, str("has the scalar input %", v.name),
                   "the first dimension of each input is that of the samples",
                   str("give it the type ", name_of(v.type.dtype), "[b], with the line `size b=8`"));
        if (v.role == Role::parameter && std::holds_alternative<std::monostate>(*v.init))
            refuse(graph, v.line, str("has the parameter %", v.name, " without initial values"), "",
                   "add `init normal(std=0.02)` or `init fill(value=1.0)`");
        if (v.update.kind == UpdateKind::balance)
            refuse(graph, v.line, str("has the parameter %", v.name, " with `update balance`"),
                   "the models' own routers of experts have it",
                   "remove it, or keep a running statistic with `update average(decay=0.9)`");
        if (v.space != Space::device)
            refuse(graph, v.line, str("has %", v.name, " in host memory"), "", "remove `on host`");
    }
    for (const Op& op : graph.ops)
        if (op.region != Region::microbatch || op.phase != Phase::forward || op.accumulate)
            refuse(graph, op.line, str("has the op ", info(op).name, " outside of the forward pass"),
                   "autodiff and the optimizer add the other phases",
                   "write ops without regions, or in `microbatch`, in phase forward");
}

/// The number of samples of the inputs.
i64 samples_of(const Graph& graph)
{
    i64 samples = 0;
    for (const ValueId id : graph.with_role(Role::input)) {
        const i64 own = graph[id].type.shape[0];
        if (samples > 0 && own != samples)
            refuse(graph, graph[id].line,
                   str("has the input %", graph[id].name, " of ", own, " samples, another one of ", samples),
                   "the first dimension of each input is that of the samples",
                   "use the same extent, such as the size b");
        samples = own;
    }
    if (samples == 0)
        refuse(graph, 0, "has no input", "data come from inputs", "add `input %x : f32[b,8]`");
    return samples;
}

/// Whether it has several numbers per sample.
bool is_per_sample(const Value& value, i64 samples)
{
    return value.type.shape.size() > 1 && value.type.shape[0] == samples;
}

void require_outputs(const Graph& graph)
{
    const ValueId loss = output_called(graph, value_name::loss);
    if (!loss)
        refuse(graph, 0, "has no output %loss", "training lowers it",
               "add `output %loss`, a scalar: the sum over the samples of a batch");
    if (!graph[loss].producer)
        refuse(graph, graph[loss].line, "has a loss that no op computes", "", "compute %loss");
    const i64 samples = samples_of(graph);
    for (const ValueId id : graph.outputs) {
        const Value& v = graph[id];
        const bool has_suffix = v.name == count_name || v.name.ends_with(count_suffix);
        if (!is_scalar(v) && !has_suffix && id != loss && is_per_sample(v, samples))
            continue;
        if (!is_scalar(v) || (id == loss && !is_floating(v.type.dtype)))
            refuse(
                graph, v.line, str("has the output %", v.name, " of type ", v.type),
                "an output is a scalar, the sum over the samples of a batch, or has numbers per sample, to "
                "be shown: b is its first dimension and not the only one",
                str("write `reduce(%", v.name, ") {combine=\"sum\", …}`, or remove the output"));
        if (v.name.ends_with(count_suffix) &&
            !output_called(graph, std::string_view(v.name).substr(
                                      0, v.name.size() - std::string_view(count_suffix).size())))
            refuse(graph, v.line, str("has the output %", v.name, " for no output of that name"), "",
                   "remove it, or add the output");
    }
}

/// Each parameter has a gradient: the loss depends on it by floating-point values.
void require_gradients(const Graph& graph)
{
    std::vector<bool> matters(graph.values.size(), false);
    matters[output_called(graph, value_name::loss).index()] = true;
    for (std::size_t i = graph.ops.size(); i-- > 0;)
        if (std::ranges::any_of(graph.ops[i].results, [&](ValueId r) { return matters[r.index()]; }))
            for (const ValueId operand : graph.ops[i].operands)
                if (is_floating(graph[operand].type.dtype))
                    matters[operand.index()] = true;
    for (const ValueId id : graph.with_role(Role::parameter))
        if (is_trained(graph[id]) && !matters[id.index()])
            refuse(graph, graph[id].line,
                   str("has the parameter %", graph[id].name, ", on which the loss does not depend"),
                   "it would have no gradient", "use it, or remove it");
}

/// With the sizes of the config.
TextSettings settings_of(const ModelConfig& model)
{
    TextSettings settings;
    settings.sizes.insert(model.sizes.list.begin(), model.sizes.list.end());
    return settings;
}

/// Whether `count` depends on more data than the input `valid`, which is 1 in a training.
bool counts_vary(const Graph& graph)
{
    std::vector<bool> varies(graph.values.size(), false);
    for (const ValueId id : graph.with_role(Role::input))
        varies[id.index()] = graph[id].name != value_name::valid;
    for (const ValueId id : graph.with_role(Role::parameter))
        varies[id.index()] = true;
    for (const Op& op : graph.ops)
        for (const ValueId r : op.results)
            varies[r.index()] =
                std::ranges::any_of(op.operands, [&](ValueId v) { return varies[v.index()]; });
    const ValueId count = output_called(graph, count_name);
    return count && varies[count.index()];
}

/// The outputs that an evaluation averages, and those that are shown.
void sort_outputs(const Graph& graph, ModelProgram& program)
{
    for (const ValueId id : graph.outputs) {
        const std::string& name = graph[id].name;
        if (!is_scalar(graph[id])) {
            program.shown.push_back({name, ""});
            for (const ValueId input : graph.with_role(Role::input))
                if (graph[input].type.shape == graph[id].type.shape)
                    program.shown.back().scale = graph[input].name;
        } else if (name != value_name::loss && name != count_name && !name.ends_with(count_suffix)) {
            program.metrics.push_back(name);
        }
    }
}

/// Lets ops read each parameter through a cast and a reshard of the prologue, as those of transformers.
void add_copies(Builder& b, DType master)
{
    Graph& graph = b.graph();
    const std::size_t ops = graph.ops.size();
    std::vector<int> first(graph.values.size(), -1); // op that reads a value
    for (std::size_t i = 0; i < ops; ++i)
        for (const ValueId id : graph.ops[i].operands)
            if (int& op = first[id.index()]; op < 0)
                op = static_cast<int>(i);
    std::vector<ValueId> copy(graph.values.size());
    for (const ValueId id : graph.with_role(Role::parameter)) {
        const DType type = graph[id].type.dtype;
        // What no step changes needs no more digits than are read.
        const DType stored = graph[id].update.kind == UpdateKind::frozen ? type : master;
        graph[id].type.dtype = stored;
        if (first[id.index()] < 0) // an average, in a training
            continue;
        const Op& reader = graph.ops[static_cast<std::size_t>(first[id.index()])];
        b.where = {Region::prologue, Phase::forward, reader.block, reader.scope};
        const std::string name = graph[id].name;
        Sharding sharding = std::move(graph[id].sharding);
        graph[id].sharding = {};
        const ValueId read = type == stored ? id : b.cast_to(id, type, str(name, ".", name_of(type)));
        copy[id.index()] = b.reshard_to(read, {}, name + ".used");
        graph[copy[id.index()]].sharding = std::move(sharding);
    }
    for (std::size_t i = 0; i < ops; ++i)
        for (ValueId& id : graph.ops[i].operands)
            if (id.index() < copy.size() && copy[id.index()])
                id = copy[id.index()];
}

/// Gives each block its own copy of what depends on no input and no parameter, so that stages do not send it.
/// What no op reads keeps its block.
class FreeOps {
public:
    explicit FreeOps(Graph& graph) : graph_(graph), names_(graph) {}

    void run()
    {
        std::vector<Op> ops = std::move(graph_.ops);
        graph_.ops.clear();
        source_.assign(graph_.values.size(), -1);
        for (std::size_t i = 0; i < ops.size(); ++i)
            if (std::ranges::all_of(ops[i].operands, [&](ValueId v) { return source_[v.index()] >= 0; }))
                for (const ValueId r : ops[i].results)
                    source_[r.index()] = static_cast<int>(i);
        ops_ = &ops;
        for (std::size_t i = 0; i < ops.size(); ++i)
            if (source_of(ops[i].results[0]) < 0)
                emit(ops[i], ops[i].block);
        for (std::size_t i = 0; i < ops.size(); ++i) // read by no op
            if (source_of(ops[i].results[0]) >= 0 && !has_copy(ops[i].results[0]))
                copy_of(ops[i].results[0], ops[i].block);
    }

private:
    int source_of(ValueId v) const { return v.index() < source_.size() ? source_[v.index()] : -1; }
    bool has_copy(ValueId v) const
    {
        const auto at = copies_.lower_bound({v, 0});
        return at != copies_.end() && at->first.first == v;
    }

    void emit(Op op, int block)
    {
        for (ValueId& operand : op.operands)
            if (source_of(operand) >= 0)
                operand = copy_of(operand, block);
        op.block = block;
        for (const ValueId r : op.results)
            graph_[r].producer = OpId(graph_.ops.size());
        graph_.ops.push_back(std::move(op));
    }

    ValueId copy_of(ValueId v, int block)
    {
        if (const auto known = copies_.find({v, block}); known != copies_.end())
            return known->second;
        Op op = (*ops_)[static_cast<std::size_t>(source_of(v))];
        const bool first = !has_copy(v);
        for (ValueId& r : op.results) {
            const ValueId original = r;
            if (!first) {
                Value again = graph_[original];
                again.name = names_.fresh(str(again.name, ".block", block));
                graph_.values.push_back(std::move(again));
                r = ValueId(graph_.values.size() - 1);
            }
            copies_[{original, block}] = r;
        }
        emit(std::move(op), block);
        return copies_.at({v, block});
    }

    struct Names {
        explicit Names(const Graph& graph)
        {
            for (const Value& v : graph.values)
                used.insert(v.name);
        }
        std::string fresh(std::string name)
        {
            while (!used.insert(name).second)
                name += "'";
            return name;
        }
        std::set<std::string> used;
    };

    Graph& graph_;
    Names names_;
    std::vector<int> source_; ///< by value: the op that makes it, if it depends on nothing
    const std::vector<Op>* ops_ = nullptr;
    std::map<std::pair<ValueId, int>, ValueId> copies_; ///< by value and block
};

/// The output `name`: the sum of `of`, a scalar, over microbatches.
ValueId add_sum(Builder& b, ValueId of, const std::string& name)
{
    if (const DType type = b.graph()[of].type.dtype; type == DType::i32)
        of = b.cast_to(of, DType::f64, name + ".f64");
    else if (type == DType::bf16)
        of = b.cast_to(of, DType::f32, name + ".f32");
    return b.output_sum(OpKind::sum, of, name);
}

/// Outputs the shown slice (sample_slice.hpp) of the first `samples` samples of `of`, f32, whole on each
/// rank.
void show(Builder& b, ValueId of, i64 samples)
{
    Graph& graph = b.graph();
    const Value& value = graph[of];
    const std::string name = value.name;
    const Shape& whole = value.type.shape;
    SampleSlice slice = slice_of_sample({whole.begin() + 1, whole.end()});
    slice.start.insert(slice.start.begin(), 0);
    slice.stride.insert(slice.stride.begin(), 1);
    slice.shape.insert(slice.shape.begin(), samples);
    Shape limit = slice.extent();
    for (std::size_t d = 0; d < limit.size(); ++d)
        limit[d] += slice.start[d];
    b.where = {Region::microbatch, Phase::forward, value.producer ? graph[value.producer].block : 0,
               "samples"};
    const ValueId part =
        b.op1(OpKind::slice, {of},
              {.lists = {{Attr::start, slice.start}, {Attr::limit, limit}, {Attr::stride, slice.stride}}},
              name + ".slice");
    Sharding everywhere;
    everywhere.dims.assign(limit.size(), {{}, false});
    // An accumulator, which stages send each other after the microbatch.
    graph.outputs.push_back(b.total(b.reshard_to(b.cast_to(part, DType::f32), everywhere), name, everywhere));
}

/// `samples`: 0: as many as the text has.
Graph parsed(const std::string& text, const std::string& name, const NamedNumbers& sizes, i64 samples,
             NamedSizes& declared)
{
    TextSettings settings;
    settings.declared = &declared;
    for (const auto& [size, number] : sizes.list) {
        if (size == batch_size || number < 1)
            throw UserError({"model.sizes." + size,
                             size == batch_size ? "is the number of samples, which follows from [train]"
                                                : str("must be positive, is ", number),
                             "", size == batch_size ? "remove it" : "set a positive integer"});
        settings.sizes[size] = number;
    }
    if (samples > 0)
        settings.sizes[batch_size] = samples;
    Graph graph = parse_graph(text, name, settings);
    for (const auto& [size, number] : sizes.list)
        if (!declared.contains(size)) {
            std::vector<std::string> names;
            for (const auto& [known, value] : declared)
                names.push_back(known);
            throw UserError(
                {"model.sizes." + size, str(name, " declares no size '", size, "'"),
                 names.empty() ? "it has no line `size`" : "its sizes are " + joined_words(names, ", "),
                 did_you_mean(size, names, "remove it")});
        }
    return graph;
}

} // namespace

ModelProgram read_program(const std::string& text, const std::string& name, const NamedNumbers& sizes)
{
    ModelProgram made;
    made.text = text;
    NamedSizes declared;
    const Graph graph = parsed(text, name, sizes, 0, declared);
    require_forward_pass(graph);
    require_outputs(graph);
    const i64 own = samples_of(graph);
    made.samples = declared.contains(batch_size) ? own : 0;
    verify(graph, Level::global);
    require_statistics(graph);
    require_gradients(resolve_statistics(graph, false, DType::f32));
    for (const MeshAxis& axis : graph.mesh.axes)
        made.axes.push_back(axis.name);
    std::set<std::string> batch;
    for (const ValueId id : graph.with_role(Role::input))
        if (!graph[id].sharding->dims.empty())
            for (const std::string& axis : graph[id].sharding->dims[0].axes)
                batch.insert(axis.substr(0, axis.find(':')));
    made.batch_axes.assign(batch.begin(), batch.end());
    for (const Op& op : graph.ops)
        made.blocks = std::max<i64>(made.blocks, op.block + 1);
    for (const ValueId id : graph.with_role(Role::parameter)) {
        made.trained.emplace_back(graph[id].name, is_trained(graph[id]) ? graph[id].type.elements() : 0);
        made.parameters += made.trained.back().second;
    }
    sort_outputs(graph, made);
    made.counts_vary = counts_vary(graph);
    return made;
}

std::string what_it_computes(const std::string& text, const std::string& name, const NamedNumbers& sizes,
                             i64 samples)
{
    NamedSizes declared;
    Graph graph = parsed(text, name, sizes, samples, declared);
    graph.mesh = {};
    std::erase_if(graph.outputs, [&](ValueId id) { return !is_scalar(graph[id]); }); // shown
    graph = resolve_statistics(std::move(graph), false, DType::f32);
    graph = only_needed(std::move(graph));
    for (Value& v : graph.values)
        v.sharding = {};
    for (Op& op : graph.ops) {
        op.block = 0;
        op.scope.clear();
    }
    return to_text(graph);
}

std::map<std::string, TensorType> inputs_per_sample(const ModelConfig& model, DType compute)
{
    TextSettings settings = settings_of(model);
    settings.compute = compute;
    const Graph graph = parse_graph(model.program.text.get(), model.file, settings);
    std::map<std::string, TensorType> inputs;
    for (const ValueId id : graph.with_role(Role::input)) {
        const TensorType& type = graph[id].type;
        inputs[graph[id].name] = {type.dtype, {type.shape.begin() + 1, type.shape.end()}};
    }
    return inputs;
}

Graph build_program_graph(const ModelConfig& model, const GraphConfig& config)
{
    TextSettings settings = settings_of(model);
    settings.sizes[batch_size] = config.batch;
    settings.compute = config.compute;
    settings.batch_axes = config.axes.batch;
    Graph graph = parse_graph(model.program.text.get(), model.file, settings);
    for (const ValueId id : graph.with_role(Role::parameter))
        if (config.trained.is_frozen(graph[id].name))
            freeze(graph[id]);
    graph = resolve_statistics(std::move(graph), config.metrics, config.master);
    if (const i64 samples = samples_of(graph); samples != config.batch)
        refuse(graph, 0,
               str("is for microbatches of ", samples, " samples over all ranks, the run has ", config.batch),
               "its inputs do not have the size b as their first extent",
               "declare `size b=8` and write the number of samples as b, or set train.micro_batch");
    FreeOps(graph).run();
    Builder b(graph);
    for (const Value& v : graph.values)
        b.reserve(v.name);
    add_copies(b, config.master);
    const std::vector<ValueId> outputs = std::move(graph.outputs);
    graph.outputs.clear();
    const ValueId loss = called(graph, outputs, value_name::loss);
    b.where = {Region::microbatch, Phase::forward, graph[graph[loss].producer].block, "loss"};
    add_sum(b, loss, value_name::loss_sum);
    ValueId count = called(graph, outputs, count_name);
    if (!count) {
        Attributes constant;
        constant.dtype = DType::f64;
        constant.value = static_cast<double>(config.batch);
        constant.lists.set(Attr::shape, {});
        count = b.op1(OpKind::constant, {}, constant, "samples");
    }
    const ValueId counted = add_sum(b, count, value_name::token_count);
    if (config.metrics)
        for (const std::string& name : model.program.metrics) {
            add_sum(b, called(graph, outputs, name), name + ".sum");
            if (const ValueId own = called(graph, outputs, name + count_suffix))
                add_sum(b, own, name + ".number");
            else
                graph.outputs.push_back(counted);
        }
    if (config.shown > 0)
        for (const ShownOutput& shown : model.program.shown) {
            const ValueId of = called(graph, outputs, shown.name);
            if (graph[of].type.shape[0] != config.batch)
                refuse(graph, graph[of].line,
                       str("has the output %", shown.name, " of type ", graph[of].type, ", the run has ",
                           config.batch, " samples"),
                       "an output of several numbers has those of each sample, to be shown",
                       "write its first extent as b, or remove the output");
            show(b, of, std::min(config.shown, config.batch));
        }
    sort_regions(graph);
    return graph;
}

} // namespace trivium
