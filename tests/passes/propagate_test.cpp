// Laws of propagation, on random graphs and by hand.
#include "base/check.hpp"
#include "catch.hpp"
#include "ir/builder.hpp"
#include "ir/text/text.hpp"
#include "ir/verify.hpp"
#include "passes/sharding/propagate.hpp"

#include <algorithm>
#include <random>

using namespace trivium;

namespace {

using Axes = std::vector<std::string>;

bool starts_with(const Axes& longer, const Axes& shorter)
{
    return longer.size() >= shorter.size() && std::equal(shorter.begin(), shorter.end(), longer.begin());
}

/// Products, sums, norms and plain ops over [b, m, n], with annotations here and there.
Graph random_graph(u64 seed)
{
    std::mt19937_64 draw(seed);
    const auto below = [&](std::size_t n) { return static_cast<std::size_t>(draw() % n); };
    Graph g;
    g.name = "random";
    g.mesh.axes = {{"data", 2}, {"tensor", 3}, {"pod", static_cast<i64>(1 + seed % 2)}};
    Builder b(g);
    const i64 extents[] = {2, 6, 12};
    const auto extent = [&] { return extents[below(3)]; };
    std::vector<ValueId> values;
    for (std::size_t n = 1 + below(3); n > 0; --n)
        values.push_back(b.value(str("x", n), {DType::f32, {extent(), extent(), extent()}}, Role::input));
    for (std::size_t n = 3 + below(10); n > 0; --n) {
        const ValueId x = values[below(values.size())];
        const Shape shape = g[x].type.shape;
        const auto weight = [&](Shape s) {
            return b.value(str("w", n, "_", g.values.size()), {DType::f32, std::move(s)}, Role::parameter);
        };
        switch (below(5)) {
        case 0: values.push_back(b.op1(OpKind::gelu, {x})); break;
        case 1: values.push_back(b.sum_of(x, below(2) ? x : b.op1(OpKind::gelu, {values[0]}))); break;
        case 2: values.push_back(b.op(OpKind::rms_norm, {x, weight({shape[2]})}, {.eps = 1e-5})[0]); break;
        default:
            values.push_back(
                b.op1(OpKind::matmul, {x, weight({shape[2], extent()})}, {.rule = "b m k, k n -> b m n"}));
        }
        if (g[values.back()].type.shape != g[values[0]].type.shape && below(4) == 0)
            values.erase(values.begin());
    }
    for (Value& v : g.values) {
        if (below(3) == 0)
            continue;
        Axes left{"data", "tensor", "pod"};
        std::shuffle(left.begin(), left.end(), draw);
        for (const i64 rows : v.type.shape) {
            DimSharding dim;
            dim.open = below(3) > 0;
            for (i64 parts = 1; !left.empty() && below(3) == 0; left.pop_back()) {
                parts *= g.mesh.size(left.back());
                if (parts <= rows)
                    dim.axes.push_back(left.back());
            }
            v.sharding.edit().dims.push_back(dim);
        }
    }
    return g;
}

/// sum_of requires equal shapes: random graphs that do not verify are discarded.
bool legal(const Graph& graph)
{
    try {
        verify(graph, Level::global);
    } catch (const UserError&) {
        return false;
    }
    return true;
}

Sharding annotated(std::vector<Axes> dims, bool open = false)
{
    Sharding s;
    for (Axes& axes : dims)
        s.dims.push_back({std::move(axes), open});
    return s;
}

Axes axes_of(const Graph& g, const char* name, std::size_t dim)
{
    return g[g.find(name)].sharding->dims[dim].axes;
}

} // namespace

