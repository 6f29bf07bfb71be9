// Which values of the forward phase the backward phase still reads with recomputation. That the bits do not
// change is tested on grids (tests/grid/bitwise_test.cpp).
#include "catch.hpp"
#include "ir/builder.hpp"
#include "ir/names.hpp"
#include "ir/ops/op_table.hpp"
#include "ir/verify.hpp"
#include "model/model.hpp"
#include "passes/autodiff.hpp"
#include "passes/memory/recompute.hpp"

#include <algorithm>
#include <set>

using namespace trivium;

namespace {

Graph differentiated(Family family)
{
    ModelConfig m;
    set_family(m, family);
    m.layers = 3;
    m.dim = 16;
    m.heads = 4;
    m.kv_heads = family == Family::gpt2 ? 4 : 2;
    m.ffn_dim = 24;
    m.vocab = 32;
    m.seq = 8;
    return autodiff(build_loss_graph(m, {4, DType::f32, DType::f32}), {});
}

/// The values of each block's forward phase that the backward phase reads, by block of the op that computes
/// them.
std::vector<std::set<std::string>> kept(const Graph& g)
{
    std::vector<std::set<std::string>> names(5);
    for (const Op& op : g.ops)
        if (op.region == Region::microbatch && op.phase == Phase::backward)
            for (const ValueId v : op.operands)
                if (const OpId producer = g[v].producer; producer &&
                                                         g[producer].region == Region::microbatch &&
                                                         g[producer].phase == Phase::forward)
                    names[static_cast<std::size_t>(g[producer].block)].insert(g[v].name);
    return names;
}

} // namespace

TEST_CASE("with full recomputation a layer keeps what the next block reads, and nothing else")
{
    const Family family = GENERATE(Family::llama, Family::gpt2);
    const Graph before = differentiated(family);
    const Graph g = recompute(before, {.activations = Recompute::full});
    verify(g, Level::global);
    const auto all = kept(before), few = kept(g);
    for (std::size_t layer = 1; layer <= 3; ++layer) {
        CHECK(all[layer].size() > 8);
        CHECK(few[layer].size() == 1); // the residual stream
    }
    CHECK(few[0] == all[0]);
    CHECK(few[4] == all[4]);
}

TEST_CASE("some layers, evenly spread, may recompute more than the others")
{
    const Graph before = differentiated(Family::llama);
    const auto with = [&](Recompute level, i64 layers) {
        return kept(recompute(before, {.activations = level, .layers = layers}));
    };
    const auto none = kept(before), selective = with(Recompute::selective, 0),
               full = with(Recompute::full, 0);
    CHECK(with(Recompute::full, 3) == full);
    const std::vector<std::vector<std::size_t>> chosen{{3}, {2, 3}}; // of three layers: one, two
    for (const i64 layers : {1, 2})
        for (std::size_t layer = 1; layer <= 3; ++layer) {
            const auto& some = chosen[static_cast<std::size_t>(layers - 1)];
            const bool is_chosen = std::find(some.begin(), some.end(), layer) != some.end();
            INFO(layers << " layers, layer " << layer);
            CHECK(with(Recompute::full, layers)[layer] == (is_chosen ? full : selective)[layer]);
            CHECK(with(Recompute::selective, layers)[layer] == (is_chosen ? selective : none)[layer]);
        }
}

TEST_CASE("with selective recomputation the backward phase computes cheap ops again, and no product")
{
    const Family family = GENERATE(Family::llama, Family::gpt2);
    const Graph before = differentiated(family);
    const Graph g = recompute(before, {.activations = Recompute::selective});
    verify(g, Level::global);
    int again = 0;
    for (const Op& op : g.ops)
        if (op.phase == Phase::backward && info(op).cheap) {
            ++again;
            CHECK((op.block >= 1 && op.block <= 3));
        }
    CHECK(again >= 4 * 3); // norms, attention, activation function
    for (const Op& op : g.ops)
        if (op.region == Region::microbatch && op.phase == Phase::backward && op.block >= 1 && op.block <= 3)
            for (const ValueId v : op.operands)
                if (const OpId producer = g[v].producer;
                    producer && g[producer].phase == Phase::forward && g[producer].block == op.block)
                    CHECK_FALSE(info(g[producer]).cheap);
    const auto products = [](const Graph& graph) {
        return std::count_if(graph.ops.begin(), graph.ops.end(),
                             [](const Op& op) { return op.kind == OpKind::matmul; });
    };
    CHECK(products(g) == products(before));
}

TEST_CASE("recomputation does not choose experts again")
{
    Graph before;
    before.name = "experts";
    Builder b(before);
    b.where.block = 1;
    const auto parameter = [&](const char* name, Shape shape) {
        return b.value(name, {DType::f32, std::move(shape)}, Role::parameter, NormalInit{1});
    };
    const ValueId x = parameter("x", {2, 3, 4});
    const ValueId logits = b.product_of(x, parameter("router", {4, 6}), "b s d, d x -> b s x");
    const auto routed =
        b.op(OpKind::route, {logits}, {.sizes = {{"k", 2}}, .lists = {{Attr::routing, {0, 1, 1, 1, 0}}}});
    const auto rows =
        b.op(OpKind::dispatch, {x, routed[1]}, {.lists = {{Attr::spread, {1, 1}}, {Attr::count, {6}}}});
    const ValueId h = b.op1(OpKind::grouped_matmul, {rows[0], parameter("up", {6, 4, 5}), rows[2]},
                            {.lists = {{Attr::groups, {1}}}});
    const ValueId o =
        b.op1(OpKind::grouped_matmul, {b.op1(OpKind::gelu, {h}), parameter("down", {6, 5, 4}), rows[2]},
              {.lists = {{Attr::groups, {1}}}});
    const ValueId y = b.op1(OpKind::combine, {o, rows[1], routed[0]}, {.lists = {{Attr::spread, {1, 1}}}});
    b.where.block = 2;
    b.product_of(y, parameter("head", {2, 3, 4}), "b s d, b s d -> .");
    before.values.back().name = "the loss";
    before = autodiff(before, {"the loss"});
    const Graph g = recompute(before, {.activations = Recompute::full});
    verify(g, Level::global);
    const auto count = [&](OpKind kind) {
        return std::count_if(g.ops.begin(), g.ops.end(), [&](const Op& op) { return op.kind == kind; });
    };
    CHECK(count(OpKind::route) == 1);
    CHECK(count(OpKind::dispatch) == 2); // the rows again
    for (const Op& op : g.ops)
        if (op.phase == Phase::backward)
            for (const ValueId v : op.operands)
                if (const OpId producer = g[v].producer; producer && g[producer].kind == OpKind::dispatch) {
                    const bool is_rows = g[producer].results[0] == v;
                    CHECK((g[producer].phase == Phase::backward) == is_rows);
                }
}

TEST_CASE("without recomputation the graph stays as it is")
{
    const Graph before = differentiated(Family::llama);
    const Graph after = recompute(before, {});
    CHECK(after.ops.size() == before.ops.size());
    CHECK(kept(after) == kept(before));
}
