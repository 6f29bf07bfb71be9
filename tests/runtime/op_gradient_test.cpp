// The gradient of every differentiable op, through autodiff and the executor, against central differences in
// f64.
#include "base/activation.hpp"
#include "base/check.hpp"
#include "base/rng.hpp"
#include "catch.hpp"
#include "gradient_cases.hpp"
#include "ir/general/general_gradients.hpp"
#include "passes/autodiff.hpp"
#include "small_graph.hpp"

#include <set>

using namespace trivium;
using namespace trivium::runs;

namespace {

using Case = GradientCase;

Build product(const std::string& rule, Shape x, Shape y)
{
    return [=](Builder& b) -> std::vector<ValueId> {
        return {b.op1(OpKind::matmul, {parameter(b, "x", x), parameter(b, "y", y)}, {.rule = rule})};
    };
}

std::vector<Case> model_cases()
{
    using V = std::vector<ValueId>;
    return {
        {"plain product", product("m k, k n -> m n", {3, 4}, {4, 5})},
        {"query projection", product("b s d, d g r e -> b s g r e", {2, 3, 5}, {5, 2, 1, 3})},
        {"output projection", product("b s g r e, g r e d -> b s d", {2, 3, 2, 1, 3}, {2, 1, 3, 4})},
        {"head", product("b s d, v d -> b s v", {2, 3, 4}, {7, 4})},
        {"batched product", product("b m k, b k n -> b m n", {2, 3, 4}, {2, 4, 3})},
        {"product that comes out turned", product("k m, n k -> n m", {3, 4}, {5, 3})},
        {"product added to another",
         [](Builder& b) -> V {
             const ValueId c =
                 b.product_of(parameter(b, "x", {3, 4}), parameter(b, "y", {4, 5}), "m k, k n -> m n");
             const ValueId d =
                 b.product_of(parameter(b, "u", {3, 2}), parameter(b, "v", {2, 5}), "m k, k n -> m n");
             return {b.add_into(c, d, true)};
         }},
        {"parts, of which the loss reads some",
         [](Builder& b) -> V {
             const V parts = b.divided(parameter(b, "x", {2, 6, 3}), 1, {1, 3, 2});
             return {parts[0], b.op1(OpKind::gelu, {parts[2]})};
         }},
        {"a tensor joined of parts",
         [](Builder& b) -> V {
             return {b.joined({parameter(b, "x", {2, 1, 3}), parameter(b, "y", {2, 4, 3})}, 1)};
         }},
        {"embedding",
         [](Builder& b) -> V {
             return {b.op1(OpKind::embedding, {parameter(b, "table", {7, 3}), ids(b, "ids<7", {2, 4})})};
         }},
        {"rms_norm",
         [](Builder& b) -> V {
             return {b.op(OpKind::rms_norm, {parameter(b, "x", {2, 3, 5}), parameter(b, "norm.weight", {5})},
                          {.eps = 0.03})[0]};
         }},
        {"rms_norm with an offset, rounded before its weight",
         [](Builder& b) -> V {
             return {b.op(OpKind::rms_norm, {parameter(b, "x", {2, 3, 5}), parameter(b, "norm.weight", {5})},
                          {.eps = 0.03, .offset = 1.0, .lists = {{Attr::rounded, {1}}}})[0]};
         }},
        {"row_squares",
         [](Builder& b) -> V {
             return {
                 b.op1(OpKind::row_squares, {parameter(b, "x", {2, 3, 2, 5})}, {.rule = "b s g e -> b s"})};
         }},
        {"scale_rows",
         [](Builder& b) -> V {
             return {b.op1(OpKind::scale_rows,
                           {parameter(b, "x", {2, 3, 2, 5}), parameter(b, "weight", {2, 5}),
                            parameter(b, "rstd", {2, 3})},
                           {.rule = "b s g e, g e, b s -> b s g e", .offset = 1.0})};
         }},
        {"a norm over several dimensions",
         [](Builder& b) -> V {
             const ValueId x = parameter(b, "x", {2, 3, 2, 2, 3});
             const ValueId squares = b.op1(OpKind::row_squares, {x}, {.rule = "b s g r e -> b s"});
             const ValueId mean = b.op1(OpKind::affine, {squares}, {.alpha = 1.0 / 12, .beta = 0.03});
             return {b.op1(OpKind::scale_rows,
                           {x, parameter(b, "weight", {2, 2, 3}), b.op1(OpKind::rsqrt, {mean})},
                           {.rule = "b s g r e, g r e, b s -> b s g r e"})};
         }},
        {"affine",
         [](Builder& b) -> V {
             return {b.op1(OpKind::affine, {parameter(b, "x", {3, 5})}, {.alpha = -0.22, .beta = 0.5})};
         }},
        {"softcap",
         [](Builder& b) -> V {
             return {b.op1(OpKind::softcap, {parameter(b, "x", {3, 5})}, {.cap = 0.7})};
         }},
        {"layer_norm",
         [](Builder& b) -> V {
             return {b.op(
                 OpKind::layer_norm,
                 {parameter(b, "x", {2, 3, 5}), parameter(b, "norm.weight", {5}), parameter(b, "bias", {5})},
                 {.eps = 0.03})[0]};
         }},
        {"rope",
         [](Builder& b) -> V {
             const ValueId table =
                 b.value("table", {DType::f64, {9, 3, 2}}, Role::constant, RopeTableInit{{.theta = 50}});
             return {b.op1(OpKind::rope, {parameter(b, "x", {2, 3, 2, 6}), ids(b, "ids<9", {2, 3}), table})};
         }},
        {"rope of a part of each head, scaled, of neighbours",
         [](Builder& b) -> V {
             const RopeAngles yarn{.theta = 50,
                                   .scaling = {.kind = RopeKind::yarn, .factor = 8, .original_seq = 64}};
             const ValueId table =
                 b.value("table", {DType::f64, {9, 2, 2}}, Role::constant, RopeTableInit{yarn});
             return {b.op1(OpKind::rope, {parameter(b, "x", {2, 3, 2, 7}), ids(b, "ids<9", {2, 3}), table},
                           {.lists = {{Attr::interleaved, {1}}}})};
         }},
        {"attention",
         [](Builder& b) -> V { // a scale other than the default
             return {b.op(OpKind::attention,
                          {parameter(b, "q", {2, 4, 2, 3, 2}), parameter(b, "k", {2, 4, 2, 2}),
                           parameter(b, "v", {2, 4, 2, 2})},
                          {.scale = 1.7})[0]};
         }},
        {"attention with values of another width",
         [](Builder& b) -> V {
             return {b.op(OpKind::attention,
                          {parameter(b, "q", {2, 4, 2, 2, 3}), parameter(b, "k", {2, 4, 2, 3}),
                           parameter(b, "v", {2, 4, 2, 2}), parameter(b, "sinks", {2, 2})},
                          {.scale = 0.8})[0]};
         }},
        {"attention with a window, chunks and a cap",
         [](Builder& b) -> V {
             return {b.op(OpKind::attention,
                          {parameter(b, "q", {2, 7, 2, 1, 2}), parameter(b, "k", {2, 7, 2, 2}),
                           parameter(b, "v", {2, 7, 2, 2})},
                          {.cap = 0.9, .lists = {{Attr::window, {3}}, {Attr::chunk, {4}}}})[0]};
         }},
        {"attention with documents",
         [](Builder& b) -> V {
             return {b.op(OpKind::attention,
                          {parameter(b, "q", {2, 5, 1, 2, 3}), parameter(b, "k", {2, 5, 1, 3}),
                           parameter(b, "v", {2, 5, 1, 3}), ids(b, "documents<2", {2, 5})})[0]};
         }},
        {"attention with sinks",
         [](Builder& b) -> V {
             return {b.op(OpKind::attention,
                          {parameter(b, "q", {2, 4, 2, 3, 2}), parameter(b, "k", {2, 4, 2, 2}),
                           parameter(b, "v", {2, 4, 2, 2}), parameter(b, "sinks", {2, 3})})[0]};
         }},
        {"attention with everything, and sinks that are computed",
         [](Builder& b) -> V {
             const ValueId sinks = b.op1(OpKind::gelu, {parameter(b, "sinks", {1, 2})});
             return {b.op(OpKind::attention,
                          {parameter(b, "q", {2, 6, 1, 2, 3}), parameter(b, "k", {2, 6, 1, 3}),
                           parameter(b, "v", {2, 6, 1, 3}), ids(b, "documents<2", {2, 6}), sinks},
                          {.cap = 1.5, .lists = {{Attr::window, {4}}, {Attr::chunk, {3}}}})[0]};
         }},
        {"swiglu",
         [](Builder& b) -> V {
             return {b.op1(OpKind::swiglu, {parameter(b, "x", {3, 5}), parameter(b, "y", {3, 5})})};
         }},
        {"swiglu of one value twice",
         [](Builder& b) -> V {
             const ValueId x = b.op1(OpKind::gelu, {parameter(b, "x", {3, 5})});
             return {b.op1(OpKind::swiglu, {x, x})};
         }},
        {"gelu",
         [](Builder& b) -> V {
             return {b.op1(OpKind::gelu, {parameter(b, "x", {3, 5})})};
         }},
        {"add",
         [](Builder& b) -> V {
             return {b.op1(OpKind::add, {parameter(b, "x", {3, 5}), parameter(b, "y", {3, 5})})};
         }},
        {"add of one parameter twice",
         [](Builder& b) -> V {
             const ValueId x = parameter(b, "x", {3, 5});
             return {b.op1(OpKind::add, {x, x})};
         }},
        {"a gradient that one parameter keeps and others read",
         [](Builder& b) -> V {
             const ValueId x = parameter(b, "x", {3, 5}),
                           y = b.op1(OpKind::gelu, {parameter(b, "y", {3, 5})});
             const ValueId sum = b.op1(OpKind::add, {x, y});
             return {b.op1(OpKind::matmul, {sum, parameter(b, "w", {5, 4})}, {.rule = "m k, k n -> m n"})};
         }},
        {"a value that several ops read",
         [](Builder& b) -> V {
             const ValueId x = parameter(b, "x", {3, 5}), y = b.op1(OpKind::gelu, {x});
             const ValueId z = b.op1(OpKind::swiglu, {y, b.op1(OpKind::gelu, {y})});
             return {b.op1(OpKind::add, {y, z}), b.op1(OpKind::add, {z, x})};
         }},
        {"bias_add",
         [](Builder& b) -> V {
             return {b.op1(OpKind::bias_add, {parameter(b, "x", {2, 3, 2, 2}), parameter(b, "bias", {2, 2})},
                           {.rule = "b s g e, g e -> b s g e"})};
         }},
        {"cast",
         [](Builder& b) -> V {
             return {b.op1(OpKind::cast, {parameter(b, "x", {3, 5})}, {.dtype = DType::f64})};
         }},
        {"reshard",
         [](Builder& b) -> V {
             return {b.reshard_to(parameter(b, "x", {3, 5}), {})};
         }},
        {"xent_stats",
         [](Builder& b) -> V {
             return b.op(OpKind::xent_stats,
                         {parameter(b, "logits", {2, 3, 7}), ids(b, "targets<7", {2, 3})});
         }},
        {"xent_stats with label smoothing",
         [](Builder& b) -> V {
             return b.op(OpKind::xent_stats, {parameter(b, "logits", {2, 3, 7}), ids(b, "targets<7", {2, 3})},
                         {.alpha = 0.8, .beta = 0.03});
         }},
        {"token_loss with z-loss",
         [](Builder& b) -> V {
             return {b.op1(
                 OpKind::token_loss,
                 {parameter(b, "lse", {2, 3}), parameter(b, "picked", {2, 3}), ids(b, "targets<7", {2, 3})},
                 {.beta = 0.7})};
         }},
        {"dropout",
         [](Builder& b) -> V {
             Attributes attrs{.rate = 0.4};
             attrs.lists.set(Attr::stream, {3, 1});
             const ValueId x = parameter(b, "x", {2, 3, 5}), samples = ids(b, "samples<9", {2, 2});
             return {b.op1(OpKind::dropout, {b.op1(OpKind::gelu, {x}), samples}, attrs)};
         }},
        {"token_loss",
         [](Builder& b) -> V {
             return {b.op1(OpKind::token_loss, {parameter(b, "lse", {2, 3}), parameter(b, "picked", {2, 3}),
                                                ids(b, "targets<7", {2, 3})})};
         }},
    };
}

std::vector<Case> activation_cases()
{
    std::vector<Case> all;
    for (const std::string_view f : names_of_enum<Activation>) {
        const Attributes attributes{.activation = std::string(f)};
        if (!only_gated(*value_named<Activation>(f)))
            all.push_back({str("gelu, ", f), [=](Builder& b) -> std::vector<ValueId> {
                               return {b.op1(OpKind::gelu, {parameter(b, "x", {3, 5})}, attributes)};
                           }});
        all.push_back({str("swiglu, ", f), [=](Builder& b) -> std::vector<ValueId> {
                           return {b.op1(OpKind::swiglu,
                                         {parameter(b, "x", {3, 5}), parameter(b, "y", {3, 5})}, attributes)};
                       }});
    }
    return all;
}

std::vector<Case> cases()
{
    std::vector<Case> all = model_cases();
    for (const std::vector<Case>& more : {activation_cases(), general_cases(), expert_cases()})
        all.insert(all.end(), more.begin(), more.end());
    return all;
}

/// The loss: the sum of all results, each multiplied by a random parameter of its shape. The gradients of
/// these parameters are the results, so the results are checked too.
Graph build(const Case& c)
{
    Graph graph;
    graph.name = "case";
    Builder b(graph);
    ValueId loss;
    int n = 0;
    for (const ValueId y : c.build(b)) {
        std::string dims;
        for (std::size_t d = 0; d < graph[y].type.shape.size(); ++d)
            dims += str(d ? " " : "", "d", d);
        const ValueId weights = parameter(b, str("weights", n++), graph[y].type.shape);
        const ValueId part = b.op1(OpKind::matmul, {y, weights}, {.rule = dims + ", " + dims + " -> ."});
        loss = loss ? b.sum_of(loss, part) : part;
    }
    graph[loss].name = "the loss";
    make_loss_sum(b, loss);
    return graph;
}

/// "ids<7": numbers below 7; some targets are -1. Each microbatch has its own.
std::vector<std::int32_t> content(const Value& value, i64 microbatch)
{
    const RandomStream stream(9, str(value.name, " ", microbatch));
    const auto limit = static_cast<u64>(value.name.back() - '0');
    std::vector<std::int32_t> all;
    for (i64 i = 0; i < value.type.elements(); ++i) {
        const u64 bits = stream.bits_at(static_cast<u64>(i));
        all.push_back(value.name[0] == 't' && i % 3 == 1 ? -1 : static_cast<std::int32_t>(bits % limit));
    }
    return all;
}

} // namespace