TEST_CASE("propagation only refines what is open, uses an axis once, and once is enough")
{
    int graphs = 0, refined = 0;
    for (u64 seed = 0; graphs < 1500; ++seed) {
        Graph before;
        try {
            before = random_graph(seed);
        } catch (const UserError&) { // two shapes that do not add
            continue;
        }
        if (!legal(before))
            continue;
        ++graphs;
        INFO("seed " << seed);
        const Graph after = propagate(before);
        verify(after, Level::sharded);
        REQUIRE(after.ops.size() == before.ops.size());
        for (std::size_t i = 0; i < after.values.size(); ++i) {
            const auto &was = before.values[i].sharding->dims, &is = after.values[i].sharding->dims;
            REQUIRE(is.size() == after.values[i].type.shape.size());
            Axes all;
            for (std::size_t d = 0; d < is.size(); ++d) {
                INFO("%" << after.values[i].name << " dimension " << d);
                REQUIRE_FALSE(is[d].open);
                all.insert(all.end(), is[d].axes.begin(), is[d].axes.end());
                for (const std::string& axis : is[d].axes)
                    REQUIRE(after.mesh.size(axis) > 1);
                Axes kept = d < was.size() ? was[d].axes : Axes{}; // an axis of one rank shards nothing
                std::erase_if(kept, [&](const std::string& axis) { return after.mesh.size(axis) == 1; });
                REQUIRE(starts_with(is[d].axes, kept));
                if (d < was.size() && !was[d].open)
                    REQUIRE(is[d].axes == kept);
                else
                    refined += is[d].axes.size() > kept.size();
            }
            std::sort(all.begin(), all.end());
            REQUIRE(std::adjacent_find(all.begin(), all.end()) == all.end());
        }
        Graph again = after; // open as before: nothing is left to do
        for (std::size_t i = 0; i < again.values.size(); ++i)
            for (std::size_t d = 0; d < again.values[i].sharding->dims.size(); ++d)
                again.values[i].sharding.edit().dims[d].open =
                    before.values[i].sharding->dims.empty() || before.values[i].sharding->dims[d].open;
        REQUIRE(to_text(propagate(again)) == to_text(after));
    }
    CHECK(refined > 3000);
}

TEST_CASE("tensors that disagree about a factor neither receive nor propagate it")
{
    Graph g;
    g.name = "sum";
    g.mesh.axes = {{"data", 2}, {"tensor", 2}};
    Builder b(g);
    const TensorType type{DType::f32, {4, 4}};
    const ValueId x = b.value("x", type, Role::input), y = b.value("y", type, Role::input);
    b.sum_of(x, y);
    g.values.back().name = "sum";
    g[x].sharding = annotated({{"data"}, {}}, true);
    g[y].sharding = annotated({{"tensor"}, {}}, true);
    const Graph apart = propagate(g);
    CHECK(axes_of(apart, "sum", 0).empty());
    CHECK(axes_of(apart, "x", 0) == Axes{"data"});
    CHECK(axes_of(apart, "y", 0) == Axes{"tensor"});
    g[y].sharding = annotated({{"data", "tensor"}, {}}, true); // a finer sharding does not disagree
    const Graph finer = propagate(g);
    CHECK(axes_of(finer, "sum", 0) == Axes{"data", "tensor"});
    CHECK(axes_of(finer, "x", 0) == Axes{"data", "tensor"});
}

