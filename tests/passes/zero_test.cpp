// ZeRO as shardings: which dimension is cut, what is gathered where, and what the backward phase gathers
// again.
#include "catch.hpp"
#include "ir/names.hpp"
#include "ir/ops/op_table.hpp"
#include "ir/verify.hpp"
#include "model/model.hpp"
#include "passes/autodiff.hpp"
#include "passes/memory/recompute.hpp"
#include "passes/memory/zero.hpp"
#include "passes/sharding/propagate.hpp"
#include "passes/simplify.hpp"

#include <algorithm>
#include <set>

using namespace trivium;

namespace {

const Mesh mesh{{{data_axis, 4}, {tensor_axis, 2}}};

std::vector<std::vector<std::string>> axes_of(const Sharding& sharding)
{
    std::vector<std::vector<std::string>> axes;
    for (const DimSharding& dim : sharding.dims)
        axes.push_back(dim.axes);
    return axes;
}

std::vector<std::vector<std::string>> sharded_over(const Mesh& grid, const Shape& shape, Sharding before = {},
                                                   std::vector<std::string> elsewhere = {})
{
    for (const auto& dim : axes_of(before))
        elsewhere.insert(elsewhere.end(), dim.begin(), dim.end());
    return axes_of(FurtherSharding(grid, elsewhere, data_axis)(std::move(before), shape));
}

std::vector<std::vector<std::string>> sharded_state(const Shape& shape, const Sharding& before = {})
{
    return sharded_over(mesh, shape, before);
}

Graph loss_graph(DType compute, bool tied)
{
    ModelConfig m{.layers = 2, .dim = 16, .heads = 4, .kv_heads = 2, .ffn_dim = 24, .vocab = 32, .seq = 8};
    m.tied_embeddings = tied;
    Graph g = build_loss_graph(m, {4, compute, DType::f32});
    g.mesh = mesh;
    return complete_annotations(std::move(g));
}

/// Whether the op reshards a parameter, or a copy of it in another type.
bool is_gather(const Graph& g, const Op& op)
{
    return info(op).placement && g[op.operands[0]].lifetime != Lifetime::microbatch;
}

} // namespace

TEST_CASE("a tensor is cut along the first dimension that divides, otherwise along the longest")
{
    using Axes = std::vector<std::vector<std::string>>;
    CHECK(sharded_state({8, 16}) == Axes{{"data"}, {}});
    CHECK(sharded_state({6, 16}) == Axes{{}, {"data"}});
    CHECK(sharded_state({6, 9, 5}) == Axes{{}, {"data"}, {}});
    CHECK(sharded_state({3, 1}) == Axes{{}, {}}); // fewer elements than ranks
    CHECK(sharded_state({}).empty());
    Sharding over_tensor;
    over_tensor.dims = {{{"tensor"}}, {}};
    CHECK(sharded_state({8, 3}, over_tensor) == Axes{{"tensor", "data"}, {}}); // shards of 4 rows
    CHECK(sharded_state({6, 8}, over_tensor) == Axes{{"tensor"}, {"data"}});
    over_tensor.dims[0].open = false;
    CHECK(sharded_state({8, 3}, over_tensor) == Axes{{"tensor"}, {}});
    Sharding over_data; // over the rest of the axis
    over_data.dims = {{}, {{"tensor", "data:(2)2"}}};
    CHECK(sharded_state({8, 16}, over_data) == Axes{{"data:(1)2"}, {"tensor", "data:(2)2"}});
    CHECK(sharded_state({1, 16}, over_data) == Axes{{}, {"tensor", "data:(2)2", "data:(1)2"}});
    over_data.dims = {{{"data:(2)2"}}, {}, {}}; // experts
    CHECK(sharded_state({8, 5, 4}, over_data) == Axes{{"data:(2)2", "data:(1)2"}, {}, {}});
    CHECK(sharded_state({2, 5, 4}, over_data) == Axes{{"data:(2)2"}, {}, {"data:(1)2"}});
    over_data.dims = {{{"data:(1)2"}}, {{"data:(2)2"}}};
    CHECK(sharded_state({8, 4}, over_data) == Axes{{"data:(1)2"}, {"data:(2)2"}});
}

