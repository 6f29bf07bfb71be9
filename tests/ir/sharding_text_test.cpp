// The text form of shardings, and the checks of each level of verify.
#include "base/check.hpp"
#include "catch.hpp"
#include "ir/builder.hpp"
#include "ir/text/text.hpp"
#include "ir/verify.hpp"

#include <random>

using namespace trivium;

namespace {

Graph with(const Sharding& sharding, Shape shape)
{
    Graph graph;
    graph.name = "g";
    graph.mesh.axes = {{"data", 2}, {"tensor", 2}};
    Builder b(graph);
    const ValueId x = b.value("x", {DType::f32, std::move(shape)}, Role::parameter, FillInit{1.0});
    graph[x].sharding = sharding;
    graph[b.op1(OpKind::gelu, {x}, {}, "y")].sharding = sharding;
    return graph;
}

bool legal(const Graph& graph, Level level)
{
    try {
        verify(graph, level);
    } catch (const UserError&) {
        return false;
    }
    return true;
}

const DimSharding whole{{}, false}, over_data{{"data"}, false}, over_tensor{{"tensor"}, false}, open{};

} // namespace

TEST_CASE("a sharding's text")
{
    CHECK(to_text(Sharding{}) == "");
    CHECK(to_text(Sharding{{whole, over_data}, {}, ""}) == "<-,data>");
    CHECK(to_text(Sharding{{open, {{"tensor", "data"}, true}, {{"pod"}, false}}, {}, ""}) ==
          "<-?,tensor+data?,pod>");
    CHECK(to_text(Sharding{{over_data}, {{"tensor", Combine::lse}}, "a rule"}) == "<data|tensor:lse>");
    CHECK(to_text(Sharding{{}, {{"tensor"}, {"data"}}, ""}) == "<|tensor:sum data:sum>");
    // With blanks wherever they are allowed, and an initialiser after it.
    const Graph g = parse_graph("graph g\nmesh data=2 tensor=2\nparameter %x : f32[4,8] < data , tensor + "
                                "data ? | pod : lse > init fill(value=1.0) decay\n",
                                "g");
    CHECK(g.values[0].sharding->dims == std::vector<DimSharding>{over_data, {{"tensor", "data"}, true}});
    CHECK(g.values[0].sharding->partial == std::vector<Partial>{{"pod", Combine::lse}});
    CHECK(g.values[0].init == Init{FillInit{1}});
    CHECK(g.values[0].decay);
}

TEST_CASE("rows of matrices and of stacks of them print and parse back")
{
    Graph g;
    g.name = "g";
    Builder b(g);
    const ValueId matrix = b.value("m", {DType::f32, {4, 8}}, Role::parameter),
                  stack = b.value("s", {DType::f32, {3, 4, 2, 8}}, Role::parameter);
    g[matrix].rows = 1;
    g[stack].rows = 2;
    g[stack].stack = 1;
    const std::string text = to_text(g);
    CHECK(text.find("stack 1 rows 2") != std::string::npos);
    const Graph again = parse_graph(text, "g");
    CHECK((again.values[0].rows == 1 && again.values[0].stack == 0));
    CHECK((again.values[1].rows == 2 && again.values[1].stack == 1));
    CHECK(to_text(again) == text);
}

TEST_CASE("the angles of a rotary table print and parse back, without members that have their usual values")
{
    const auto printed = [](const RopeTableInit& init) {
        Graph g;
        g.name = "table";
        Builder(g).value("table", {DType::f32, {4, 2, 2}}, Role::constant, init);
        const std::string text = to_text(g);
        const Graph again = parse_graph(text, "table");
        CHECK(again.values[0].init == Init{init});
        verify(again, Level::global);
        return text.substr(text.find("rope_table"), text.rfind(')') + 1 - text.find("rope_table"));
    };
    const std::string plain =
        "rope_table(theta=500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, "
        "original_seq=64";
    const RopeAngles angles{.theta = 500, .scaling = llama3_scaling(8, 1, 4, 64)};
    CHECK(printed({angles}) == plain + ")");
    RopeAngles all = angles;
    all.seq = 128;
    all.scaling = {RopeKind::longrope, 8, 1, 4, 64, 16, 2, 1.25, 0.5, 0.75, false, {1, 1.5}, {1e-3, 64}};
    CHECK(printed({all}) ==
          plain + ", kind=\"longrope\", beta_fast=16.0, beta_slow=2.0, attention_factor=1.25, mscale=0.5, "
                  "mscale_all_dim=0.75, truncate=0, seq=128, short_factors=\"1.0 1.5\", "
                  "long_factors=\"0.001 64.0\")");
}

TEST_CASE("any sharding prints and parses back")
{
    std::mt19937_64 draw(4);
    const auto below = [&](u64 n) { return draw() % n; };
    for (int round = 0; round < 300; ++round) {
        Sharding sharding;
        Shape shape;
        for (u64 d = below(4); d > 0; --d) {
            DimSharding dim;
            dim.open = below(2) == 0;
            for (u64 a = below(3); a > 0; --a)
                dim.axes.push_back(std::string(below(2) ? "data" : "axis_") + std::to_string(below(9)));
            sharding.dims.push_back(dim);
            shape.push_back(static_cast<i64>(1 + below(9)));
        }
        for (u64 p = below(3); p > 0; --p)
            sharding.partial.push_back(
                {std::string("axis") + std::to_string(below(9)), static_cast<Combine>(below(5))});
        const Graph graph = with(sharding, shape), back = parse_graph(to_text(graph), "printed");
        REQUIRE(to_text(back) == to_text(graph));
        REQUIRE(back.values.size() == 2);
        for (const Value& v : back.values) { // with and without a producer
            REQUIRE(v.sharding->dims == sharding.dims);
            REQUIRE(v.sharding->partial == sharding.partial);
        }
    }
}

TEST_CASE("the requirements of each level on shardings")
{
    using L = Level;
    const auto levels = [](const Graph& graph) {
        return std::vector<bool>{legal(graph, L::global), legal(graph, L::sharded), legal(graph, L::local)};
    };
    using Levels = std::vector<bool>;
    CHECK(levels(with({}, {4, 4})) ==
          Levels{true, false, true}); // after propagation every dimension is closed
    CHECK(levels(with({{over_data, whole}, {}, ""}, {4, 4})) == Levels{true, true, true});
    CHECK(levels(with({{over_data, open}, {}, ""}, {4, 4})) == Levels{true, true, true});
    CHECK(levels(with({{over_data}, {}, ""}, {4, 4})) ==
          Levels{false, false, false}); // a dimension is missing
    CHECK(levels(with({{over_data, over_data}, {}, ""}, {4, 4})) == Levels{false, false, false});
    CHECK(levels(with({{{{"pod"}, false}}, {}, ""}, {4})) == Levels{false, false, false});
    CHECK(levels(with({{{{"data", "tensor"}, false}}, {}, ""}, {4})) == Levels{true, true, true});
    CHECK(levels(with({{{{"data", "tensor"}, false}}, {}, ""}, {3})) ==
          Levels{false, false, true}); // locally, 3 is the size of a part
    CHECK(levels(with({{whole}, {{"tensor"}}, ""}, {4})) == Levels{true, true, true});
    CHECK(levels(with({{over_data}, {{"data"}}, ""}, {4})) ==
          Levels{false, false, true}); // partial over what shards it
}
