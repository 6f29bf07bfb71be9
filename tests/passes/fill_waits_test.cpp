// Gradients of weights behind the collectives of a backward pass.
#include "base/check.hpp"
#include "catch.hpp"
#include "ir/text/text.hpp"
#include "ir/verify.hpp"
#include "passes/collectives/fill_waits.hpp"

#include <algorithm>

using namespace trivium;

namespace {

/// Two layers of which `tensor` shards the inner width: %g is what the backward pass of layer 1 begins with.
const std::string text = R"(graph g
mesh tensor=2
at tensor=0
input %g : f32[8,4]
input %x : f32[8,4]
parameter %w : f32[4,4] init fill(value=1.0)
carry %acc.a : f32[4,4]
carry %acc.b : f32[4,4]
microbatch {
  @ backward block 1
  %a = matmul(%g, %w) {rule="m n, k n -> m k"} : f32[8,4]<-,-|tensor:sum>
  %da = matmul(%x, %g) {rule="m k, m n -> k n"} : f32[4,4]
  %sum.a = accumulate(%da) += %acc.a : f32[4,4]
  %ra = all_reduce(%a) {axis="tensor", combine="sum", rule="x0 x1 -> x0 x1"} : f32[8,4]
  @ backward block 0
  %s = tanh(%ra) : f32[8,4]
  %b = matmul(%s, %w) {rule="m n, k n -> m k"} : f32[8,4]<-,-|tensor:sum>
  %db = matmul(%x, %s) {rule="m k, m n -> k n"} : f32[4,4]
  %sum.b = accumulate(%db) += %acc.b : f32[4,4]
  %rb = all_reduce(%b) {axis="tensor", combine="sum", rule="x0 x1 -> x0 x1"} : f32[8,4]
  %t = tanh(%rb) : f32[8,4]
}
carried %acc.a -> %sum.a
carried %acc.b -> %sum.b
output %t
)";

/// Names of the first results, in order.
std::string order_of(const Graph& g)
{
    std::string names;
    for (const Op& op : g.ops)
        names += (names.empty() ? "" : " ") + g[op.results[0]].name;
    return names;
}

/// Every op takes a second, a collective `wait`.
OverlapSeconds lasting(Seconds wait)
{
    return [wait](const Graph& g) {
        std::vector<Seconds> seconds;
        for (const Op& op : g.ops)
            seconds.push_back(info(op).communicates ? wait : 1);
        return seconds;
    };
}

} // namespace

TEST_CASE("gradients of weights are computed while a backward pass waits, no more of them than needed")
{
    const Graph before = parse_graph(text, "g");
    const auto order = [&](Seconds wait) {
        const Graph after = fill_waits(before, lasting(wait));
        verify(after, Level::local);
        for (std::size_t i = 0; i < after.ops.size(); ++i)
            for (const ValueId v : after.ops[i].results)
                REQUIRE(after[v].producer == OpId(i));
        return order_of(after);
    };
    CHECK(order(10) == "a ra da sum.a s b rb db sum.b t");
    CHECK(order(0.5) == "a da ra sum.a s b db rb sum.b t");
    CHECK(order(0) == order_of(before));
    CHECK(order_of(fill_waits(fill_waits(before, lasting(10)), lasting(10))) == order(10));
}

TEST_CASE("what a collective waits for, and forward passes, stay where they are")
{
    std::string forward = text;
    for (const char* block : {"backward block 1", "backward block 0"})
        forward.replace(forward.find(block), 8, "forward");
    const Graph g = parse_graph(forward, "g");
    CHECK(order_of(fill_waits(g, lasting(10))) == order_of(g));
    std::string needed = text; // the second product reads the gradient of the weight
    needed.replace(needed.find("%b = matmul(%s, %w)"), 19, "%b = matmul(%s, %da)");
    CHECK(order_of(fill_waits(parse_graph(needed, "g"), lasting(10))) == "a da ra sum.a s b rb db sum.b t");
    std::string other = text; // an op of another phase reads it
    other.insert(other.find("  %ra ="),
                 "  @ weights block 1\n  %late = tanh(%da) : f32[4,4]\n  @ backward block 1\n");
    const Graph filled = fill_waits(parse_graph(other, "g"), lasting(10));
    verify(filled, Level::local);
    CHECK(order_of(filled) == "a da late ra sum.a s b rb db sum.b t");
}
