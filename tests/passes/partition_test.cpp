// Partition on graphs that can be checked by hand.
#include "base/check.hpp"
#include "catch.hpp"
#include "ir/builder.hpp"
#include "ir/verify.hpp"
#include "passes/partition.hpp"

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
            all.push_back(str(info(op).name, " ", *op.attrs.axis, " ", local[op.operands[0]].name));
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
