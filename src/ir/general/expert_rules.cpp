#include "ir/general/expert_rules.hpp"

#include "base/counted.hpp"
#include "base/expert_rows.hpp"
#include "ir/general/op_view.hpp"

namespace trivium::general {

namespace {

constexpr auto replicated = FactorKind::replicated;

void require_rank(const OpView& op, std::size_t operand, std::size_t dims)
{
    op.require(op.shape(operand).size() == dims,
               str("operand ", operand, " has ", op.shape(operand).size(), " dimensions, takes ", dims),
               "see docs/ops.md for its operands");
}

/// The factors of tokens and of the rows of their groups.
struct Spread {
    RuleMaker maker;
    std::vector<i64> parts; ///< B, S
    int major, minor;       ///< B, S
    i64 b = 0, s = 0;
    FactorList tokens; ///< b, s
    int groups;        ///< q

    /// `like`: an operand [b s …].
    Spread(const OpView& op, std::size_t like) : maker(op), parts(op.list(Attr::spread, 2))
    {
        require_rank(op, like, 3);
        const Shape& shape = op.shape(like);
        for (std::size_t d = 0; d < 2; ++d)
            op.require(
                parts[d] >= 1 && shape[d] % parts[d] == 0,
                str("cannot divide dimension ", d, " of ", shape[d], " into ", counted(parts[d], "group")),
                "make it a multiple of its number in `spread`");
        b = shape[0] / parts[0];
        s = shape[1] / parts[1];
        major = maker.factor(parts[0]);
        minor = maker.factor(parts[1]);
        tokens = {maker.product({major, maker.factor(b, replicated)}),
                  maker.product({minor, maker.factor(s, replicated)})};
        groups = maker.product({major, minor});
    }

    /// [b s last]
    FactorList with(int last) const { return {tokens[0], tokens[1], last}; }
    /// Gives an operand [b s k] its factors, of which `k` is the last.
    void slots(const OpView& op, std::size_t operand, int k)
    {
        require_rank(op, operand, 3);
        maker.rule.operands[operand] = with(k);
        require_same(op, operand);
    }
    void require_same(const OpView& op, std::size_t operand) const
    {
        const Shape wanted = maker.rule.shape_of(maker.rule.operands[operand]);
        op.require(
            op.shape(operand) == wanted,
            str("operand ", operand, " is ", text_of(op.shape(operand)), ", must be ", text_of(wanted)),
            "see docs/ops.md for its operands");
    }
    static std::string text_of(const Shape& shape)
    {
        std::string text = "[";
        for (std::size_t d = 0; d < shape.size(); ++d)
            text += str(d ? "," : "", shape[d]);
        return text + "]";
    }
};

/// The factors of rows at their experts.
struct Experts {
    RuleMaker maker;
    i64 ranks, outer; ///< P, o
    int o, p;
    int groups; ///< q

    Experts(const OpView& op, FactorKind of_outer) : maker(op), ranks(op.number_or(Attr::groups, 1))
    {
        require_rank(op, 0, 3);
        const i64 q = op.shape(0)[0];
        op.require(ranks >= 1 && q % ranks == 0,
                   str("cannot divide ", counted(q, "group"), " among ", counted(ranks, "expert rank")),
                   "make `groups` a divisor of them");
        outer = q / ranks;
        o = maker.factor(outer, of_outer);
        p = maker.factor(ranks);
        groups = maker.product({o, p});
    }

