// Ops that read halos, divided into an interior that needs none and the rest.
#include "base/check.hpp"
#include "catch.hpp"
#include "ir/text/text.hpp"
#include "ir/verify.hpp"
#include "passes/local.hpp"
#include "passes/sharding/lookahead.hpp"
#include "passes/sharding/overlap_halos.hpp"
#include "passes/sharding/propagate.hpp"

#include <algorithm>

using namespace trivium;

namespace {

Graph rank_of(const std::string& lines, const std::string& mesh, i64 rank)
{
    const Graph sharded = propagate(parse_graph("graph g\nmesh " + mesh + "\n" + lines, "g"));
    const PartitionConfig config{sharded.mesh.coordinates(rank), pipeline_axis, true, {}, {}};
    PassRunner runner;
    return part_of_rank(look_ahead(sharded, config), config, nullptr, "", runner);
}

std::vector<std::size_t> all_of(const Graph& g, OpKind kind)
{
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < g.ops.size(); ++i)
        if (g.ops[i].kind == kind)
            found.push_back(i);
    return found;
}

const std::string image = "input %x : f64[2,3,12,10] <-,-,x,y>\nparameter %w : f64[4,3,3,3]\n";
const std::string one =
    image + "%y = convolution(%x, %w) {low=\"1 1\", high=\"1 1\"} : f64[2,4,12,10]\noutput %y\n";
const std::string both =
    image +
    "input %dy : f64[2,4,12,10] <-,-,x,->\n"
    "%dx = convolution_grad_x(%dy, %w) {low=\"1 1\", high=\"1 1\", shape=\"2 3 12 10\"} : f64[2,3,12,10]\n"
    "%dw = convolution_grad_w(%dy, %x) {low=\"1 1\", high=\"1 1\", shape=\"4 3 3 3\", by_input=1} : "
    "f64[4,3,3,3]\n"
    "output %dx\noutput %dw\n";

/// Elements of the results of the convolutions that do not need the halo.
i64 without_halo(const Graph& g)
{
    const ValueId halo = g.ops[all_of(g, OpKind::halo).at(0)].results[0];
    std::vector<bool> late(g.values.size(), false);
    late[halo.index()] = true;
    i64 elements = 0;
    for (const Op& op : g.ops) {
        const bool waits = std::ranges::any_of(op.operands, [&](ValueId v) { return late[v.index()]; });
        for (const ValueId v : op.results)
            late[v.index()] = late[v.index()] || waits;
        if (op.kind == OpKind::convolution && !waits)
            elements += g[op.results[0]].type.elements();
    }
    return elements;
}

} // namespace

TEST_CASE("the interior of a convolution needs no halo")
{
    // Of 6 x 10, 4 x 10 and 4 x 5 points of a rank, those whose windows reach no other rank.
    for (const auto& [mesh, rank, interior] : {std::tuple{"x=2 y=1", 0, 5 * 10},
                                               {"x=3 y=1", 1, 2 * 10},
                                               {"x=3 y=2", 2, 2 * 4},
                                               {"x=3 y=2", 0, 3 * 4}}) {
        const Graph whole = rank_of(one, mesh, rank), divided = overlap_halos(whole);
        INFO(mesh << " rank " << rank << "\n" << to_text(divided));
        verify(divided, Level::local);
        CHECK(without_halo(whole) == 0);
        CHECK(without_halo(divided) == 2 * 4 * interior);
        CHECK(all_of(divided, OpKind::halo).size() == 1);
        CHECK(divided[divided.find("y")].type == whole[whole.find("y")].type);
    }
}

TEST_CASE("nothing is divided that has no interior")
{
    const Graph whole = rank_of(one, "x=12 y=1", 5);
    CHECK(to_text(overlap_halos(whole)) == to_text(whole));
}

TEST_CASE("an interior comes before all that reads the halo")
{
    const Graph divided = overlap_halos(rank_of(both, "x=2 y=1", 0));
    INFO(to_text(divided));
    verify(divided, Level::local);
    const std::vector<std::size_t> x = all_of(divided, OpKind::convolution_grad_x),
                                   w = all_of(divided, OpKind::convolution_grad_w);
    REQUIRE(x.size() == 2);
    CHECK(w.size() == 1);
    CHECK(all_of(divided, OpKind::halo).size() == 1);
    CHECK(all_of(divided, OpKind::halo)[0] < x[0]);
}

TEST_CASE("ops are divided where they then end earlier")
{
    const Graph whole = rank_of(both, "x=2 y=1", 0);
    const auto convolutions = [&](double halo) {
        const Graph divided = overlap_halos(whole, [&](const Graph& g) {
            std::vector<Seconds> seconds;
            for (const Op& op : g.ops) // only they take time
                seconds.push_back(op.kind == OpKind::halo ? halo
                                  : op.kind == OpKind::convolution_grad_x
                                      ? static_cast<double>(g[op.results[0]].type.elements())
                                      : 0);
            return seconds;
        });
        return all_of(divided, OpKind::convolution_grad_x).size() +
               all_of(divided, OpKind::convolution_grad_w).size();
    };
    CHECK(convolutions(0) == 2);
    CHECK(convolutions(1e6) == 3);
}
