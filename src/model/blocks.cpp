#include "model/blocks.hpp"

#include "base/bf16.hpp"
#include "base/check.hpp"
#include "config/model_parameters.hpp"
#include "ir/names.hpp"

#include <algorithm>
#include <cmath>

namespace trivium {

namespace {

/// `value` as a number of type `type`.
double rounded_to(DType type, double value)
{
    const auto single = static_cast<float>(value);
    return type == DType::f64 ? value : type == DType::bf16 ? static_cast<float>(bf16(single)) : single;
}

} // namespace

ModelBuilder::ModelBuilder(Graph& graph, const ModelConfig& model, const GraphConfig& config)
    : b_(graph), m_(model), c_(config)
{
    resolve(m_);
    // With experts the first layers may have other parameters than the last, of other names.
    for (const auto& list :
         {outer_parameters(m_), layer_parameters(m_, 0), layer_parameters(m_, m_.layers - 1)})
        for (const ModelParameter& parameter : list) {
            listed_[parameter.name] = parameter;
            for (const ModelParameter& part : adapter_of(parameter, c_.trained.lora))
                listed_[part.name] = part;
        }
}

void ModelBuilder::enter(int block, const std::string& scope)
{
    b_.where.block = block;
    b_.where.scope = scope;
}

Sharding ModelBuilder::sharding_of(const Dims& dims) const
{
    const ModelAxes& axes = c_.axes;
    const auto wide = [&](const std::string& dim) {
        return dim == "f" || dim == "h" || dim == "w" || dim == "v" ||
               dim == (axes.split_queries ? "r" : "g");
    };
    // An axis shards only one dimension: the sequence only if no wider dimension uses the axis.
    const bool along_sequence = axes.sequence && std::none_of(dims.begin(), dims.end(), wide);
    const bool of_heads = std::ranges::find(dims, "e") != dims.end();
    Sharding sharding;
    sharding.origin = "the model";
    for (const std::string& dim : dims) {
        sharding.dims.push_back({{}, false});
        std::vector<std::string>& own = sharding.dims.back().axes;
        const auto add = [&](const std::vector<std::string>& more) {
            own.insert(own.end(), more.begin(), more.end());
        };
        if (dim == "b" || dim == "q")
            own = axes.batch;
        if (dim == "s" || dim == "t" || dim == "q") {
            add(axes.context);
            if (!of_heads)
                add(axes.context_heads);
        }
        if (!axes.tensor.empty() && (wide(dim) || (dim == "s" && along_sequence)))
            own.push_back(axes.tensor);
        if (dim == "g" && of_heads)
            add(axes.context_heads);
    }
    return sharding;
}

ValueId ModelBuilder::annotate(ValueId x, const Dims& dims)
{
    b_.graph()[x].sharding = sharding_of(dims);
    return x;
}

std::string ModelBuilder::scoped(const std::string& name) const
{
    return b_.where.scope.empty() ? name : b_.where.scope + "." + name;
}

std::string ModelBuilder::listed(const std::string& name) const
{
    const std::string whole = scoped(name), layers = "layers.";
    return whole.starts_with(layers) ? whole.substr(whole.find('.', layers.size()) + 1) : whole;
}

ValueId ModelBuilder::parameter(const std::string& name, const Init& init, bool exact)
{
    const auto at = listed_.find(listed(name));
    TRV_CHECK(at != listed_.end(), "the list of parameters lacks ", scoped(name));
    Shape shape;
    for (const char dim : at->second.dims)
        shape.push_back(dim == rank_dim ? c_.trained.lora.rank : extent_of(m_, dim));
    const bool frozen = c_.trained.is_frozen(scoped(name));
    const DType type = exact ? accumulator_of(c_.master) : frozen ? c_.compute : c_.master;
    const ValueId made = b_.value(scoped(name), {type, std::move(shape)}, Role::parameter, init);
    Value& parameter = b_.graph()[made];
    if (at->second.dims.find(rank_dim) == std::string::npos) // adapters do not depend on the width
        scale_with_size(parameter);
    if (frozen)
        freeze(parameter);
    return stored_[scoped(name)] = made;
}

void ModelBuilder::scale_with_size(Value& parameter) const
{
    const double width = width_factor(m_);
    const bool in_layer = b_.where.block > 0 && b_.where.block <= m_.layers;
    if (in_layer && std::holds_alternative<NormalInit>(*parameter.init)) {
        std::get<NormalInit>(parameter.init.edit()).std /= std::sqrt(width);
        parameter.factors = {.rate = 1 / width, .decay = width};
    }
    parameter.factors.eps = 1 / (in_layer ? width * depth_factor(m_) : width);
}

ValueId ModelBuilder::compute_copy(ValueId parameter, DType type)
{
    const std::string name = b_.graph()[parameter].name;
    b_.where.region = Region::prologue;
    if (b_.graph()[parameter].type.dtype != type)
        parameter = b_.cast_to(parameter, type, name + "." + std::string(name_of(type)));
    const ValueId here = b_.reshard_to(parameter, {}, name + ".used");
    b_.where.region = Region::microbatch;
    return here;
}

void ModelBuilder::decays(ValueId parameter, int rows, int stack)
{
    if (!is_trained(b_.graph()[parameter]))
        return;
    b_.graph()[parameter].decay = true;
    b_.graph()[parameter].rows = rows;
    b_.graph()[parameter].stack = stack;
}

ValueId ModelBuilder::weight(const std::string& name, double std, int rows, int stack)
{
    const ValueId id = parameter(name, NormalInit{std});
    decays(id, rows, stack);
    return compute_copy(id, c_.compute);
}

ValueId ModelBuilder::vector(const std::string& name, double fill)
{
    return compute_copy(parameter(name, FillInit{fill}), c_.compute);
}

void ModelBuilder::inputs(i64 batch, i64 seq)
{
    batch_ = batch;
    seq_ = seq;
    const auto input = [&](const char* name) {
        return annotate(b_.value(name, {DType::i32, {batch, seq}}, Role::input), {"b", "n"});
    };
    tokens_ = input(value_name::tokens);
    positions_ = input(value_name::positions);
    if (c_.documents)
        starts_ = input(value_name::starts);
}

ValueId ModelBuilder::target_input(i64 batch, i64 seq)
{
    return b_.value(value_name::targets, {DType::i32, {batch, seq}}, Role::input);
}

ValueId ModelBuilder::row_input(const char* name)
{
    return annotate(b_.value(name, {DType::i32, {batch_}}, Role::input), {"b"});
}

ValueId ModelBuilder::in_order(ValueId input)
{
    // Not sharded over the tensor axis: lookups in a sharded vocabulary need every token.
    if (c_.axes.context.empty() && c_.axes.context_heads.empty())
        return input;
    const auto [at, added] = ordered_.try_emplace({input, b_.where.block});
    if (added) {
        Attributes attributes = order_attributes();
        attributes.sizes = {{"s", seq_}};
        at->second = annotate(
            b_.op1(OpKind::in_order, {input}, attributes, str(b_.where.scope, ".", b_.graph()[input].name)),
            {"b", "t"});
    }
    return at->second;
}

Attributes ModelBuilder::order_attributes() const
{
    Attributes attributes;
    if (c_.axes.context_ranks > 1)
        attributes.lists.set(Attr::order, {c_.axes.context_ranks, seq_});
    return attributes;
}

ValueId ModelBuilder::times(ValueId x, double factor)
{
    return factor == 1 ? x : b_.op1(OpKind::affine, {x}, {.alpha = factor});
}

ValueId ModelBuilder::embed()
{
    enter(0, "embed");
    embed_ = weight("weight", init_std);
    annotate(embed_, {"v", "d"});
    ValueId x = annotate(looked_up(embed_, in_order(tokens_)), {"b", "s", "d"});
    if (c_.axes.sequence && !c_.axes.tensor.empty()) // where heads and widths leave the axis to it
        b_.graph()[x].sharding.edit().dims[1].priority = 1;
    x = times(x, rounded_to(c_.compute, scale_of_embeddings(m_)));
    if (m_.positions == Positions::learned) {
        enter(0, "positions");
        const ValueId table = weight("weight", init_std);
        x = b_.sum_of(x, looked_up(table, in_order(positions_)));
    }
    return dropped(x, 0);
}

Attributes ModelBuilder::rms_attributes() const
{
    Attributes attributes;
    if (m_.norm_offset)
        attributes.offset = 1;
    if (m_.norm_rounding == NormRounding::before_weight)
        attributes.lists.set(Attr::rounded, {1});
    return attributes;
}

ValueId ModelBuilder::rms_norm(ValueId x, double eps)
{
    Attributes attributes = rms_attributes();
    attributes.eps = eps;
    return b_.op(OpKind::rms_norm, {x, vector("weight", m_.norm_offset ? 0 : 1)}, attributes,
                 {scoped("out"), scoped("rstd")})[0];
}

ValueId ModelBuilder::norm(const std::string& name, ValueId x)
{
    const std::string outer = b_.where.scope;
    b_.where.scope = scoped(name);
    ValueId y;
    if (m_.norm == NormKind::rms) {
        y = rms_norm(x, m_.norm_eps);
    } else {
        const ValueId w = vector("weight", 1), bias = vector("bias", 0);
        y = b_.op(OpKind::layer_norm, {x, w, bias}, {.eps = m_.norm_eps},
                  {scoped("out"), scoped("mean"), scoped("rstd")})[0];
    }
    b_.where.scope = outer;
    return y;
}

ValueId ModelBuilder::add_bias(const std::string& name, ValueId y)
{
    const std::string outer = b_.where.scope;
    b_.where.scope = scoped(name);
    if (listed_.contains(listed("bias"))) {
        Dims out{"b", "s"}, bias_dims;
        for (const char dim : listed_[listed("bias")].dims)
            bias_dims.emplace_back(1, dim);
        out.insert(out.end(), bias_dims.begin(), bias_dims.end());
        y = b_.op1(OpKind::bias_add, {y, vector("bias", 0)}, {.rule = Rule({{{out}, {bias_dims}}, {{out}}})},
                   scoped("biased"));
    }
    b_.where.scope = outer;
    return y;
}

ValueId ModelBuilder::product(const std::string& name, ValueId x, const Rule& rule, double std)
{
    const std::string outer = b_.where.scope;
    b_.where.scope = scoped(name);
    const Dims &weight_dims = rule->operands[1].dims, &in = rule->operands[0].dims;
    Attributes attrs{.rule = rule};
    if (c_.fp8)
        attrs.fp8 = {Fp8::e4m3, Fp8::e4m3};
    const auto rows = std::count_if(weight_dims.begin(), weight_dims.end(), [&](const std::string& dim) {
        return std::find(in.begin(), in.end(), dim) != in.end();
    });
    x = whole_input(x, rule);
    const ValueId y = adapted(
        x, b_.op1(OpKind::matmul, {x, weight("weight", std, static_cast<int>(rows))}, attrs, scoped("out")),
        rule);
    b_.where.scope = outer;
    return y;
}

ValueId ModelBuilder::linear(const std::string& name, ValueId x, const Rule& rule)
{
    return add_bias(name, product(name, x, rule, init_std));
}

double ModelBuilder::std_into_stream() const
{
    return init_std / std::sqrt(2.0 * static_cast<double>(m_.base_layers > 0 ? m_.base_layers : m_.layers));
}

ValueId ModelBuilder::into_stream(const std::string& name, ValueId x, const Rule& rule)
{
    const ValueId y = product(name, x, rule, std_into_stream());
    return sums_branches() ? y : dropped(add_bias(name, y), name == "o" ? 0 : 1);
}

ValueId ModelBuilder::sample_numbers()
{
    if (!samples_)
        samples_ =
            annotate(b_.value(value_name::samples, {DType::i32, {batch_, 2}}, Role::input), {"b", "n"});
    return samples_;
}

ValueId ModelBuilder::dropped(ValueId x, i64 branch)
{
    const Regularisers& r = c_.regularisers;
    if (r.dropout == 0)
        return x;
    Attributes attrs = order_attributes();
    attrs.rate = r.dropout;
    attrs.lists.set(Attr::stream, {r.seed, 2 * b_.where.block + branch});
    return b_.op1(OpKind::dropout, {x, sample_numbers()}, attrs, b_.where.scope + ".dropped");
}

ValueId ModelBuilder::activated(ValueId gate, ValueId up)
{
    const Activation usual = gate ? Activation::silu : Activation::gelu_tanh; // of the op
    Attributes attributes;
    if (m_.activation != usual)
        attributes.activation = std::string(name_of(m_.activation));
    return gate ? b_.op1(OpKind::swiglu, {gate, up}, attributes) : b_.op1(OpKind::gelu, {up}, attributes);
}

ValueId ModelBuilder::dense_hidden(ValueId x, const std::string& f)
{
    const Rule rule(str("b s d, d ", f, " -> b s ", f));
    const ValueId gate = m_.gated ? linear("gate", x, rule) : ValueId{}, up = linear("up", x, rule);
    return annotate(activated(gate, up), {"b", "s", f});
}

ValueId ModelBuilder::feed_forward(i64 layer, ValueId x)
{
    if (m_.has_experts(layer))
        return dropped(experts(x), 1);
    return into_stream("down", dense_hidden(x, "f"), "b s f, f d -> b s d");
}

ValueId ModelBuilder::block(i64 layer, ValueId x)
{
    const int unit = static_cast<int>(layer) + 1;
    const std::string scope = str("layers.", layer);
    const bool before = m_.placement != Placement::post,
               after = m_.placement == Placement::post || m_.placement == Placement::sandwich;
    const auto within = [&](const std::string& part) { enter(unit, scope + part); };
    const auto part = [&](const std::string& name, ValueId in) {
        within("");
        // Without a norm a copy of x, so that the gradients of its products are summed before those of the
        // stream, which are whole, join them: one reduction over tensor ranks, not one per product.
        ValueId h = before ? norm(name + "_norm", in) : b_.reshard_to(in, {}, str(scope, ".", name, ".in"));
        within("." + name);
        h = name == "attn" ? attention(layer, h) : feed_forward(layer, h);
        within("");
        return after ? norm(name + "_post_norm", h) : h;
    };
    if (m_.placement == Placement::parallel) { // one sum over tensor ranks; biases are added after it
        const ValueId attention = part("attn", x);
        ValueId sum = b_.sum_of(attention, part("ffn", x));
        if (sums_branches()) {
            within(".attn");
            sum = add_bias("o", sum);
            within(".ffn");
            if (!m_.has_experts(layer))
                sum = add_bias("down", sum);
        }
        return b_.sum_of(x, times(sum, m_.residual_scale / depth_factor(m_)));
    }
    for (const char* name : {"attn", "ffn"}) {
        const ValueId h = part(name, x);
        within(str(".", name));
        x = b_.sum_of(x, times(h, m_.residual_scale / depth_factor(m_)));
    }
    return x;
}

ValueId ModelBuilder::final_norm(ValueId x)
{
    enter(static_cast<int>(m_.layers) + 1, "");
    return norm("final_norm", x);
}

ValueId ModelBuilder::head(ValueId x, const Rule& rule)
{
    enter(static_cast<int>(m_.layers) + 1, "head");
    const ValueId table = m_.tied_embeddings ? embed_ : weight("weight", init_std);
    const double divisor = m_.logit_divisor * width_factor(m_);
    const bool divided = divisor != 1, capped = m_.logit_cap > 0;
    // The last of the three ops makes the value of this name.
    const auto made = [&](bool last, OpKind kind, std::vector<ValueId> operands, Attributes attributes) {
        return annotate(
            b_.op1(kind, std::move(operands), std::move(attributes), last ? value_name::logits : ""),
            rule->results[0].dims);
    };
    const bool adapts = !m_.tied_embeddings && has_adapter();
    if (adapts)
        x = whole_input(x, rule);
    ValueId y = made(!divided && !capped && !adapts, OpKind::matmul, {x, table}, {.rule = rule});
    if (adapts) {
        y = annotate(adapted(x, y, rule), rule->results[0].dims);
        if (!divided && !capped)
            b_.graph()[y].name = value_name::logits;
    }
    if (divided)
        y = made(!capped, OpKind::affine, {y}, {.alpha = 1 / divisor});
    if (capped)
        y = made(true, OpKind::softcap, {y}, {.cap = m_.logit_cap});
    return y;
}

} // namespace trivium
