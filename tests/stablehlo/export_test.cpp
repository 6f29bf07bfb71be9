// A graph as StableHLO text, read again, computes the same.
#include "base/check.hpp"
#include "catch.hpp"
#include "has.hpp"
#include "ir/ops/op_table.hpp"
#include "ir/text/text.hpp"
#include "jax_cases.hpp"
#include "plan/graph_file.hpp"
#include "programs/compare.hpp"
#include "programs/draw_tensors.hpp"
#include "programs/op_batches.hpp"
#include "programs/runs.hpp"
#include "stablehlo/import.hpp"

#include <algorithm>
#include <set>

using namespace trivium;

namespace {

Graph round_trip(const Graph& graph) { return import_hlo(export_hlo(graph), "exported.mlir").graph; }

std::vector<ComparedOutput> outputs_of(const Graph& graph, const Tensors& tensors)
{
    runs::start_runtime();
    return runs::comparison_on_threads(sharded_graph(read_graph(to_text(graph), "program")),
                                       [&](const Value& value, const Box& box, std::byte* to) {
                                           copy_box(value.type, tensors.at(value.name).data(), box, to);
                                       })
        .outputs;
}

double largest_difference(const Graph& graph)
{
    const Tensors tensors = draw_tensors(graph, 1);
    const std::vector<ComparedOutput> before = outputs_of(graph, tensors),
                                      after = outputs_of(round_trip(graph), tensors);
    REQUIRE(before.size() == after.size());
    double largest = 0;
    for (std::size_t i = 0; i < before.size(); ++i) {
        REQUIRE(before[i].type == after[i].type);
        const Box all{Shape(before[i].type.shape.size(), 0), before[i].type.shape};
        const double d = difference(before[i].type, before[i].whole.data(), all, after[i].whole.data());
        INFO(before[i].name << " differs by " << d);
        CHECK(d < 1e-5);
        largest = std::max(largest, d);
    }
    return largest;
}

} // namespace

TEST_CASE("every general op as StableHLO, and back")
{
    const std::vector<OpCase> cases = op_cases();
    std::vector<OpProgram> all;
    std::set<std::string> refused;
    for (const OpCase& c : cases) {
        const OpProgram program{&c, std::vector<Sharding>(types_of(c).size())};
        try {
            export_hlo(read_graph(text_of(program, {}, 0), "case"));
            all.push_back(program);
        } catch (const UserError& error) {
            const std::string what = error.what(); // "…: cannot export NAME\n  reason: …"
            const std::size_t at = what.find("cannot export ");
            INFO(c.name << ": " << what);
            REQUIRE(at != std::string::npos);
            refused.insert(what.substr(at + 14, what.find('\n', at) - at - 14));
        }
    }
    CHECK(all.size() > 150);
    std::string names;
    for (const std::string& name : refused)
        names += name + " ";
    CHECK(names == "gather pool_grad scale_rows_grad_rows scale_rows_grad_w scatter softcap_grad ");
    largest_difference(read_graph(text_of(all, {}), "all cases"));
}

TEST_CASE("functions of JAX as graphs, as StableHLO, and back")
{
    for (const jax::Case& c : jax::read_cases(TRIVIUM_TEST_DATA "/stablehlo/jax")) {
        const Graph graph = import_hlo(c.text, c.name + ".mlir").graph;
        INFO(c.name);
        if (std::ranges::any_of(graph.ops, [](const Op& op) { return info(op).manual; })) {
            CHECK_THROWS_AS(export_hlo(graph), UserError);
            continue;
        }
        const Graph again = round_trip(graph);
        CHECK(again.mesh == graph.mesh);
        for (std::size_t i = 0; i < graph.values.size() && !graph.values[i].producer; ++i) {
            CHECK(again.values[i].name == graph.values[i].name);
            CHECK(again.values[i].sharding == graph.values[i].sharding);
        }
        largest_difference(unpartitioned(graph));
    }
}

TEST_CASE("blocks of models as StableHLO, and back")
{
    largest_difference(read_graph(R"(graph blocks
input %tokens : i32[2,5]
parameter %table : f32[12,8]
parameter %g : f32[8]
parameter %b : f32[8]
parameter %w : f32[8,16]
parameter %v : f32[16,12]
constant %half : f32[2,5,8] init fill(value=0.5)
%x = embedding(%table, %tokens) : f32[2,5,8]
%n, %mean, %rstd = layer_norm(%x, %g, %b) {eps=1e-5} : f32[2,5,8], f32[2,5], f32[2,5]
%m, %root = rms_norm(%n, %g) {eps=1e-6, offset=1.0} : f32[2,5,8], f32[2,5]
%h = multiply(%m, %half) : f32[2,5,8]
%u = matmul(%h, %w) {rule="b s d, d f -> b s f"} : f32[2,5,16]
%p, %q = split(%u) {rule="b s f -> b s f0, b s f1 | f f0 f1", f0=8, f1=8} : f32[2,5,8], f32[2,5,8]
%glu = swiglu(%p, %q) : f32[2,5,8]
%tanh = gelu(%p) {activation="gelu-tanh"} : f32[2,5,8]
%exact = gelu(%q) {activation="gelu"} : f32[2,5,8]
%all = concat(%glu, %tanh) {rule="b s f0, b s f1 -> b s f | f f0 f1", f=16} : f32[2,5,16]
%logits = matmul(%all, %v) {rule="b s f, f v -> b s v"} : f32[2,5,12]
%capped = softcap(%logits) {cap=3.0} : f32[2,5,12]
%lse, %picked = xent_stats(%capped, %tokens) {alpha=0.9, beta=0.01} : f32[2,5], f32[2,5]
%loss = token_loss(%lse, %picked, %tokens) {beta=0.001} : f32[2,5]
%total = sum(%loss) : f64[]
output %total
output %exact
output %rstd
output %mean
)",
                                  "blocks"));
}

TEST_CASE("annotations survive")
{
    const Graph graph = read_graph(R"(graph annotated
mesh x=4 y=2
input %a : f32[8,16] <x:(1)2@1,y?>
input %b : f32[8,16] <|y:replicated>
input %c : f32[8,16] <x+y,-|>
%d = add(%a, %b) : f32[8,16] <x,?>
%e = reshard(%d) : f32[8,16] <-,x>
%f = add(%e, %c) : f32[8,16]
output %f
)",
                                   "annotated");
    const Graph again = round_trip(graph);
    for (const char* name : {"a", "b", "c"})
        CHECK(again[again.find(name)].sharding == graph[graph.find(name)].sharding);
    CHECK(again[again.find("add")].sharding == graph[graph.find("d")].sharding);
    CHECK(again[again.find("reshard")].sharding == graph[graph.find("e")].sharding);
}
