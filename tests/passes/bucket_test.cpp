// Buckets on random local graphs: nothing is lost, the order stays legal, sizes are kept.
#include "base/check.hpp"
#include "catch.hpp"
#include "ir/builder.hpp"
#include "ir/text/text.hpp"
#include "ir/verify.hpp"
#include "passes/collectives/bucket.hpp"

#include <map>
#include <random>
#include <set>

using namespace trivium;

namespace {

/// Gathers and sums over two axes in prologue and epilogue, in chains and independent, with plain ops
/// between.
Graph random_reductions(u64 seed)
{
    std::mt19937_64 draw(seed);
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(draw() % n); };
    Graph g;
    g.name = "random";
    g.mesh.axes = {{"data", 2}, {"tensor", 2}};
    g.at = {0, 0};
    Builder b(g);
    std::vector<ValueId> given;
    for (std::size_t n = 2 + below(5); n > 0; --n)
        given.push_back(b.value(str("p", n),
                                {below(4) ? DType::f32 : DType::bf16, {static_cast<i64>(4 + 4 * below(20))}},
                                Role::parameter));
    const auto grow = [&](std::vector<ValueId> values, std::size_t ops) {
        for (; ops > 0; --ops) {
            const ValueId x = values[below(values.size())];
            const i64 extent = g[x].type.shape[0];
            const char* axis = below(2) ? "data" : "tensor";
            b.where.block = static_cast<int>(below(3));
            switch (below(5)) {
            case 0: values.push_back(b.op1(OpKind::gelu, {x})); break;
            case 1: values.push_back(b.all_gather(x, axis, 0, 2 * extent)); break;
            case 2:
                values.push_back(extent % 2 ? b.sum_of(x, x) : b.reduce_scatter(x, axis, 0, extent / 2));
                break;
            default: values.push_back(b.all_reduce(x, axis, below(5) ? Combine::sum : Combine::lse)); break;
            }
        }
        return values;
    };
    b.where = {Region::prologue, Phase::forward, 0, ""};
    const std::vector<ValueId> used = grow(given, 4 + below(12));
    std::vector<ValueId> sums;
    for (std::size_t n = 1 + below(6); n > 0; --n) {
        b.where = {Region::microbatch, Phase::backward, static_cast<int>(below(3)), ""};
        const ValueId x = used[below(used.size())];
        const ValueId before =
            b.value(str("sum", n), {accumulator_of(g[x].type.dtype), g[x].type.shape}, Role::carry);
        const ValueId sum = b.add_into(before, b.op1(OpKind::accumulate, {x}));
        g.carries.push_back({before, sum});
        sums.push_back(sum);
    }
    b.where = {Region::epilogue, Phase::update, 0, ""};
    grow(sums, 4 + below(16));
    verify(g, Level::local);
    return g;
}

std::string member(const Graph& g, const Op& op, std::size_t i)
{
    return str(info(op).name, " ", *op.attrs->axis, " ", op.attrs->combine ? name_of(*op.attrs->combine) : "",
               " ", g[op.operands[i]].name, " -> ", g[op.results[i]].name, " : ", g[op.results[i]].type);
}

/// Every communicated tensor with its collective, and every other op.
std::multiset<std::string> work_of(const Graph& g)
{
    std::multiset<std::string> work;
    for (std::size_t i = 0; i < g.ops.size(); ++i)
        if (info(g.ops[i]).communicates)
            for (std::size_t m = 0; m < g.ops[i].operands.size(); ++m)
                work.insert(str(name_of(g.ops[i].region), " ", member(g, g.ops[i], m)));
        else
            work.insert(str(name_of(g.ops[i].region), " ", to_text(g, OpId(i))));
    return work;
}

/// The ops for which op i waits, directly or indirectly.
std::set<std::size_t> ancestors(const Graph& g, std::size_t i)
{
    std::set<std::size_t> all;
    std::vector<std::size_t> open{i};
    while (!open.empty()) {
        const Op& op = g.ops[open.back()];
        open.pop_back();
        for (const ValueId v : op.operands)
            if (const OpId producer = g[v].producer; producer && all.insert(producer.index()).second)
                open.push_back(producer.index());
    }
    return all;
}

Bytes bytes_of_bucket(const Graph& g, const Op& op)
{
    Bytes bytes = 0;
    for (std::size_t i = 0; i < op.operands.size(); ++i)
        bytes += std::max(g[op.operands[i]].type.bytes(), g[op.results[i]].type.bytes());
    return bytes;
}

} // namespace

TEST_CASE("merging loses nothing, keeps a legal order and the size limit, and never joins two that wait "
          "for each other")
{
    int merged = 0;
    for (u64 seed = 0; seed < 2000; ++seed) {
        INFO("seed " << seed);
        const Graph before = random_reductions(seed);
        const Bytes limit = seed % 3 == 0 ? 300 : Bytes{1} << 30;
        const Graph after = bucket(before, {limit, false});
        verify(after, Level::local);
        REQUIRE(work_of(after) == work_of(before));
        std::map<std::string, std::size_t> producer; // of the original graph, by result
        for (std::size_t i = 0; i < before.ops.size(); ++i)
            for (const ValueId v : before.ops[i].results)
                producer[before[v].name] = i;
        for (const Op& op : after.ops) {
            if (!info(op).communicates || op.operands.size() == 1)
                continue;
            ++merged;
            REQUIRE(op.region != Region::microbatch);
            REQUIRE(bytes_of_bucket(after, op) <= limit);
            for (const ValueId v : op.results) {
                const std::set<std::size_t> waits = ancestors(before, producer[after[v].name]);
                for (const ValueId other : op.results)
                    REQUIRE(waits.count(producer[after[other].name]) == 0);
            }
        }
    }
    CHECK(merged > 500);
}

TEST_CASE("without a limit, one bucket per kind remains if none waits for another")
{
    Graph g;
    g.name = "flat";
    g.mesh.axes = {{"data", 2}, {"tensor", 2}};
    Builder b(g);
    b.where = {Region::prologue, Phase::forward, 0, ""};
    for (int i = 0; i < 12; ++i) {
        b.where.block = i / 3;
        const ValueId x = b.value(str("x", i), {DType::f32, {8}}, Role::parameter);
        i % 2 ? b.all_gather(x, "data", 0, 16) : b.all_reduce(x, "tensor", Combine::sum);
    }
    CHECK(bucket(g, {}).ops.size() == 2);
    CHECK(bucket(g, {0, false}).ops.size() == 12);
    CHECK(bucket(g, {1, false}).ops.size() == 12);         // each is larger than a byte, so not merged
    CHECK(bucket(g, {3 * 64, false}).ops.size() == 2 + 1); // 6 gathers of 64 bytes, 6 sums of 32
    const Graph by_block = bucket(g, {1, true});
    CHECK(by_block.ops.size() == 8);
    for (const Op& op : by_block.ops)
        for (const ValueId v : op.operands)
            CHECK(std::stoi(by_block[v].name.substr(1)) / 3 == op.block);
}
