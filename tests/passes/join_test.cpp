// Reductions along one axis after the other, joined.
#include "catch.hpp"
#include "has.hpp"
#include "ir/text/text.hpp"
#include "ir/verify.hpp"
#include "passes/collectives/join.hpp"

using namespace trivium;

namespace {

/// `first` and `second`: combiners; `more`: further lines.
std::string joined_text(const std::string& first, const std::string& second, const std::string& axis,
                        const std::string& more)
{
    const std::string text = "graph g\nmesh x=2 y=3 z=2\nat x=0 y=0 z=0\ninput %a : f32[4]\nmicrobatch {\n"
                             "%b = all_reduce(%a) {axis=\"y\", combine=\"" +
                             first + "\", rule=\"a -> a\"} : f32[4]\n%c = all_reduce(%b) {axis=\"" + axis +
                             "\", combine=\"" + second + "\", rule=\"a -> a\"} : f32[4]\n" + more +
                             "}\noutput %c\n";
    const Graph graph = join_reductions(parse_graph(text, "g"));
    verify(graph, Level::local);
    return to_text(graph);
}

} // namespace

TEST_CASE("reductions along two axes become one, in the mesh's order")
{
    const std::string text = joined_text("sum", "sum", "x", "");
    INFO(text);
    CHECK(has(text, "%c = all_reduce(%a) {axis=\"x+y\""));
    CHECK(!has(text, "%b"));
    const std::string three = joined_text(
        "max", "max", "z", "%d = all_reduce(%c) {axis=\"x\", combine=\"max\", rule=\"a -> a\"} : f32[4]\n");
    INFO(three);
    CHECK(has(three, "%c = all_reduce(%a) {axis=\"y+z\"")); // %c is an output
    CHECK(has(three, "%d = all_reduce(%c) {axis=\"x\""));
}

TEST_CASE("reductions stay apart if they differ, or if the first result is read")
{
    CHECK(has(joined_text("sum", "max", "x", ""), "%c = all_reduce(%b)"));
    CHECK(has(joined_text("sum", "sum", "y", ""), "%c = all_reduce(%b)"));
    CHECK(has(joined_text("sum", "sum", "x", "%d = gelu(%b) : f32[4]\n"), "%c = all_reduce(%b)"));
}
