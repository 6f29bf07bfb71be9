// A rank whose shards have no elements: what it computes is empty too, or what a sum over nothing is.
#include "base/check.hpp"
#include "catch.hpp"
#include "small_graph.hpp"

using namespace trivium;
using namespace trivium::runs;

namespace {

Graph local_graph()
{
    Graph g;
    g.name = "empty";
    g.mesh.axes = {{"x", 2}};
    g.at = {1};
    return g;
}

} // namespace

TEST_CASE("ops on empty tensors")
{
    for (const DType type : {DType::f32, DType::f64, DType::bf16}) {
        INFO(name_of(type));
        Graph g = local_graph();
        Builder b(g);
        const auto parameter = [&](const char* name, Shape shape) {
            return b.value(name, {type, std::move(shape)}, Role::parameter, NormalInit{1});
        };
        const ValueId none = parameter("none", {0, 4}), narrow = parameter("narrow", {3, 0}),
                      w = parameter("w", {4}), table = parameter("table", {5, 4}),
                      rows = parameter("rows", {2, 4}), ids = b.value("ids", {DType::i32, {0}}, Role::input);
        const auto empty = [&](ValueId v) {
            CHECK(g[v].type.elements() == 0);
            add_output(b, v, g[v].name + ".all");
        };
        const auto zero = [&](ValueId v, const char* name) { add_output(b, v, str("zero.", name)); };
        empty(b.op1(OpKind::gelu, {none}));
        empty(b.op1(OpKind::swiglu, {none, none}));
        empty(b.op1(OpKind::bias_add, {none, w}, {.rule = "* d, d -> * d"}));
        empty(b.op1(OpKind::bias_add, {narrow, b.slice_of(w, 0, {4, 0})}, {.rule = "* d, d -> * d"}));
        empty(b.op1(OpKind::embedding, {table, ids}));
        empty(b.slice_of(rows, 0, {1, 0}));
        empty(b.op1(OpKind::cast, {none}, {.dtype = DType::f64}));
        const auto norm = b.op(OpKind::rms_norm, {none, w}, {.eps = 0.1});
        const auto layer = b.op(OpKind::layer_norm, {none, w, w}, {.eps = 0.1});
        empty(norm[0]);
        empty(layer[2]);
        empty(b.op1(OpKind::rms_norm_grad_x, {none, none, w, norm[1]}));
        empty(b.op(OpKind::xent_stats, {none, ids})[0]);
        empty(b.product_of(none, rows, Rule("r k, n k -> r n")));
        const ValueId columns = b.slice_of(w, 0, {0, 2});
        empty(b.op(OpKind::matmul_bias_gelu, {none, rows, columns}, {.rule = "r k, n k, n -> r n, r n"})[0]);
        empty(b.op1(OpKind::matmul_add, {rows, none, b.slice_of(narrow, 0, {0, 2})},
                    {.rule = "m k, n k, m n -> m n"}));
        zero(b.op1(OpKind::rms_norm_grad_w, {none, none, norm[1]}), "rms");
        zero(b.op1(OpKind::layer_norm_grad_w, {none, none, layer[1], layer[2]}), "layer");
        zero(b.op1(OpKind::embedding_grad, {none, ids}, {.sizes = {{"v", 5}}}), "embedding");
        zero(b.op1(OpKind::reduce_sum, {none}, {.rule = "* d -> d"}), "rows_summed");
        zero(b.op1(OpKind::reduce, {narrow}, {.combine = Combine::sum, .lists = {{Attr::dims, {1}}}}),
             "columns_summed");
        zero(b.product_of(none, none, Rule("r m, r n -> m n")), "product");
        zero(b.op1(OpKind::matmul_bias,
                   {narrow, b.slice_of(table, 0, {2, 0}), b.op1(OpKind::fill, {w}, {.value = 0.0})},
                   {.rule = "m k, k n, n -> m n"}),
             "product_with_bias");
        zero(b.op1(OpKind::count_valid, {ids}), "count");
        if (type != DType::bf16) { // no model sums bf16 tensors so
            zero(b.op1(OpKind::sum, {none}), "sum");
            zero(b.squares_of(none), "squares");
        }
        add_output(b, b.joined({none, rows}, 0), "joined");
        const std::vector<ValueId> parts = b.divided(rows, 0, {0, 2});
        empty(parts[0]);
        add_output(b, parts[1], "part");
        SmallGraph run(std::move(g), 2, [](const Value&, i64) { return std::vector<std::int32_t>{}; });
        run.run();
        run.update();
        run.run();
        const Graph& graph = run.program.graph;
        for (const ValueId id : graph.outputs) {
            const std::string& name = graph[id].name;
            INFO(name);
            const reference::Vector got = run.fetched(name);
            if (name == "joined" || name == "part") {
                reference::Vector want = run.read("rows");
                REQUIRE(want.size() == 8);
                for (double& value : want)
                    value *= 2;
                CHECK(got == want);
            } else {
                CHECK(got == reference::Vector(static_cast<std::size_t>(graph[id].type.elements()), 0));
            }
        }
        run.require_planned_is_used();
    }
}

TEST_CASE("the update of an empty parameter beside that of another")
{
    Graph g = local_graph();
    Builder b(g);
    const ValueId none = b.value("none", {DType::f64, {0, 3}}, Role::parameter, NormalInit{1}),
                  some = b.value("some", {DType::f64, {2}}, Role::parameter, NormalInit{1});
    std::vector<ValueId> gradients;
    for (const ValueId p : {none, some}) {
        const ValueId before = b.value("grad.before." + g[p].name, g[p].type, Role::carry),
                      sum = b.add_into(before, p);
        g.carries.push_back({before, sum});
        gradients.push_back(sum);
    }
    b.where = {Region::epilogue, Phase::update, 0, ""};
    std::vector<ValueId> scalars;
    const ValueId one = b.squares_of(gradients[1]);
    scalars = {one, one, b.squares_of(gradients[0]), one};
    const ValueId norm = b.norm_of(b.stack_of(scalars, "totals"), 0, 2);
    g.outputs = {norm};
    const ValueId hyper = b.value("hyper", {DType::f64, {hyper_count}}, Role::hyper);
    for (std::size_t i = 0; i < 2; ++i) {
        const ValueId p = i == 0 ? none : some;
        b.update(p, b.states_of(p, "adamw", {}), {gradients[i], norm, hyper}, 0.1);
    }
    SmallGraph run(std::move(g), 1, [](const Value&, i64) { return std::vector<std::int32_t>{}; });
    const reference::Vector before = run.read("some");
    run.run({0.1, 0.9, 0.95, 1e-8, 0.1, 0.05});
    run.update();
    CHECK(run.read("none").empty());
    CHECK(run.read("some") != before);
}

TEST_CASE("a graph without any bytes")
{
    Graph g = local_graph();
    Builder b(g);
    const ValueId x = b.value("x", {DType::f32, {0}}, Role::parameter, FillInit{1});
    b.op1(OpKind::gelu, {x});
    SmallGraph run(std::move(g), 1, [](const Value&, i64) { return std::vector<std::int32_t>{}; });
    CHECK(run.plan.lower_bound == 0);
    run.run();
    run.update();
}
