// The pass runner: skips by name, verifies, dumps what changed.
#include "base/check.hpp"
#include "catch.hpp"
#include "ir/builder.hpp"
#include "ir/text/text.hpp"
#include "passes/runner.hpp"

#include <filesystem>
#include <unistd.h>

using namespace trivium;

namespace {

Graph one_op(Graph graph)
{
    graph.name = "g";
    Builder b(graph);
    b.op1(OpKind::gelu, {b.value("x", {DType::f32, {2}}, Role::parameter)});
    return graph;
}

Graph broken(Graph graph)
{
    graph.values.back().type.shape = {3};
    return graph;
}

} // namespace

TEST_CASE("a pass runs, or is skipped by name")
{
    PassRunner runner({{"two"}, ""});
    Graph g = runner.run("one", Level::global, {}, one_op);
    g = runner.run("two", Level::global, std::move(g), broken);
    CHECK(g.ops.size() == 1);
    REQUIRE(runner.records().size() == 2);
    CHECK(runner.records()[0].name == "one");
    CHECK_FALSE(runner.records()[0].skipped);
    CHECK(runner.records()[0].seconds >= 0);
    CHECK(runner.records()[1].skipped);
}

TEST_CASE("a pass that breaks the graph is a bug, by name")
{
    PassRunner runner;
    const Graph g = runner.run("one", Level::global, {}, one_op);
    try {
        runner.run("the culprit", Level::global, g, broken);
        FAIL("nothing was thrown");
    } catch (const InternalError& error) {
        CHECK(std::string(error.what()).find("pass 'the culprit' broke the graph") != std::string::npos);
    }
}

TEST_CASE("a graph that a pass changed is dumped under the number and name of the pass")
{
    const std::filesystem::path dir =
        std::filesystem::temp_directory_path() / str("trivium-runner-", getpid());
    PassRunner runner({{}, dir.string()});
    const Graph g = runner.run("one", Level::global, {}, one_op);
    runner.run("same", Level::global, g, [](Graph graph) { return graph; });
    CHECK(runner.records()[0].changed);
    CHECK_FALSE(runner.records()[1].changed);
    CHECK(std::filesystem::exists(dir / "00-one.graph"));
    CHECK_FALSE(std::filesystem::exists(dir / "01-same.graph"));
    std::filesystem::remove_all(dir);
}
