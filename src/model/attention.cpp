// Attention of a decoder block: of heads whose keys and values are products of x, or of latent vectors.
#include "base/check.hpp"
#include "ir/names.hpp"
#include "model/blocks.hpp"

#include <algorithm>

namespace trivium {

ValueId ModelBuilder::qk_norm(const std::string& name, ValueId x, const std::string& heads)
{
    if (m_.qk_norm == QkNorm::none)
        return x;
    const std::string outer = b_.where.scope;
    b_.where.scope = scoped(name);
    ValueId y;
    if (m_.qk_norm == QkNorm::head) {
        y = rms_norm(x, m_.norm_eps);
    } else { // the heads may be on several ranks, so their squares are a sum apart
        const auto rule = [&](std::string text) {
            for (std::size_t at = 0; (at = text.find('H', at)) != std::string::npos; at += heads.size())
                text.replace(at, 1, heads);
            return Rule(text);
        };
        const Shape& shape = b_.graph()[x].type.shape;
        i64 width = 1;
        for (std::size_t i = 2; i < shape.size(); ++i) // all but b and s
            width *= shape[i];
        const ValueId squares = b_.op1(OpKind::row_squares, {x}, {.rule = rule("b s H -> b s")});
        const ValueId mean =
            b_.op1(OpKind::affine, {squares}, {.alpha = 1 / static_cast<double>(width), .beta = m_.norm_eps});
        const ValueId rstd = b_.op1(OpKind::rsqrt, {mean}, {}, scoped("rstd"));
        Attributes attributes = rms_attributes();
        attributes.rule = rule("b s H, H, b s -> b s H");
        y = b_.op1(OpKind::scale_rows, {x, vector("weight", m_.norm_offset ? 0 : 1), rstd}, attributes,
                   scoped("out"));
    }
    b_.where.scope = outer;
    return y;
}

ValueId ModelBuilder::rope_table(LayerKind kind)
{
    RopeAngles angles{.theta = m_.rope_theta, .scaling = m_.rope_scaling};
    if (kind == LayerKind::sliding) {
        angles.theta = local_theta(m_);
        if (!m_.scale_local)
            angles.scaling = {};
    }
    const bool local = angles.theta != m_.rope_theta || !(angles.scaling == m_.rope_scaling);
    ValueId& table = rope_tables_[local ? 1 : 0];
    if (table)
        return table;
    if (angles.scaling.kind == RopeKind::none)
        angles.scaling = llama3_scaling(1); // the same, and the shortest text
    else if (angles.scaling.kind != RopeKind::llama3)
        angles.seq = m_.seq; // not that of a cache: training and generation rotate alike
    const i64 length = std::max(m_.seq, cache_capacity);
    table = b_.value(local ? "rope_table.local" : "rope_table",
                     {accumulator_of(c_.compute), {length, rotary_dim(m_) / 2, 2}}, Role::constant,
                     RopeTableInit{angles});
    return table;
}

ValueId ModelBuilder::rotated(i64 layer, ValueId x)
{
    if (!rotates(m_, layer))
        return x;
    Attributes layout;
    if (m_.rotary_layout == RotaryLayout::interleaved)
        layout.lists.set(Attr::interleaved, {1});
    const ValueId table = rope_table(kind_of_layer(m_, layer));
    const ValueId positions = in_order(positions_);
    return b_.op1(OpKind::rope, {x, positions, table}, layout);
}

ModelBuilder::Heads ModelBuilder::heads_of(i64 layer, ValueId x)
{
    ValueId q = linear("q", x, "b s d, d g r e -> b s g r e");
    ValueId k = linear("k", x, "b s d, d g e -> b s g e");
    const ValueId v = linear("v", x, "b s d, d g e -> b s g e");
    q = qk_norm("q_norm", q, "g r e");
    k = qk_norm("k_norm", k, "g e");
    q = rotated(layer, q);
    return {q, rotated(layer, k), v};
}

ValueId ModelBuilder::latent(const std::string& name, ValueId x)
{
    const ValueId y = linear(name + "_down", x, "b s d, d c -> b s c");
    const std::string outer = b_.where.scope;
    b_.where.scope = scoped(name + "_latent_norm");
    const ValueId normed = rms_norm(y, latent_norm_eps(m_));
    b_.where.scope = outer;
    return normed;
}

ModelBuilder::Latents ModelBuilder::latents_of(i64 layer, ValueId x)
{
    const ValueId from = m_.q_latent > 0 ? latent("q", x) : x;
    const ValueId q = rotated(layer, linear("q", from, "b s d, d g r e -> b s g r e"));
    const ValueId c = latent("kv", x);
    return {q, c, rotated(layer, linear("k_rope", x, "b s d, d p -> b s p"))};
}

ModelBuilder::Heads ModelBuilder::heads_of(const Latents& x)
{
    const ValueId k = linear("k", x.c, "b s c, c g n -> b s g n");
    const ValueId v = linear("v", x.c, "b s c, c g e -> b s g e");
    Shape shape = b_.graph()[k].type.shape;
    shape.back() = rotary_dim(m_);
    const ValueId shared =
        b_.op1(OpKind::broadcast, {x.k_rope}, {.lists = {{Attr::dims, {0, 1, 3}}, {Attr::shape, shape}}});
    return {x.q, b_.joined({shared, k}, 3), v};
}

ValueId ModelBuilder::turned(ValueId x, const std::vector<i64>& dims)
{
    return b_.op1(OpKind::transpose, {x}, {.lists = {{Attr::dims, dims}}});
}

ValueId ModelBuilder::shaped(ValueId x, const Shape& shape)
{
    return b_.op1(OpKind::reshape, {x}, {.lists = {{Attr::shape, shape}}});
}

ValueId ModelBuilder::head_weights(const std::string& name, const std::vector<i64>& dims)
{
    const std::string outer = b_.where.scope;
    b_.where.scope = scoped(name);
    const ValueId whole = merged_weight(weight("weight", init_std, 1));
    b_.where.region = Region::prologue;
    const ValueId by_head = turned(whole, dims);
    b_.where.region = Region::microbatch;
    b_.where.scope = outer;
    return by_head;
}

ModelBuilder::Heads ModelBuilder::absorbed(const Latents& x)
{
    const i64 rotary = rotary_dim(m_), row = m_.kv_latent + rotary;
    const std::vector<ValueId> parts = b_.divided(x.q, 4, {rotary, m_.head_dim - rotary});
    const ValueId q_gbsrn = turned(parts[1], {2, 0, 1, 3, 4});
    const ValueId q_gbsrc =
        b_.product_of(q_gbsrn, head_weights("k", {1, 2, 0}), "g b s r n, g n c -> g b s r c");
    const ValueId q = b_.joined({turned(q_gbsrc, {1, 2, 0, 3, 4}), parts[0]}, 4);
    const ValueId k = shaped(b_.joined({x.c, x.k_rope}, 2), {batch_, seq_, 1, row});
    return {shaped(q, {batch_, seq_, 1, m_.heads, row}), k, k};
}

ValueId ModelBuilder::values_of(ValueId sums)
{
    const i64 rotary = rotary_dim(m_), row = m_.kv_latent + rotary;
    const ValueId by_head = shaped(sums, {batch_, seq_, m_.kv_heads, m_.heads / m_.kv_heads, row});
    const ValueId c = b_.divided(by_head, 4, {m_.kv_latent, rotary})[0];
    const ValueId o = b_.product_of(turned(c, {2, 0, 1, 3, 4}), head_weights("v", {1, 0, 2}),
                                    "g b s r c, g c u -> g b s r u");
    return turned(o, {1, 2, 0, 3, 4});
}

ValueId ModelBuilder::attend(i64 layer, Heads heads)
{
    auto& [q, k, v] = heads;
    const LayerKind kind = kind_of_layer(m_, layer);
    Attributes attributes = order_attributes();
    attributes.scale = scale_of_attention(m_);
    if (m_.attention_cap > 0)
        attributes.cap = m_.attention_cap;
    if (kind == LayerKind::sliding)
        attributes.lists.set(Attr::window, {m_.window});
    if (kind == LayerKind::chunked)
        attributes.lists.set(Attr::chunk, {m_.chunk});
    const bool by_heads = !c_.axes.context_heads.empty();
    if (by_heads) { // sharded by tokens outside of attention
        q = annotate(b_.reshard_to(annotate(q, {"b", "t", "g", "r", "n"}), {}), {"b", "s", "g", "r", "e"});
        for (ValueId* const x : {&k, &v})
            *x = annotate(b_.reshard_to(annotate(*x, {"b", "t", "g", "n"}), {}), {"b", "s", "g", "e"});
    }
    OpKind op = OpKind::attention;
    if (cache_capacity > 0) {
        op = OpKind::attention_cached;
        const auto cached = [&](const char* name, ValueId rows) {
            Shape shape = b_.graph()[rows].type.shape;
            shape[1] = cache_capacity;
            const ValueId cache = b_.value(str("layers.", layer, ".attn.", name), {c_.compute, shape},
                                           Role::state, FillInit{0});
            const ValueId next = b_.op1(OpKind::cache_write, {cache, rows, start});
            b_.graph().carries.push_back({cache, next});
            return next;
        };
        if (k == v) {
            k = v = cached("latent_cache", k);
        } else {
            k = cached("k_cache", k);
            v = cached("v_cache", v);
        }
    }
    std::vector<ValueId> operands{q, k, v};
    if (op == OpKind::attention_cached)
        operands.push_back(start);
    if (starts_)
        operands.push_back(in_order(starts_));
    if (m_.attention_sinks) {
        ValueId sinks = compute_copy(parameter("sinks", FillInit{0}), accumulator_of(c_.compute));
        if (k == v) // all heads share the keys
            sinks = shaped(sinks, {1, m_.heads});
        operands.push_back(sinks);
    }
    const Dims dims = k == v ? Dims{"b", "s", "n", "g", "e"} // all heads share the keys
                             : Dims{"b", "s", "g", "r", "e"};
    const ValueId o = annotate(b_.op(op, operands, attributes)[0], dims);
    return by_heads ? annotate(b_.reshard_to(o, {}), {"b", "t", "g", "r", "n"}) : o;
}

ValueId ModelBuilder::attention(i64 layer, ValueId x)
{
    ValueId o;
    if (!has_latents(m_))
        o = attend(layer, heads_of(layer, x));
    else if (const Latents latents = latents_of(layer, x); cache_capacity == 0)
        o = attend(layer, heads_of(latents));
    else
        o = values_of(attend(layer, absorbed(latents)));
    return into_stream("o", o, "b s g r e, g r e d -> b s d");
}

} // namespace trivium
