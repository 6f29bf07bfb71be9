// Text in, text out: each pass on a small graph that can be checked by hand.
#include "base/check.hpp"
#include "golden/golden.hpp"
#include "ir/text/text.hpp"
#include "ir/verify.hpp"
#include "passes/autodiff.hpp"
#include "passes/collectives/bucket.hpp"
#include "passes/fuse.hpp"
#include "passes/group.hpp"
#include "passes/memory/offload.hpp"
#include "passes/optimizer.hpp"
#include "passes/pipeline/stage.hpp"
#include "passes/sharding/partition.hpp"
#include "passes/sharding/propagate.hpp"
#include "passes/simplify.hpp"

#include <functional>

using namespace trivium;

namespace {

struct Levels {
    Level in = Level::global, out = Level::global;
};

void check(const std::string& pass, const std::function<Graph(Graph)>& run, Levels levels = {},
           const std::string& out = "out")
{
    const std::string folder = "golden/passes/" + pass + "/", in = read_text(folder + "in.graph");
    Graph graph = parse_graph(in, folder + "in.graph");
    REQUIRE(to_text(graph) == in); // the files are in the printer's form
    verify(graph, levels.in);
    graph = run(std::move(graph));
    verify(graph, levels.out);
    require_golden(folder + out + ".graph", to_text(graph));
}

} // namespace

TEST_CASE("autodiff, as text")
{
    check("autodiff", [](Graph g) { return autodiff(std::move(g), {}); });
}

TEST_CASE("optimizer, as text")
{
    check("optimizer", [](Graph g) { return add_optimizer(std::move(g), {0.5, 0.1}); });
}

TEST_CASE("group, as text, and once is enough: q, k and v with biases, gate and up, forward and backward")
{
    check("group", group_products, {Level::local, Level::local});
    const Graph once = group_products(parse_graph(read_text("golden/passes/group/in.graph"), ""));
    CHECK(to_text(group_products(once)) == to_text(once));
    CHECK(to_text(parse_graph(to_text(once), "")) == to_text(once));
}

TEST_CASE("offload, as text: the update and a cast on the host, copies at the boundary")
{
    check("offload", offload_optimizer);
}

TEST_CASE("a rank has no casts to the type of their operand, except for outputs")
{
    const Graph graph = without_idle_ops(parse_graph("graph casts\n"
                                                     "input %x : f32[4]\n"
                                                     "%a = negate(%x) : f32[4]\n"
                                                     "%same = cast(%a) {dtype=\"f32\"} : f32[4]\n"
                                                     "%again = cast(%same) {dtype=\"f32\"} : f32[4]\n"
                                                     "%other = cast(%again) {dtype=\"f64\"} : f64[4]\n"
                                                     "%last = cast(%other) {dtype=\"f64\"} : f64[4]\n"
                                                     "output %last\n",
                                                     ""));
    verify(graph, Level::global);
    REQUIRE(graph.ops.size() == 3);
    CHECK(graph[graph.ops[1].operands[0]].name == "a");
    CHECK(graph[graph.ops[2].results[0]].name == "last");
}

TEST_CASE("simplify, as text, and once is enough")
{
    check("simplify", simplify);
    const Graph once = simplify(parse_graph(read_text("golden/passes/simplify/in.graph"), ""));
    CHECK(to_text(simplify(once)) == to_text(once));
}

TEST_CASE(
    "propagate, as text: a layer cut over tensor, its input along the sequence; what disagrees stays whole")
{
    check("propagate", propagate, {Level::global, Level::sharded});
}

TEST_CASE("stage, as text: a tied table, in the first and the last stage")
{
    for (const int stage : {0, 1})
        check(
            "stage",
            [&](const Graph& g) {
                return StageGraphs(g, {{0, 0, 1}, {0, 1}}).of(stage);
            },
            {Level::sharded, Level::sharded}, str("stage", stage));
}

TEST_CASE("partition, as text: two products over tensor, the update over data")
{
    for (const Coordinates& at : {Coordinates{0, 1}, {1, 0}})
        check(
            "partition",
            [&](const Graph& g) {
                return simplify(partition(g, {at, "pipeline"}));
            },
            {Level::sharded, Level::local}, str("data", at[0], "-tensor", at[1]));
}

TEST_CASE("bucket, as text: by bytes, by block, not at all")
{
    const Levels local{Level::local, Level::local};
    check(
        "bucket",
        [](Graph g) {
            return bucket(std::move(g), {Bytes{200}, false});
        },
        local, "bytes200");
    check(
        "bucket", [](Graph g) { return bucket(std::move(g), {}); }, local, "auto");
    for (const BucketConfig& apart : {BucketConfig{0, false}, {0, true}}) // each in its own block here
        check(
            "bucket", [&](Graph g) { return bucket(std::move(g), apart); }, local, "in");
}

TEST_CASE(
    "fuse, as text, and once is enough: ops that are alone, read twice, transposed, wide or partial stay")
{
    check("fuse", fuse, {Level::local, Level::local});
    const Graph once = fuse(parse_graph(read_text("golden/passes/fuse/in.graph"), ""));
    CHECK(to_text(fuse(once)) == to_text(once));
}
