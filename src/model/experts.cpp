// The feed-forward block of a mixture of experts (ir/expert_ops.inc has what its ops do).
#include "base/check.hpp"
#include "model/blocks.hpp"

#include <algorithm>
#include <cmath>

namespace trivium {

Attributes ModelBuilder::routing() const
{
    Attributes attributes;
    attributes.lists.set(Attr::routing,
                         {m_.router_scores == RouterScores::sigmoid, m_.router_normalised, m_.router_groups,
                          m_.router_top_groups, m_.router_group_score == GroupScore::top2});
    return attributes;
}

ModelBuilder::Routed ModelBuilder::route(ValueId x)
{
    const std::string outer = b_.where.scope;
    b_.where.scope = scoped("router");
    const DType exact = accumulator_of(c_.compute);
    const auto read = [&](const char* name, const Init& init) { return parameter(name, init, true); };
    const ValueId weight = read("weight", NormalInit{init_std});
    decays(weight, 1);
    ValueId logits = b_.op1(OpKind::matmul, {b_.cast_to(x, exact), compute_copy(weight, exact)},
                            {.rule = "b s d, d x -> b s x"}, scoped("out"));
    if (m_.router_bias)
        logits = b_.op1(OpKind::bias_add, {logits, compute_copy(read("bias", FillInit{0}), exact)},
                        {.rule = "b s x, x -> b s x"}, scoped("biased"));
    std::vector<ValueId> operands{logits};
    if (m_.balance_bias) {
        const ValueId balance = read("balance", FillInit{0});
        if (is_trained(b_.graph()[balance]))
            b_.graph()[balance].update = {UpdateKind::balance, c_.regularisers.balance_rate};
        operands.push_back(compute_copy(balance, exact));
    }
    Attributes attributes = routing();
    attributes.sizes = {{"k", m_.expert_slots}};
    if (m_.router_scale != 1)
        attributes.scale = m_.router_scale;
    const std::vector<ValueId> made =
        b_.op(OpKind::route, operands, attributes, {scoped("weights"), scoped("experts")});
    for (const ValueId slots : made) // whole where the rows of tokens are made, which each tensor rank has
        annotate(slots, {"b", "t", "n"});
    add_router_loss(logits, made[1]);
    if (c_.loads)
        add_load(made[1]);
    b_.where.scope = outer;
    return {made[0], made[1]};
}

void ModelBuilder::add_router_loss(ValueId logits, ValueId experts)
{
    const auto tokens = static_cast<double>(seq_);
    const auto add = [&](ValueId loss, double factor) {
        loss = annotate(b_.op1(OpKind::affine, {loss}, {.alpha = factor}), {"b"});
        router_loss_ = router_loss_ ? annotate(b_.sum_of(router_loss_, loss), {"b"}) : loss;
    };
    if (const double coefficient = c_.regularisers.balance_loss; coefficient > 0) {
        const ValueId counts = b_.op1(OpKind::expert_counts, {experts},
                                      {.dtype = b_.graph()[logits].type.dtype,
                                       .rule = "b s k -> b x | k x",
                                       .sizes = {{"x", m_.experts}}},
                                      scoped("counts"));
        const ValueId scores = b_.op1(OpKind::router_scores, {logits}, routing(), scoped("scores"));
        Attributes over_experts{.combine = Combine::sum};
        over_experts.lists.set(Attr::dims, {1});
        add(b_.op1(OpKind::reduce, {b_.op1(OpKind::multiply, {counts, scores})}, over_experts),
            coefficient * static_cast<double>(m_.experts) /
                (static_cast<double>(m_.expert_slots) * tokens * tokens));
    }
    if (const double coefficient = c_.regularisers.router_z_loss; coefficient > 0)
        add(b_.op1(OpKind::router_squares, {logits}), coefficient / tokens);
}

void ModelBuilder::add_load(ValueId experts)
{
    const std::string name = scoped("load");
    const ValueId load = b_.total(
        b_.op1(
            OpKind::expert_counts, {experts},
            {.dtype = accumulator_of(c_.compute), .rule = "b s k -> x | k x", .sizes = {{"x", m_.experts}}},
            name),
        name);
    b_.where.region = Region::epilogue;
    Attributes over_experts{.combine = Combine::max};
    over_experts.lists.set(Attr::dims, {0});
    loads_.push_back(b_.cast_to(b_.op1(OpKind::reduce, {load}, over_experts), DType::f64, name + ".most"));
    b_.where.region = Region::microbatch;
}

void ModelBuilder::add_overflow(ValueId counts)
{
    const ModelAxes& axes = c_.axes;
    const i64 ranks = axes.expert_ranks, groups = b_.graph()[counts].type.shape[0];
    const auto over = [&](OpKind kind, ValueId x, Attr list, const std::vector<i64>& numbers) {
        Attributes attributes;
        if (kind == OpKind::reduce)
            attributes.combine = Combine::sum;
        attributes.lists.set(list, numbers);
        return b_.op1(kind, {x}, attributes);
    };
    // [o, the P groups of tokens, the P ranks of experts, their experts]
    const ValueId all = over(OpKind::reshape, b_.cast_to(counts, accumulator_of(c_.compute)), Attr::shape,
                             {groups / ranks, ranks, ranks, m_.experts / ranks});
    const ValueId arriving = over(OpKind::reduce, all, Attr::dims, {1, 3});
    const ValueId beyond =
        b_.op1(OpKind::affine, {arriving}, {.alpha = 1, .beta = -static_cast<double>(rows_of_rank())});
    const ValueId dropped = b_.op1(OpKind::maximum, {beyond, b_.filled_like(beyond, 0)});
    const std::string name = scoped("overflow");
    loads_.push_back(b_.total(b_.op1(OpKind::sum, {dropped}, {}, name), name));
}

ValueId ModelBuilder::exchanged(ValueId rows, ValueId counts, i64 count, bool backwards)
{
    const ModelAxes& axes = c_.axes;
    if (axes.expert_ranks == 1)
        return rows;
    Attributes attributes{.axis = axes.experts};
    attributes.lists.set(Attr::groups, {axes.expert_ranks});
    attributes.lists.set(Attr::count, {count});
    if (backwards)
        attributes.lists.set(Attr::backwards, {1});
    else if (!axes.drops_overflow)
        attributes.lists.set(Attr::clamp, {0});
    attributes.lists.set(Attr::expected, {rows_of_group()});
    return b_.op1(OpKind::exchange_rows, {rows, counts}, attributes);
}

ModelBuilder::Rows ModelBuilder::dispatched(ValueId x, ValueId experts)
{
    Attributes attributes;
    attributes.lists.set(Attr::spread, {c_.axes.token_groups[0], c_.axes.token_groups[1]});
    attributes.lists.set(Attr::count, {m_.experts});
    if (has_capacity())
        attributes.lists.set(Attr::capacity, {capacity_of_expert()});
    const std::vector<ValueId> sent = b_.op(OpKind::dispatch, {x, experts}, attributes,
                                            {scoped("rows"), scoped("slots"), scoped("counts")});
    return {exchanged(sent[0], sent[2], rows_of_rank(), false), annotate(sent[1], {"b", "t", "n"}), sent[2],
            experts};
}

ValueId ModelBuilder::grouped_adapted(ValueId rows, ValueId y, const Rows& to, const std::string& in,
                                      const Attributes& of_product)
{
    const ValueId a = adapter_part(lora_a, c_.compute), b = adapter_part(lora_b, c_.compute);
    const auto filled = [&](const Shape& shape, double value) {
        Attributes attributes{.dtype = c_.compute, .value = value};
        attributes.lists.set(Attr::shape, shape);
        return b_.op1(OpKind::constant, {}, attributes);
    };
    if (c_.regularisers.adapter_dropout > 0) { // by token: what is dropped goes the way of its rows
        const ValueId ones = filled({batch_, seq_, b_.graph()[rows].type.shape[2]}, 1);
        const ValueId kept = annotate(adapter_input(ones), {"b", "t", in});
        rows = b_.op1(OpKind::multiply, {rows, dispatched(kept, to.experts).rows});
    }
    const ValueId inner = b_.op1(OpKind::grouped_matmul, {rows, a, to.counts}, of_product, scoped("inner"));
    y = b_.sum_of(y, b_.op1(OpKind::grouped_matmul, {times(inner, c_.trained.scale()), b, to.counts},
                            of_product, scoped("low_rank")));
    if (!c_.trained.lora.magnitudes)
        return y;
    const ValueId factors = b_.cast_to(column_factors(magnitudes(), Region::microbatch), c_.compute);
    Attributes of_rows;
    of_rows.lists.set(Attr::groups, {c_.axes.expert_ranks});
    const ValueId by_row =
        b_.op1(OpKind::grouped_bias, {filled(b_.graph()[y].type.shape, 0), factors, to.counts}, of_rows);
    return b_.sum_of(y, b_.op1(OpKind::multiply, {y, by_row}));
}

ValueId ModelBuilder::grouped(const std::string& name, ValueId rows, const Rows& to, const std::string& in,
                              double std)
{
    const std::string outer = b_.where.scope;
    b_.where.scope = scoped(name);
    Attributes attributes;
    attributes.lists.set(Attr::groups, {c_.axes.expert_ranks});
    Attributes of_product = attributes;
    if (c_.axes.expert_ranks > 1)
        of_product.lists.set(Attr::expected, {rows_of_group()});
    ValueId y = b_.op1(OpKind::grouped_matmul, {rows, weight("weight", std, 1, 1), to.counts}, of_product,
                       scoped("out"));
    if (has_adapter())
        y = grouped_adapted(rows, y, to, in, of_product);
    if (m_.ffn_bias)
        y = b_.op1(OpKind::grouped_bias, {y, vector("bias", 0), to.counts}, attributes, scoped("biased"));
    b_.where.scope = outer;
    return y;
}

i64 ModelBuilder::rows_of_group() const
{
    return batch_ * seq_ / (c_.axes.token_groups[0] * c_.axes.token_groups[1]) * m_.expert_slots;
}

i64 ModelBuilder::rows_of_rank() const
{
    const i64 ranks = c_.axes.expert_ranks, own = rows_of_group();
    const i64 most = own / m_.expert_slots * ranks * std::min(m_.expert_slots, m_.experts / ranks);
    const double asked = std::ceil(c_.axes.expert_buffer * static_cast<double>(own));
    return asked == 0 || asked >= static_cast<double>(most) ? most : static_cast<i64>(asked);
}

ValueId ModelBuilder::experts(ValueId x)
{
    const Routed routed = route(x);
    const Rows to = dispatched(x, routed.experts);
    if (c_.loads && has_capacity()) {
        const std::string name = scoped("kept");
        loads_.push_back(b_.total(b_.op1(OpKind::count_valid, {to.slots}, {}, name), name));
    }
    if (c_.loads && c_.axes.drops_overflow)
        add_overflow(to.counts);
    const std::string outer = b_.where.scope;
    b_.where.scope = scoped("experts");
    const ValueId gate = m_.gated ? grouped("gate", to.rows, to, "d", init_std) : ValueId{},
                  up = grouped("up", to.rows, to, "d", init_std);
    const ValueId hidden = annotate(activated(gate, up), {"q", "m", "h"});
    const ValueId made = grouped("down", hidden, to, "h", std_into_stream());
    b_.where.scope = outer;
    const ValueId back = exchanged(made, to.counts, rows_of_group(), true);
    Attributes spread;
    spread.lists.set(Attr::spread, {c_.axes.token_groups[0], c_.axes.token_groups[1]});
    ValueId y = b_.op1(OpKind::combine, {back, to.slots, routed.weights}, spread, scoped("combined"));
    if (m_.shared_dim > 0) {
        b_.where.scope = scoped("shared");
        const ValueId shared =
            product("down", dense_hidden(x, "w"), "b s w, w d -> b s d", std_into_stream());
        b_.where.scope = outer;
        y = b_.sum_of(y, shared);
    }
    return y;
}

i64 ModelBuilder::capacity_of_expert() const
{
    const double even = static_cast<double>(seq_ * m_.expert_slots) / static_cast<double>(m_.experts);
    return static_cast<i64>(std::clamp(std::ceil(m_.expert_capacity * even), 1.0, static_cast<double>(seq_)));
}

} // namespace trivium
