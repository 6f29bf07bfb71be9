#include "model/blocks.hpp"

#include "base/check.hpp"
#include "ir/names.hpp"

#include <algorithm>
#include <cmath>

namespace trivium {

namespace {

// GPT-2's initial standard deviation; products that write into the residual stream get it divided by
// sqrt(2 layers), so that its variance does not grow with depth (Radford et al. 2019, section 2.3).
constexpr double init_std = 0.02;

} // namespace

ModelBuilder::ModelBuilder(Graph& graph, const ModelConfig& model, const GraphConfig& config)
    : b_(graph), m_(model), c_(config)
{
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
        return dim == "f" || dim == "v" || dim == (axes.split_queries ? "r" : "g");
    };
    // An axis shards only one dimension: the sequence only if no wider dimension uses the axis.
    const bool along_sequence = axes.sequence && std::none_of(dims.begin(), dims.end(), wide);
    Sharding sharding;
    sharding.origin = "the model";
    for (const std::string& dim : dims) {
        sharding.dims.push_back({{}, false});
        if (dim == "b")
            sharding.dims.back().axes = axes.batch;
        else if (!axes.tensor.empty() && (wide(dim) || (dim == "s" && along_sequence)))
            sharding.dims.back().axes = {axes.tensor};
    }
    return sharding;
}

ValueId ModelBuilder::annotate(ValueId x, const Dims& dims)
{
    b_.graph()[x].sharding = sharding_of(dims);
    return x;
}

ValueId ModelBuilder::compute_copy(ValueId parameter)
{
    const std::string name = b_.graph()[parameter].name;
    b_.where.region = Region::prologue;
    if (b_.graph()[parameter].type.dtype != c_.compute)
        parameter = b_.cast_to(parameter, c_.compute, name + "." + std::string(name_of(c_.compute)));
    const ValueId here = b_.reshard_to(parameter, {}, name + ".used");
    b_.where.region = Region::microbatch;
    return here;
}

ValueId ModelBuilder::weight(const std::string& name, Shape shape, double std, int rows)
{
    const ValueId id = b_.value(b_.where.scope.empty() ? name : b_.where.scope + "." + name,
                                {c_.master, std::move(shape)}, Role::parameter, NormalInit{std});
    b_.graph()[id].decay = true;
    b_.graph()[id].rows = rows;
    return compute_copy(id);
}

ValueId ModelBuilder::vector(const std::string& name, Shape shape, double fill)
{
    return compute_copy(b_.value(b_.where.scope + "." + name, {c_.master, std::move(shape)}, Role::parameter,
                                 FillInit{fill}));
}

void ModelBuilder::inputs(i64 batch, i64 seq)
{
    batch_ = batch;
    seq_ = seq;
    // Whole along the sequence: lookups in a sharded vocabulary need every token.
    tokens_ = annotate(b_.value(value_name::tokens, {DType::i32, {batch, seq}}, Role::input), {"b", "t"});
    positions_ =
        annotate(b_.value(value_name::positions, {DType::i32, {batch, seq}}, Role::input), {"b", "t"});
}

ValueId ModelBuilder::target_input(i64 batch, i64 seq)
{
    return b_.value(value_name::targets, {DType::i32, {batch, seq}}, Role::input);
}

ValueId ModelBuilder::embed()
{
    enter(0, "embed");
    embed_ = weight("weight", {m_.vocab, m_.dim}, init_std);
    annotate(embed_, {"v", "d"});
    ValueId x = annotate(b_.op1(OpKind::embedding, {embed_, tokens_}, {}, "embed.out"), {"b", "s", "d"});
    if (c_.axes.sequence && !c_.axes.tensor.empty()) // where heads and widths leave the axis to it
        b_.graph()[x].sharding.dims[1].priority = 1;
    if (m_.family == Family::gpt2) {
        enter(0, "positions");
        const ValueId table = weight("weight", {m_.seq, m_.dim}, init_std);
        x = b_.sum_of(x, b_.op1(OpKind::embedding, {table, positions_}));
    }
    return dropped(x, 0);
}

ValueId ModelBuilder::norm(const std::string& name, ValueId x)
{
    const std::string outer = b_.where.scope;
    b_.where.scope = outer.empty() ? name : outer + "." + name;
    const ValueId w = vector("weight", {m_.dim}, 1);
    const Attributes eps{.eps = m_.norm_eps};
    ValueId y;
    if (m_.family == Family::llama)
        y = b_.op(OpKind::rms_norm, {x, w}, eps, {b_.where.scope + ".out", b_.where.scope + ".rstd"})[0];
    else
        y = b_.op(OpKind::layer_norm, {x, w, vector("bias", {m_.dim}, 0)}, eps,
                  {b_.where.scope + ".out", b_.where.scope + ".mean", b_.where.scope + ".rstd"})[0];
    b_.where.scope = outer;
    return y;
}

ValueId ModelBuilder::linear(const std::string& name, ValueId x, const Rule& rule, Shape shape, double std)
{
    const std::string outer = b_.where.scope;
    b_.where.scope = outer + "." + name;
    const Dims &weight_dims = rule->operands[1].dims, &out = rule->results[0].dims;
    Attributes attrs{.rule = rule};
    if (c_.fp8)
        attrs.fp8 = {Fp8::e4m3, Fp8::e4m3};
    const auto rows = std::count_if(weight_dims.begin(), weight_dims.end(), [&](const std::string& dim) {
        const Dims& in = rule->operands[0].dims;
        return std::find(in.begin(), in.end(), dim) != in.end();
    });
    ValueId y = b_.op1(OpKind::matmul, {x, weight("weight", std::move(shape), std, static_cast<int>(rows))},
                       attrs, b_.where.scope + ".out");
    if (m_.family == Family::gpt2) {
        const Shape& y_shape = b_.graph()[y].type.shape;
        const Dims bias_dims(out.begin() + 2, out.end()); // all but b and s
        const ValueId bias = vector("bias", Shape(y_shape.begin() + 2, y_shape.end()), 0);
        y = b_.op1(OpKind::bias_add, {y, bias}, {.rule = Rule({{{out}, {bias_dims}}, {{out}}})},
                   b_.where.scope + ".biased");
    }
    b_.where.scope = outer;
    return y;
}

