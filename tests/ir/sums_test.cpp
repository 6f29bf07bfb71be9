// Sums of values, made of sums that exist.
#include "base/check.hpp"
#include "catch.hpp"
#include "ir/general/sums.hpp"
#include "ir/ops/op_table.hpp"
#include "ir/text/text.hpp"

#include <algorithm>
#include <map>
#include <random>

using namespace trivium;

namespace {

constexpr i64 rows = 2, columns = 3;
using Numbers = std::vector<double>; ///< [rows], or [rows,columns]

/// The results of the graph's ops, computed naively.
std::map<ValueId, Numbers> run(const Graph& g, std::map<ValueId, Numbers> values)
{
    for (const Op& op : g.ops) {
        const Numbers& a = values.at(op.operands[0]);
        const auto each = [&](auto&& of) {
            Numbers made;
            for (std::size_t i = 0; i < a.size(); ++i)
                made.push_back(of(a[i], op.operands.size() > 1 ? values.at(op.operands[1])[i] : 0));
            return made;
        };
        Numbers& y = values[op.results[0]];
        switch (op.kind) {
        case OpKind::add: y = each([](double p, double q) { return p + q; }); break;
        case OpKind::subtract: y = each([](double p, double q) { return p - q; }); break;
        case OpKind::multiply: y = each([](double p, double q) { return p * q; }); break;
        case OpKind::negate: y = each([](double p, double) { return -p; }); break;
        case OpKind::affine:
            y = each([&](double p, double) { return p * *op.attrs->alpha + op.attrs->beta.value_or(0); });
            break;
        case OpKind::broadcast:
            for (i64 i = 0; i < rows * columns; ++i)
                y.push_back(a[static_cast<std::size_t>(i / columns)]);
            break;
        case OpKind::reduce:
            y.resize(rows);
            for (i64 i = 0; i < rows * columns; ++i)
                y[static_cast<std::size_t>(i / columns)] += a[static_cast<std::size_t>(i)];
            break;
        default: FAIL("another op");
        }
    }
    return values;
}

/// A graph with inputs of both shapes, and drawn ops of them.
struct Drawn {
    explicit Drawn(unsigned seed) : random(seed), b(g)
    {
        for (const ValueId v : g.with_role(Role::input)) {
            (g[v].type.shape.size() == 2 ? all : factors).push_back(v);
            Numbers& numbers = values[v];
            for (i64 k = 0; k < g[v].type.elements(); ++k)
                numbers.push_back(draw(-9, 9) * 0.25);
        }
        for (int i = 0; i < 6; ++i)
            all.push_back(one());
    }

    int draw(int from, int to) { return std::uniform_int_distribution(from, to)(random); }
    ValueId any(const std::vector<ValueId>& of)
    {
        return of[static_cast<std::size_t>(draw(0, static_cast<int>(of.size()) - 1))];
    }
    ValueId sum(ValueId v)
    {
        return b.op1(OpKind::reduce, {v}, {.combine = Combine::sum, .lists = {{Attr::dims, {1}}}});
    }
    ValueId one()
    {
        const auto spread = [&] {
            return b.op1(OpKind::broadcast, {any(factors)},
                         {.lists = {{Attr::dims, {0}}, {Attr::shape, {rows, columns}}}});
        };
        switch (draw(0, 7)) {
        case 0: return b.op1(OpKind::add, {any(all), any(all)});
        case 1: return b.op1(OpKind::subtract, {any(all), any(all)});
        case 2: return b.op1(OpKind::negate, {any(all)});
        case 3: return b.op1(OpKind::affine, {any(all)}, {.alpha = 1.5});
        case 4: return b.op1(OpKind::affine, {any(all)}, {.alpha = 2.0, .beta = 0.5});
        case 5: return b.op1(OpKind::multiply, {any(all), any(all)});
        case 6: factors.push_back(sum(any(all))); [[fallthrough]];
        default: return b.op1(OpKind::multiply, {any(all), spread()});
        }
    }

    std::mt19937 random;
    Graph g = parse_graph(
        "graph g\ninput %a : f64[2,3]\ninput %b : f64[2,3]\ninput %s : f64[2]\ninput %t : f64[2]\n", "g");
    Builder b;
    std::vector<ValueId> all, factors;
    std::map<ValueId, Numbers> values;
};

std::ptrdiff_t sums_in(const Graph& g) { return std::ranges::count(g.ops, OpKind::reduce, &Op::kind); }

} // namespace

TEST_CASE("the sum of a combination is that of its sums, with one new sum at most")
{
    int none = 0;
    for (unsigned seed = 0; seed < 500; ++seed) {
        INFO("seed " << seed);
        Drawn d(seed);
        const ValueId v = d.all.back();
        const auto before = sums_in(d.g);
        const ValueId made = sum_over(d.b, v, {1});
        const auto added = sums_in(d.g) - before;
        REQUIRE(added <= 1);
        none += added == 0;
        const ValueId direct = d.sum(v);
        const std::map<ValueId, Numbers> values = run(d.g, d.values);
        for (std::size_t i = 0; i < rows; ++i)
            REQUIRE(values.at(made)[i] == Approx(values.at(direct)[i]).epsilon(1e-12).margin(1e-12));
    }
    CHECK(none > 20);
}

TEST_CASE("the sum of a gradient behind a norm waits for no other sum")
{
    // rest = x - mean(x); the gradient dy f + c rest, in which c is made of a sum of dy rest.
    Drawn d(0);
    const ValueId x = d.all[0], dy = d.all[1];
    const auto spread = [&](ValueId factor) {
        return d.b.op1(OpKind::broadcast, {factor},
                       {.lists = {{Attr::dims, {0}}, {Attr::shape, {rows, columns}}}});
    };
    const ValueId mean = d.b.op1(OpKind::affine, {d.sum(x)}, {.alpha = 1.0 / columns});
    const ValueId rest = d.b.op1(OpKind::subtract, {x, spread(mean)});
    const ValueId c = d.sum(d.b.op1(OpKind::multiply, {dy, rest}));
    const ValueId scaled = d.b.op1(OpKind::multiply, {dy, spread(d.factors[0])});
    const ValueId turned = d.b.op1(OpKind::multiply, {spread(c), rest});
    const std::size_t before = d.g.ops.size();
    sum_over(d.b, d.b.op1(OpKind::add, {scaled, turned}), {1});
    std::vector<ValueId> summed;
    for (std::size_t i = before; i < d.g.ops.size(); ++i)
        if (d.g.ops[i].kind == OpKind::reduce)
            summed.push_back(d.g.ops[i].operands[0]);
    CHECK(summed == std::vector{dy});
}
