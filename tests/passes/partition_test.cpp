// Partition on graphs that can be checked by hand.
#include "base/check.hpp"
#include "catch.hpp"
#include "ir/builder.hpp"
#include "ir/verify.hpp"
#include "passes/sharding/partition.hpp"
#include "passes/sharding/propagate.hpp"

using namespace trivium;

namespace {

Sharding cut(std::vector<std::vector<std::string>> dims)
{
    Sharding s;
    for (auto& axes : dims)
        s.dims.push_back({std::move(axes), false});
    return s;
}

/// A rank's communication, in order.
std::vector<std::string> exchanged(const Graph& local)
{
    std::vector<std::string> all;
    for (const Op& op : local.ops)
        if (info(op).communicates)
            all.push_back(str(info(op).name, " ", *op.attrs->axis, " ", local[op.operands[0]].name));
    return all;
}

} // namespace

TEST_CASE("all ranks make the same choice, also if one has less work than another")
{
    // Sharding the sequence or the vocabulary moves the same bytes. Of 3 positions the first rank has 2 and
    // the second 1, of 6 vocabulary entries each has 3: by its own shard, the first would choose the
    // vocabulary, the second the sequence.
    Graph g;
    g.name = "tie";
    g.mesh.axes = {{"tensor", 2}};
    Builder b(g);
    const ValueId x = b.value("x", {DType::f32, {2, 3, 8}}, Role::input),
                  w = b.value("w", {DType::f32, {6, 8}}, Role::input);
    const ValueId y = b.op1(OpKind::matmul, {x, w}, {.rule = "b m k, n k -> b m n"}, "y");
    g[x].sharding = cut({{}, {"tensor"}, {}});
    g[w].sharding = cut({{"tensor"}, {}});
    g[y].sharding = cut({{}, {}, {}});
    g.outputs = {y};
    verify(g, Level::sharded);
    const std::vector<std::string> first = exchanged(partition(g, {{0}})),
                                   second = exchanged(partition(g, {{1}}));
    CHECK(first.size() == 2);
    CHECK(first == second);
}

TEST_CASE("a copy of a value is used within its stage alone")
{
    // Two products need all rows of x, of which each rank has one: to gather x moves less than their results.
    Graph g;
    g.name = "stages";
    g.mesh.axes = {{"tensor", 2}};
    Builder b(g);
    const ValueId x = b.value("x", {DType::f32, {2, 8}}, Role::input);
    g[x].sharding = cut({{"tensor"}, {}});
    for (const int block : {0, 1}) {
        b.where.block = block;
        const ValueId w = b.value(str("w", block), {DType::f32, {64, 8}}, Role::input);
        g[w].sharding = cut({{}, {}});
        const ValueId y = b.op1(OpKind::matmul, {x, w}, {.rule = "m k, n k -> m n"}, str("y", block));
        g[y].sharding = cut({{}, {}});
        g.outputs.push_back(y);
    }
    verify(g, Level::sharded);
    PartitionConfig config{{0}};
    const std::vector<std::string> one = {"all_gather tensor x"}, two = {one[0], one[0]};
    CHECK(exchanged(partition(g, config)) == one);
    config.stage_of_block = {0, 0};
    CHECK(exchanged(partition(g, config)) == one);
    config.stage_of_block = {0, 1}; // both on this rank
    CHECK(exchanged(partition(g, config)) == two);
    CHECK(partition(g, config).stage_of_block == config.stage_of_block);
}

TEST_CASE("a norm over heads that ranks share reduces one number per row, forward and backward")
{
    Graph g;
    g.name = "width";
    g.mesh.axes = {{"tensor", 2}};
    Builder b(g);
    const auto input = [&](const char* name, Shape shape, std::vector<std::vector<std::string>> dims) {
        const ValueId v = b.value(name, {DType::bf16, std::move(shape)}, Role::input);
        g[v].sharding = cut(std::move(dims));
        return v;
    };
    const ValueId x = input("x", {2, 8, 4, 3, 16}, {{}, {}, {"tensor"}, {}, {}}),
                  dy = input("dy", {2, 8, 4, 3, 16}, {{}, {}, {"tensor"}, {}, {}}),
                  w = input("w", {4, 3, 16}, {{"tensor"}, {}, {}});
    const ValueId squares = b.op1(OpKind::row_squares, {x}, {.rule = "b s g r e -> b s"}, "squares");
    const ValueId mean = b.op1(OpKind::affine, {squares}, {.alpha = 1.0 / 192, .beta = 1e-6});
    const ValueId rstd = b.op1(OpKind::rsqrt, {mean});
    g.outputs.push_back(
        b.op1(OpKind::scale_rows, {x, w, rstd}, {.rule = "b s g r e, g r e, b s -> b s g r e"}, "y"));
    const ValueId drstd = b.op1(OpKind::scale_rows_grad_rows, {dy, x, w},
                                {.rule = "b s g r e, b s g r e, g r e -> b s"}, "drstd");
    const ValueId half = b.op1(OpKind::affine, {drstd}, {.alpha = -0.5}, "half");
    const ValueId dmean = b.op1(OpKind::multiply, {half, rstd}, {}, "dmean");
    g.outputs.push_back(
        b.op1(OpKind::row_squares_grad, {dmean, x}, {.rule = "b s, b s g r e -> b s g r e"}, "dx"));
    g.outputs.push_back(b.op1(OpKind::scale_rows_grad_w, {dy, x, rstd},
                              {.rule = "b s g r e, b s g r e, b s -> g r e"}, "dw"));
    const std::vector<std::string> sums = exchanged(partition(propagate(g), {{0}}));
    CHECK(sums == std::vector<std::string>{"all_reduce tensor squares", "all_reduce tensor half"});
}