ValueId ModelBuilder::rope_table()
{
    if (!rope_table_) {
        const RopeScaling& s = m_.rope_scaling;
        const i64 length = std::max(m_.seq, cache_capacity);
        rope_table_ = b_.value(
            "rope_table", {accumulator_of(c_.compute), {length, m_.head_dim() / 2, 2}}, Role::constant,
            RopeTableInit{m_.rope_theta, s.factor, s.low_freq_factor, s.high_freq_factor, s.original_seq});
    }
    return rope_table_;
}

ValueId ModelBuilder::dropped(ValueId x, i64 branch)
{
    const Regularisers& r = c_.regularisers;
    if (r.dropout == 0)
        return x;
    if (!samples_)
        samples_ =
            annotate(b_.value(value_name::samples, {DType::i32, {batch_, 2}}, Role::input), {"b", "w"});
    Attributes attrs{.rate = r.dropout};
    attrs.lists.set(Attr::stream, {r.seed, 2 * b_.where.block + branch});
    return b_.op1(OpKind::dropout, {x, samples_}, attrs, b_.where.scope + ".dropped");
}

ValueId ModelBuilder::attention(i64 layer, ValueId x)
{
    const i64 d = m_.dim, g = m_.kv_heads, r = m_.heads / m_.kv_heads, e = m_.head_dim();
    const double residual_std = init_std / std::sqrt(2.0 * static_cast<double>(m_.layers));
    ValueId q = linear("q", x, "b s d, d g r e -> b s g r e", {d, g, r, e}, init_std);
    ValueId k = linear("k", x, "b s d, d g e -> b s g e", {d, g, e}, init_std);
    ValueId v = linear("v", x, "b s d, d g e -> b s g e", {d, g, e}, init_std);
    if (m_.family == Family::llama) {
        q = b_.op1(OpKind::rope, {q, positions_, rope_table()});
        k = b_.op1(OpKind::rope, {k, positions_, rope_table()});
    }
    const Attributes scale{.scale = 1 / std::sqrt(static_cast<double>(e))};
    std::vector<ValueId> o;
    if (cache_capacity == 0) {
        o = b_.op(OpKind::attention, {q, k, v}, scale);
    } else {
        const auto cached = [&](const char* name, ValueId rows) {
            const ValueId cache =
                b_.value(str("layers.", layer, ".attn.", name), {c_.compute, {batch_, cache_capacity, g, e}},
                         Role::state, FillInit{0});
            const ValueId next = b_.op1(OpKind::cache_write, {cache, rows, start});
            b_.graph().carries.push_back({cache, next});
            return next;
        };
        k = cached("k_cache", k);
        v = cached("v_cache", v);
        o = b_.op(OpKind::attention_cached, {q, k, v, start}, scale);
    }
    annotate(o[0], {"b", "s", "g", "r", "e"});
    return dropped(linear("o", o[0], "b s g r e, g r e d -> b s d", {g, r, e, d}, residual_std), 0);
}

ValueId ModelBuilder::feed_forward(ValueId x)
{
    const i64 d = m_.dim, f = m_.ffn_dim;
    const double residual_std = init_std / std::sqrt(2.0 * static_cast<double>(m_.layers));
    ValueId h;
    if (m_.family == Family::llama) {
        const ValueId gate = linear("gate", x, "b s d, d f -> b s f", {d, f}, init_std);
        const ValueId up = linear("up", x, "b s d, d f -> b s f", {d, f}, init_std);
        h = b_.op1(OpKind::swiglu, {gate, up});
    } else {
        h = b_.op1(OpKind::gelu, {linear("up", x, "b s d, d f -> b s f", {d, f}, init_std)});
    }
    annotate(h, {"b", "s", "f"});
    return dropped(linear("down", h, "b s f, f d -> b s d", {f, d}, residual_std), 1);
}

ValueId ModelBuilder::block(i64 layer, ValueId x)
{
    const int unit = static_cast<int>(layer) + 1;
    const std::string scope = str("layers.", layer);
    enter(unit, scope);
    ValueId h = norm("attn_norm", x);
    enter(unit, scope + ".attn");
    x = b_.sum_of(x, attention(layer, h));
    enter(unit, scope);
    h = norm("ffn_norm", x);
    enter(unit, scope + ".ffn");
    return b_.sum_of(x, feed_forward(h));
}

ValueId ModelBuilder::final_norm(ValueId x)
{
    enter(static_cast<int>(m_.layers) + 1, "");
    return norm("final_norm", x);
}

ValueId ModelBuilder::head(ValueId x, const Rule& rule)
{
    enter(static_cast<int>(m_.layers) + 1, "head");
    const ValueId table = m_.tied_embeddings ? embed_ : weight("weight", {m_.vocab, m_.dim}, init_std);
    return annotate(b_.op1(OpKind::matmul, {x, table}, {.rule = rule}, value_name::logits),
                    rule->results[0].dims);
}

} // namespace trivium