TEST_CASE("where no dimension has an index for each rank, several are cut over parts of the axis")
{
    using Axes = std::vector<std::vector<std::string>>;
    CHECK(sharded_state({3, 2}) == Axes{{"data:(1)2"}, {"data:(2)2"}});
    CHECK(sharded_state({2, 2}) == Axes{{"data:(1)2"}, {"data:(2)2"}});
    const Mesh many{{{data_axis, 2048}}};
    CHECK(sharded_over(many, {1536, 128, 192}) == Axes{{"data:(1)512"}, {"data:(512)4"}, {}});
    CHECK(sharded_over(many, {1600, 128, 192}) == Axes{{"data:(1)64"}, {"data:(64)32"}, {}});
    CHECK(sharded_over(many, {2047}) == Axes{{}});
    CHECK(sharded_over(many, {2049}) == Axes{{"data"}});
    const Mesh eight{{{data_axis, 8}}};
    CHECK(sharded_over(eight, {6, 4}) == Axes{{"data:(1)2"}, {"data:(2)4"}});
    CHECK(sharded_over(eight, {6, 6}) == Axes{{"data:(1)4"}, {"data:(4)2"}}); // rows 2, 2, 1, 1
    CHECK(sharded_over(eight, {7, 2}) == Axes{{"data:(1)4"}, {"data:(4)2"}});
    CHECK(sharded_over(eight, {3, 3}) == Axes{{"data:(1)2"}, {"data:(2)2"}}); // each shard on two ranks
    Sharding experts;
    experts.dims = {{{"data:(4)2"}}, {}, {}}; // over what is left, four ranks
    CHECK(sharded_over(eight, {2, 3, 3}, experts) == Axes{{"data:(4)2"}, {"data:(1)2"}, {"data:(2)2"}});
    const Mesh twelve{{{data_axis, 12}}};
    CHECK(sharded_over(twelve, {4, 9}) == Axes{{"data:(1)4"}, {"data:(4)3"}});
    CHECK(sharded_over(twelve, {4, 9}, {}, {"data:(3)4"}) == Axes{{"data:(3)4"}, {"data:(1)3"}});
    CHECK(sharded_over(twelve, {4, 9}, {}, {"data:(6)2"}) == Axes{{"data:(1)2", "data:(6)2"}, {"data:(2)3"}});
}

TEST_CASE("each block gathers the parameters that it reads once in a microbatch, before their first reader")
{
    const bool tied = GENERATE(false, true);
    const DType compute = GENERATE(DType::f32, DType::bf16);
    const Graph g = simplify(gather_in_microbatches(loss_graph(compute, tied)));
    verify(g, Level::global);
    std::set<std::pair<std::string, int>> gathered;
    for (std::size_t i = 0; i < g.ops.size(); ++i) {
        const Op& op = g.ops[i];
        if (is_gather(g, op)) {
            CHECK(op.region == Region::microbatch);
            CHECK(g[op.operands[0]].type.dtype == compute); // of a copy in bf16, half the bytes
            CHECK(gathered.insert({g[op.operands[0]].name, op.block}).second);
            const Op& reader = g.ops[i + 1];
            CHECK((is_gather(g, reader) ||
                   std::count(reader.operands.begin(), reader.operands.end(), op.results[0]) > 0));
            for (const Op& other : g.ops)
                if (std::count(other.operands.begin(), other.operands.end(), op.results[0]) > 0)
                    CHECK(other.block == op.block);
        } else if (op.region == Region::microbatch) {
            for (const ValueId v : op.operands)
                CHECK((g[v].lifetime == Lifetime::microbatch || g[v].role == Role::constant ||
                       g[v].role == Role::carry));
        }
    }
    // The first and the last block both read a tied embedding.
    CHECK(gathered.size() == g.with_role(Role::parameter).size() + (tied ? 1 : 0));
}

TEST_CASE("the backward phase gathers again, and then nothing is kept for it")
{
    const bool again = GENERATE(false, true);
    const Graph g = recompute(autodiff(gather_in_microbatches(loss_graph(DType::f32, true)), {}), {again});
    verify(g, Level::global);
    int read_across = 0;
    for (const Op& op : g.ops)
        if (op.region == Region::microbatch && op.phase == Phase::backward)
            for (const ValueId v : op.operands)
                if (const OpId producer = g[v].producer;
                    producer && is_gather(g, g[producer]) && g[producer].phase == Phase::forward)
                    ++read_across;
    CHECK((read_across == 0) == again);
}

TEST_CASE("gradients that are reduced in every microbatch are added as shards, in the accumulator's type")
{
    const bool gathers = GENERATE(false, true);
    const DType compute = GENERATE(DType::f32, DType::bf16);
    AutodiffConfig config;
    config.reduce_axis = data_axis;
    Graph before = loss_graph(compute, false);
    if (gathers)
        before = gather_in_microbatches(std::move(before));
    const Graph g = autodiff(std::move(before), config);
    verify(g, Level::global);
    int accumulators = 0;
    for (const Carry& carry : g.carries)
        if (g[carry.out].name.starts_with(value_name::gradient)) {
            ++accumulators;
            CHECK(shards(g[carry.in].sharding, data_axis));
            const Op& add = g[g[carry.out].producer];
            const Value& shard = g[add.operands[0]];
            CHECK(shards(shard.sharding, data_axis));
            CHECK(info(g[shard.producer]).placement);
            CHECK(shard.type.dtype == DType::f32);
        }
    CHECK(accumulators == static_cast<int>(g.with_role(Role::parameter).size()));
}
