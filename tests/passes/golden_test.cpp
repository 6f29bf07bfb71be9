// Text in, text out: each pass on a small graph that a person can check.
#include "base/check.hpp"
#include "golden/golden.hpp"
#include "ir/text.hpp"
#include "ir/verify.hpp"
#include "passes/autodiff.hpp"
#include "passes/optimizer.hpp"
#include "passes/simplify.hpp"

#include <functional>

using namespace trivium;

namespace {

void check(const std::string& pass, const std::function<Graph(Graph)>& run)
{
    const std::string folder = "golden/passes/" + pass + "/", in = read_text(folder + "in.graph");
    Graph graph = parse_graph(in, folder + "in.graph");
    REQUIRE(to_text(graph) == in); // the files are in the printer's form
    verify(graph, Level::global);
    graph = run(std::move(graph));
    verify(graph, Level::global);
    require_golden(folder + "out.graph", to_text(graph));
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

TEST_CASE("simplify, as text, and once is enough")
{
    check("simplify", simplify);
    const Graph once = simplify(parse_graph(read_text("golden/passes/simplify/in.graph"), ""));
    CHECK(to_text(simplify(once)) == to_text(once));
}