    /// The last operand, counts [(o a) x]. `weights`: experts whose weights, or gradients, are here.
    void counts(const OpView& op, std::optional<i64> weights = {})
    {
        const std::size_t last = maker.rule.operands.size() - 1;
        require_rank(op, last, 2);
        const Shape& shape = op.shape(last);
        op.require(
            outer > 0 && shape[0] % outer == 0 && (op.is_part() || shape[0] / outer == ranks),
            str("the counts are those of ", counted(shape[0], "group"), ", the rows of ", outer * ranks),
            "use the counts of the dispatch whose rows these are");
        op.require(outer == 0 || !weights || *weights * (shape[0] / outer) == shape[1] * ranks,
                   str("the counts are those of ", counted(shape[1], "expert"), ", the weights of ",
                       counted(weights.value_or(0), "expert")),
                   "use as many experts in both");
        maker.rule.operands[last] = {maker.product({o, maker.factor(shape[0] / outer, replicated)}),
                                     maker.factor(shape[1], replicated)};
    }
    /// [(p e)] of `experts`
    int experts(const OpView& op, i64 experts)
    {
        op.require(
            experts % ranks == 0,
            str("cannot divide ", counted(experts, "expert"), " among ", counted(ranks, "expert rank")),
            "make the experts a multiple of them");
        return maker.product({p, maker.factor(experts / ranks, replicated)});
    }
    void same(const OpView& op, std::size_t operand, std::size_t dim, i64 extent)
    {
        op.require(op.shape(operand)[dim] == extent,
                   str("dimension ", dim, " of operand ", operand, " is ", op.shape(operand)[dim],
                       ", must be ", extent),
                   "see docs/ops.md for its operands");
    }
};

constexpr i64 most_groups = 64; ///< a mask of the kernel

i64 rows_of(const OpView& op) { return op.shape(0)[1]; }

} // namespace

void check_logits(const Graph& graph, const Op& op, const FactorRule&)
{
    if (graph[op.operands[0]].type.dtype == DType::bf16)
        throw UserError({place_of(graph, op), "operand 0 is bf16, must be f32 or f64",
                         "experts are chosen in the type of sums", "use cast"});
}

void check_routing(const Graph& graph, const Op& given, const FactorRule& rule)
{
    check_logits(graph, given, rule);
    const OpView op(graph, given);
    const Routing routing = Routing::of(op.list(Attr::routing, 5));
    const int of_experts = rule.find("x"), of_slots = rule.find("k");
    const i64 experts = rule[of_experts].size, slots = of_slots < 0 ? 0 : rule[of_slots].size;
    op.require(routing.groups >= 1 && routing.groups <= most_groups && experts % routing.groups == 0,
               str("cannot divide ", counted(experts, "expert"), " into ", counted(routing.groups, "group")),
               str("make the groups a divisor of the experts, at most ", most_groups));
    op.require(routing.top_groups >= 1 && routing.top_groups <= routing.groups,
               str("chooses ", routing.top_groups, " of ", counted(routing.groups, "group")),
               "choose between 1 and all groups");
    const i64 candidates = experts / routing.groups * routing.top_groups;
    op.require(slots <= candidates, str("chooses ", slots, " of ", counted(candidates, "expert")),
               "choose fewer experts, or among more groups");
    op.require(experts < INT32_MAX, str("has ", counted(experts, "expert")), "use fewer");
}

FactorRule dispatch(const Graph& graph, const Op& given)
{
    const OpView op(graph, given, 2);
    Spread x(op, 0);
    const i64 experts = op.list(Attr::count, 1)[0], capacity = op.number_or(Attr::capacity, 0);
    op.require(capacity >= 0, str("has a capacity of ", capacity), "write at least 1, or none");
    require_rank(op, 1, 3);
    const i64 slots = op.shape(1)[2];
    op.require(experts >= slots, str("chooses ", slots, " of ", counted(experts, "expert")), "choose fewer");
    op.require(capacity == 0 || x.parts[1] == 1, "limits the rows of a sequence that several groups share",
               "use no capacity, or one group per sequence");
    // Slots and counts lack d: they would be partial sums if it were sharded.
    const int d = x.maker.factor(op.shape(0)[2], replicated), k = x.maker.factor(slots, replicated);
    x.maker.rule.operands[0] = x.with(d);
    x.slots(op, 1, k);
    x.maker.result({x.groups, x.maker.factor(x.b * x.s * slots, replicated), d});
    x.maker.result(x.with(k));
    return x.maker.with_result({x.groups, x.maker.factor(experts, replicated)});
}

namespace {

/// Operands of a combination, or of its gradient: weights may be missing.
void require_rows_and_slots(const OpView& op)
{
    op.require(op.operands() == 2 || op.operands() == 3,
               str("has ", op.operands(), " operands, takes 2 or 3"), "see docs/ops.md");
}

} // namespace

FactorRule combine(const Graph& graph, const Op& given)
{
    const OpView op(graph, given);
    require_rows_and_slots(op);
    Spread x(op, 1);
    require_rank(op, 0, 3);
    const int d = x.maker.factor(op.shape(0)[2]), k = x.maker.factor(op.shape(1)[2], replicated);
    x.maker.rule.operands[0] = {x.groups, x.maker.factor(rows_of(op), replicated), d};
    x.require_same(op, 0);
    for (std::size_t i = 1; i < op.operands(); ++i)
        x.slots(op, i, k);
    return x.maker.with_result(x.with(d));
}

FactorRule combine_grad_rows(const Graph& graph, const Op& given)
{
    const OpView op(graph, given);
    require_rows_and_slots(op);
    Spread x(op, 0);
    require_rank(op, 1, 3);
    const i64 slots = op.shape(1)[2];
    const int d = x.maker.factor(op.shape(0)[2]), k = x.maker.factor(slots, replicated);
    x.maker.rule.operands[0] = x.with(d);
    for (std::size_t i = 1; i < op.operands(); ++i)
        x.slots(op, i, k);
    return x.maker.with_result({x.groups, x.maker.factor(x.b * x.s * slots, replicated), d});
}

FactorRule combine_grad_weights(const Graph& graph, const Op& given)
{
    const OpView op(graph, given, 3);
    Spread x(op, 0);
    require_rank(op, 1, 3);
    require_rank(op, 2, 3);
    const int d = x.maker.factor(op.shape(0)[2], FactorKind::reduced),
              k = x.maker.factor(op.shape(1)[2], replicated);
    x.maker.rule.operands[0] = x.with(d);
    x.slots(op, 1, k);
    x.maker.rule.operands[2] = {x.groups, x.maker.factor(op.shape(2)[1], replicated), d};
    x.require_same(op, 2);
    return x.maker.with_result(x.with(k));
}

void local_spread(Attributes& attrs, const LocalPart& part)
{
    // The first two factors are those of `spread`.
    attrs.lists.set(Attr::spread, {part.factors[0].size, part.factors[1].size});
}

FactorRule exchange_rows(const Graph& graph, const Op& given)
{
    const OpView op(graph, given, 2);
    Experts x(op, FactorKind::parallel);
    const int d = x.maker.factor(op.shape(0)[2]);
    x.maker.rule.operands[0] = {x.groups, x.maker.factor(rows_of(op), replicated), d};
    x.counts(op);
    const std::string axis = given.attrs->axis.value_or("");
    const i64 all = x.outer > 0 ? op.shape(1)[0] / x.outer : x.ranks, experts = op.shape(1)[1];
    op.require(experts % all == 0,
               str("cannot divide ", counted(experts, "expert"), " among ", counted(all, "expert rank")),
               "make the experts a multiple of them");
    const FactorList result{x.groups, x.maker.factor(op.list(Attr::count, 1)[0], replicated), d};
    if (graph.mesh.axes.empty()) // all are on this rank
        return x.maker.with_result(result);
    const i64 members = graph.mesh.ranks_along(axis);
    op.require(members * (op.is_part() ? x.ranks : 1) == all && (op.is_part() || graph.mesh.size_of(axis)),
               str("has ", counted(all, "expert rank"), ", but there are ", counted(members, "rank"),
                   " along '", axis, "'"),
               "make `groups` the size of `axis`, which joins no axes");
    if (!op.is_part())
        x.maker.rule.factors[static_cast<std::size_t>(x.p)].pinned = {axis};
    return x.maker.with_result(result);
}

namespace {

/// Rows times the matrices [i j] of their experts, or, `transposed`, their transposes.
FactorRule product_of_rows(const Graph& graph, const Op& given, bool transposed)
{
    const OpView op(graph, given, 3);
    Experts x(op, FactorKind::parallel);
    require_rank(op, 1, 3);
    const Shape& weight = op.shape(1);
    const auto kind = [](bool contracted) { return contracted ? FactorKind::reduced : FactorKind::parallel; };
    const int n = x.maker.factor(rows_of(op), replicated), i = x.maker.factor(weight[1], kind(!transposed)),
              j = x.maker.factor(weight[2], kind(transposed));
    x.same(op, 0, 2, weight[transposed ? 2 : 1]);
    x.maker.rule.operands[0] = {x.groups, n, transposed ? j : i};
    x.maker.rule.operands[1] = {x.experts(op, weight[0]), i, j};
    x.counts(op, weight[0]);
    return x.maker.with_result({x.groups, n, transposed ? i : j});
}

} // namespace

FactorRule grouped_matmul(const Graph& graph, const Op& given)
{
    return product_of_rows(graph, given, false);
}

FactorRule grouped_matmul_grad_rows(const Graph& graph, const Op& given)
{
    return product_of_rows(graph, given, true);
}

FactorRule grouped_matmul_grad_weight(const Graph& graph, const Op& given)
{
    const OpView op(graph, given, 3);
    Experts x(op, FactorKind::reduced);
    require_rank(op, 1, 3);
    const int n = x.maker.factor(rows_of(op), replicated), i = x.maker.factor(op.shape(0)[2]),
              j = x.maker.factor(op.shape(1)[2]);
    x.same(op, 1, 0, op.shape(0)[0]);
    x.same(op, 1, 1, rows_of(op));
    x.maker.rule.operands[0] = {x.groups, n, i};
    x.maker.rule.operands[1] = {x.groups, n, j};
    x.counts(op, op.list(Attr::count, 1)[0]);
    return x.maker.with_result({x.experts(op, op.list(Attr::count, 1)[0]), i, j});
}

FactorRule grouped_bias(const Graph& graph, const Op& given)
{
    const OpView op(graph, given, 3);
    Experts x(op, FactorKind::parallel);
    require_rank(op, 1, 2);
    const int j = x.maker.factor(op.shape(0)[2]);
    const FactorList rows{x.groups, x.maker.factor(rows_of(op), replicated), j};
    x.same(op, 1, 1, op.shape(0)[2]);
    x.maker.rule.operands[0] = rows;
    x.maker.rule.operands[1] = {x.experts(op, op.shape(1)[0]), j};
    x.counts(op, op.shape(1)[0]);
    return x.maker.with_result(rows);
}

FactorRule grouped_bias_grad(const Graph& graph, const Op& given)
{
    const OpView op(graph, given, 2);
    Experts x(op, FactorKind::reduced);
    const int j = x.maker.factor(op.shape(0)[2]);
    x.maker.rule.operands[0] = {x.groups, x.maker.factor(rows_of(op), replicated), j};
    x.counts(op, op.list(Attr::count, 1)[0]);
    return x.maker.with_result({x.experts(op, op.list(Attr::count, 1)[0]), j});
}

void local_experts(Attributes& attrs, const LocalPart& part)
{
    // The factors begin with o and p.
    const IndexRange& p = part.factors[1];
    attrs.lists.set(Attr::groups, {p.size});
    attrs.lists.set(Attr::begin, {p.begin});
    if (!part.results.empty() && attrs.lists.find(Attr::count) && part.op.kind != OpKind::exchange_rows)
        attrs.lists.set(Attr::count, {part.results[0].shape[0]});
}

} // namespace trivium::general
