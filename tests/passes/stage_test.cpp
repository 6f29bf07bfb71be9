// The balance of stages against every possible division; then the ops of each stage.
#include "base/check.hpp"
#include "catch.hpp"
#include "ir/builder.hpp"
#include "ir/text/text.hpp"
#include "ir/verify.hpp"
#include "passes/pipeline/balance_stages.hpp"
#include "passes/pipeline/stage.hpp"
#include "passes/sharding/propagate.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

using namespace trivium;

namespace {

/// One block per width: a chain of products [rows, w] x [w, next w].
Graph chain(const std::vector<i64>& widths)
{
    Graph g;
    g.name = "chain";
    Builder b(g);
    ValueId x = b.value("x", {DType::f32, {4, widths[0]}}, Role::input);
    for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
        b.where.block = static_cast<int>(i);
        const ValueId w = b.value(str("w", i), {DType::f32, {widths[i], widths[i + 1]}}, Role::parameter);
        x = b.op1(OpKind::matmul, {x, w}, {.rule = "m k, k n -> m n"});
    }
    return g;
}

double cost_of(const Graph& g, const std::vector<int>& stage_of, i64 stages)
{
    std::vector<double> cost(static_cast<std::size_t>(stages), 0);
    for (const Op& op : g.ops)
        cost[static_cast<std::size_t>(stage_of[static_cast<std::size_t>(op.block)])] +=
            flops_of(g, op) + 8 * static_cast<double>(bytes_of(g, op));
    return *std::max_element(cost.begin(), cost.end());
}

/// The cost of the most expensive stage under the best of all divisions.
double least_cost(const Graph& g, std::size_t blocks, i64 stages)
{
    double best = -1;
    std::vector<int> stage_of;
    const std::function<void()> go = [&] {
        if (stage_of.size() == blocks) {
            if (stage_of.back() == stages - 1) {
                const double cost = cost_of(g, stage_of, stages);
                best = best < 0 ? cost : std::min(best, cost);
            }
            return;
        }
        const int last = stage_of.empty() ? 0 : stage_of.back();
        for (int s = last; s <= (stage_of.empty() ? 0 : last + 1); ++s) {
            stage_of.push_back(s);
            go();
            stage_of.pop_back();
        }
    };
    go();
    return best;
}

std::vector<int> one_each(i64 stages)
{
    std::vector<int> ranks(static_cast<std::size_t>(stages));
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
}

} // namespace

TEST_CASE("no other division has a cheaper most expensive stage")
{
    std::mt19937_64 draw(6);
    for (int round = 0; round < 150; ++round) {
        std::vector<i64> widths;
        for (std::size_t n = 2 + draw() % 8; n > 0; --n)
            widths.push_back(static_cast<i64>(1 + draw() % 40));
        const Graph g = chain(widths);
        const std::size_t blocks = widths.size() - 1;
        for (i64 stages = 1; stages <= static_cast<i64>(blocks); ++stages) {
            const std::vector<int> stage_of = balance_stages(g, one_each(stages));
            REQUIRE(stage_of.size() == blocks);
            REQUIRE(stage_of.front() == 0);
            REQUIRE(stage_of.back() == stages - 1); // every stage has a block
            for (std::size_t i = 1; i < blocks; ++i)
                REQUIRE((stage_of[i] == stage_of[i - 1] || stage_of[i] == stage_of[i - 1] + 1));
            REQUIRE(cost_of(g, stage_of, stages) == Approx(least_cost(g, blocks, stages)).epsilon(1e-12));
        }
    }
}

TEST_CASE("stages in a V: every rank has as many blocks, and both ways through the ranks as many")
{
    for (const int ranks : {2, 5, 16})
        for (const int each : {2, 3, 5}) {
            const Graph g = chain(std::vector<i64>(static_cast<std::size_t>(ranks * each + 1), 8));
            std::vector<int> rank_of_stage = one_each(ranks);
            for (int r = ranks; r-- > 0;)
                rank_of_stage.push_back(r);
            const std::vector<int> stage_of = balance_stages(g, rank_of_stage);
            const auto blocks_of = [&](int stage) { return std::ranges::count(stage_of, stage); };
            std::ptrdiff_t there = 0, back = 0;
            for (int r = 0; r < ranks; ++r) {
                there += blocks_of(r);
                back += blocks_of(2 * ranks - 1 - r);
                CHECK(there + back == (r + 1) * each);
                CHECK(std::abs(there - back) <= 1);
            }
        }
}

TEST_CASE("more stages than blocks are refused, with the maximum number")
{
    const Graph g = chain({4, 4, 4, 4});
    CHECK_NOTHROW(balance_stages(g, one_each(3)));
    try {
        balance_stages(g, one_each(4));
        FAIL("nothing was thrown");
    } catch (const UserError& error) {
        const std::string text = error.what();
        CHECK(text.find("parallel.pipeline") != std::string::npos);
        CHECK(text.find("4 stages for a model of 3 blocks") != std::string::npos);
        CHECK(text.find("set parallel.pipeline to 3 or less") != std::string::npos);
    }
}

TEST_CASE("stages of a chain: each op on one of them, one message between neighbours")
{
    Graph g = chain({3, 4, 5, 6, 7, 8});
    g.mesh.axes = {{"pipeline", 3}};
    for (Value& v : g.values)
        v.sharding.edit().dims.resize(v.type.shape.size());
    const std::vector<int> stage_of{0, 0, 1, 2, 2};
    std::size_t products = 0;
    for (int stage = 0; stage < 3; ++stage) {
        const Graph part = StageGraphs(g, {stage_of, {0, 1, 2}}).of(stage);
        verify(part, Level::sharded);
        int sends = 0, receives = 0;
        for (const Op& op : part.ops) {
            sends += op.attrs->to.has_value();
            receives += op.attrs->from.has_value();
            products += !info(op).communicates;
            if (op.attrs->to.has_value())
                CHECK(*op.attrs->to == stage + 1);
            if (op.attrs->from.has_value())
                CHECK(*op.attrs->from == stage - 1);
        }
        CHECK(sends == (stage < 2));
        CHECK(receives == (stage > 0));
    }
    CHECK(products == g.ops.size());
}

TEST_CASE("the contribution of a stage keeps its position")
{
    const Graph g = propagate(parse_graph("graph g\nmesh pipeline=2\n"
                                          "parameter %p : f64[2]\nparameter %q : f64[2]\n"
                                          "carry %a.before : f64[]\ncarry %b.before : f64[]\n"
                                          "microbatch {\n"
                                          "  @ forward block 0\n"
                                          "  %a = sum(%p) += %a.before : f64[]\n"
                                          "  @ forward block 1\n"
                                          "  %b = sum(%q) += %b.before : f64[]\n"
                                          "}\nepilogue {\n"
                                          "  @ update block 0\n"
                                          "  %s = stack(%a, %b) {n=2, at=\"1 0\"} : f64[2]\n"
                                          "}\ncarried %a.before -> %a\ncarried %b.before -> %b\noutput %s\n",
                                          "g"));
    for (const int stage : {0, 1}) {
        const Graph local = StageGraphs(g, {{0, 1}, {0, 1}}).of(stage);
        CHECK(local.ops.back().attrs->at == std::vector<i64>{1 - stage});
    }
}