TEST_CASE("every op's gradient agrees with finite differences in f64")
{
    for (const Case& c : cases()) {
        INFO(c.name);
        Graph graph = autodiff(build(c), {"the loss"});
        for (const ValueId p : graph.with_role(Role::parameter))
            graph.outputs.push_back(graph.find("grad." + graph[p].name));
        SmallGraph g(std::move(graph), 2, content);
        g.run();
        const std::vector<ValueId> parameters = g.program.graph.with_role(Role::parameter);
        std::vector<reference::Vector> gradients;
        for (const ValueId p : parameters)
            gradients.push_back(g.fetched("grad." + g.program.graph[p].name));
        for (std::size_t n = 0; n < parameters.size(); ++n) {
            const std::string& name = g.program.graph[parameters[n]].name;
            INFO(name);
            reference::Vector values = g.read(name), slopes;
            for (double& value : values) {
                const double kept = value, step = 1e-5;
                const auto loss_at = [&](double x) {
                    value = x;
                    g.write(name, values);
                    g.run();
                    return g.executor->fetched("loss_sum");
                };
                const double up = loss_at(kept + step), down = loss_at(kept - step);
                value = kept;
                slopes.push_back((up - down) / (2 * step));
            }
            g.write(name, values);
            CHECK(scaled_difference(gradients[n], slopes) <= 1e-6);
        }
        g.require_planned_is_used();
    }
}