TEST_CASE("of several factors that could have an axis, the one in the largest tensor gets it")
{
    const auto product = [](std::vector<Axes> x_mk, std::vector<Axes> w_kn, std::vector<Axes> y_mn) {
        Graph g;
        g.name = "product";
        g.mesh.axes = {{"data", 2}, {"tensor", 2}};
        Builder b(g);
        const ValueId x = b.value("x", {DType::f32, {4, 4}}, Role::input),
                      w = b.value("w", {DType::f32, {4, 4}}, Role::input);
        const ValueId y = b.op1(OpKind::matmul, {x, w}, {.rule = "m k, k n -> m n"}, "y");
        g[x].sharding = annotated(std::move(x_mk), true);
        g[w].sharding = annotated(std::move(w_kn), true);
        g[y].sharding = annotated(std::move(y_mn), true);
        return propagate(g);
    };
    // x's rows and w's columns: of y only one could be sharded over tensor. Tensors of one size: the first
    // operand's.
    const Graph two = product({{"tensor"}, {}}, {{}, {"tensor"}}, {{}, {}});
    CHECK(axes_of(two, "y", 0) == Axes{"tensor"});
    CHECK(axes_of(two, "y", 1).empty());
    // Only one: it is propagated.
    const Graph one = product({{"tensor"}, {}}, {{}, {"data"}}, {{}, {}});
    CHECK(axes_of(one, "y", 0) == Axes{"tensor"});
    CHECK(axes_of(one, "y", 1) == Axes{"data"});
    // All three factors, each by one tensor: y's rows, x's columns, w's columns.
    const Graph three = product({{}, {"tensor"}}, {{}, {"tensor"}}, {{"tensor"}, {}});
    CHECK(axes_of(three, "x", 0).empty());
    CHECK(axes_of(three, "w", 0).empty());
    CHECK(axes_of(three, "y", 1).empty());
    // Batch by the queries, heads by the keys: the statistics could have both. The queries are larger.
    Graph g;
    g.name = "attention";
    g.mesh.axes = {{"tensor", 2}};
    Builder b(g);
    const ValueId q = b.value("q", {DType::f32, {2, 4, 2, 2, 4}}, Role::input),
                  k = b.value("k", {DType::f32, {2, 4, 2, 4}}, Role::input);
    const std::vector<ValueId> o = b.op(OpKind::attention, {q, k, k}, {.scale = 1.0}, {"o", "stats"});
    g[q].sharding = annotated({{"tensor"}, {}, {}, {}, {}}, true);
    g[k].sharding = annotated({{}, {}, {"tensor"}, {}}, true);
    g[o[0]].sharding = annotated({{}, {}, {}, {"tensor"}, {}}, true);
    const Graph done = propagate(g);
    CHECK(axes_of(done, "stats", 0) == Axes{"tensor"});
    for (std::size_t d = 1; d < 4; ++d)
        CHECK(axes_of(done, "stats", d).empty());
}

TEST_CASE("sinks of attention and their gradient are sharded with the heads, documents with the batch")
{
    Graph g;
    g.name = "sinks";
    g.mesh.axes = {{"data", 2}, {"tensor", 2}};
    Builder b(g);
    const ValueId q = b.value("q", {DType::f32, {4, 6, 2, 3, 4}}, Role::input),
                  k = b.value("k", {DType::f32, {4, 6, 2, 4}}, Role::input),
                  starts = b.value("starts", {DType::i32, {4, 6}}, Role::input),
                  sinks = b.value("sinks", {DType::f32, {2, 3}}, Role::parameter);
    const std::vector<ValueId> o =
        b.op(OpKind::attention, {q, k, k, starts, sinks}, {.lists = {{Attr::window, {4}}}}, {"o", "lse"});
    b.op1(OpKind::attention_grad_sinks, {o[0], o[0], o[1], sinks}, {}, "dsinks");
    g[q].sharding = annotated({{"data"}, {}, {"tensor"}, {}, {}});
    const Graph done = propagate(g);
    CHECK(axes_of(done, "starts", 0) == Axes{"data"});
    CHECK(axes_of(done, "starts", 1).empty());
    CHECK(axes_of(done, "sinks", 0) == Axes{"tensor"});
    CHECK(axes_of(done, "dsinks", 0) == Axes{"tensor"});
    CHECK(to_text(parse_graph(to_text(done), "")) == to_text(done));
}

TEST_CASE("every rank has at least one row")
{
    Graph g;
    g.name = "small";
    g.mesh.axes = {{"data", 2}, {"tensor", 3}};
    Builder b(g);
    const ValueId x = b.value("x", {DType::f32, {4, 5}}, Role::input), y = b.op1(OpKind::gelu, {x}, {}, "y");
    g[x].sharding = annotated({{"data"}, {}}, true);
    const ValueId w = b.value("w", {DType::f32, {4, 5}}, Role::input);
    g[w].sharding = annotated({{"data"}, {"tensor"}});
    b.sum_of(y, w);
    g.values.back().name = "z";
    const Graph done = propagate(g);
    CHECK(axes_of(done, "x", 1) == Axes{"tensor"}); // 3 of 5
    Graph tight = g;
    tight[w].sharding = annotated({{"data"}, {}});
    tight[x].sharding = annotated({{}, {"tensor"}}, true);
    tight[y].sharding = annotated({{}, {}}, true);
    tight.mesh.axes[1].size = 6; // more ranks than rows: not even with an annotation
    CHECK_THROWS_AS(verify(propagate(tight), Level::sharded), UserError);
}