TEST_CASE("every op with a gradient has a case above")
{
    std::set<OpKind> covered;
    for (const Case& c : cases())
        for (const Op& op : build(c).ops)
            covered.insert(op.kind);
    for (const std::string& name : op_names()) {
        const OpInfo* row = find_op(name);
        REQUIRE(row);
        INFO(name);
        if (row->communicates || row->gradient == gradients::none) // needs ranks; makes nothing
            continue;
        CHECK((!row->gradient || covered.count(row->kind) == 1));
    }
}

TEST_CASE("a loss that reaches a parameter through an op without gradient is refused")
{
    Graph graph;
    graph.name = "dead end";
    Builder b(graph);
    const ValueId x = parameter(b, "x", {2, 3, 4});
    const ValueId row = b.value("row", {DType::i32, {2}}, Role::input);
    const ValueId picked = b.op1(OpKind::select_row, {x, row});
    b.op1(OpKind::matmul, {picked, parameter(b, "w", {2, 4})}, {.rule = "b d, b d -> ."}, "loss");
    CHECK_THROWS_AS(autodiff(graph, {}), UserError);
    CHECK_THROWS_AS(autodiff(graph, {"no such value"}), UserError);
    CHECK_THROWS_AS(autodiff(graph, {"x"}), UserError); // a parameter is not computed
}
