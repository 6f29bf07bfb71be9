// Exchanges of boxes as ops: boxes, bytes and scratch against counts of cells, text, joint axes, and local
// tensors that are empty.
#include "base/check.hpp"
#include "catch.hpp"
#include "ir/builder.hpp"
#include "ir/collectives.hpp"
#include "ir/exchange.hpp"
#include "ir/text/text.hpp"
#include "ir/verify.hpp"

#include <algorithm>
#include <random>

using namespace trivium;

namespace {

Graph parsed(const std::string& text)
{
    Graph graph = parse_graph("graph g\n" + text, "test.graph");
    verify(graph, Level::local);
    CHECK(to_text(parse_graph(to_text(graph), "again.graph")) == to_text(graph));
    return graph;
}

/// Whether the cell is in the box.
bool has(const Box& box, const Shape& cell)
{
    for (std::size_t d = 0; d < cell.size(); ++d)
        if (cell[d] < box.offset[d] || cell[d] >= box.offset[d] + box.shape[d])
            return false;
    return true;
}

} // namespace

TEST_CASE("boxes of an exchange, and what this rank sends")
{
    const char* ops = "input %x : f32[2,4]\nmicrobatch {\n"
                      "  %y = all_to_all(%x) {axis=\"y\", shape=\"4 2\", owned=\"0 0 2 4 2 0 2 4\", "
                      "needed=\"0 0 4 2 0 2 4 2\"} : f32[4,2]\n}\n";
    for (const int rank : {0, 1}) {
        const Graph g = parsed("mesh x=2 y=2\nat x=1 y=" + std::to_string(rank) + "\n" + ops);
        const Op& op = g.ops[0];
        const BoxExchangeShape shape = exchange_of(g, op);
        CHECK(shape.type == DType::f32);
        CHECK(shape.owned == std::vector<Box>{{{0, 0}, {2, 4}}, {{2, 0}, {2, 4}}});
        CHECK(shape.needed == std::vector<Box>{{{0, 0}, {4, 2}}, {{0, 2}, {4, 2}}});
        CHECK(exchange_rank(g, op) == rank);
        CHECK(box_exchange_sent(shape, rank) == 4 * 4);
        CHECK(mean_box_exchange_sent(shape) == 16);
        CHECK(least_scratch_of(g, op) == 64); // what it sends is packed; what it receives are whole rows
        CHECK(info(op).exchanges);
        CHECK(!info(OpKind::all_gather).exchanges);
    }
}

TEST_CASE("a rank's number along joint axes, in the order of ranks, whatever the order of the names")
{
    for (i64 rank = 0; rank < 8; ++rank) {
        Graph g;
        g.mesh.axes = {{"x", 2}, {"y", 2}, {"z", 2}};
        g.at = g.mesh.coordinates(rank);
        for (const auto& [axis, number] : {std::pair<std::string, i64>{"z", rank % 2},
                                           {"x", rank / 4},
                                           {"z+x", rank / 4 * 2 + rank % 2},
                                           {"x+z", rank / 4 * 2 + rank % 2},
                                           {"y+x+z", rank},
                                           {"world", rank}}) {
            Op op;
            op.attrs.edit().axis = axis;
            CHECK(exchange_rank(g, op) == number);
        }
    }
}

TEST_CASE("bytes and common parts of random boxes, cell by cell")
{
    std::mt19937_64 draw(3);
    const auto below = [&](i64 n) { return static_cast<i64>(draw() % static_cast<std::uint64_t>(n)); };
    const auto box = [&] {
        Box made;
        for (int d = 0; d < 3; ++d) {
            made.offset.push_back(below(4));
            made.shape.push_back(below(4));
        }
        return made;
    };
    for (int i = 0; i < 300; ++i) {
        BoxExchangeShape shape{DType::f64, {box(), box(), box()}, {box(), box(), box()}};
        Bytes all = 0;
        for (std::size_t r = 0; r < 3; ++r) {
            Bytes sent = 0;
            for (std::size_t peer = 0; peer < 3; ++peer) {
                i64 cells = 0, last = -1;
                bool run = true; // the cells follow each other in what the rank owns
                for (i64 n = 0; n < element_count(shape.owned[r].shape); ++n) {
                    const Shape& extents = shape.owned[r].shape;
                    const Shape cell{shape.owned[r].offset[0] + n / (extents[1] * extents[2]),
                                     shape.owned[r].offset[1] + n / extents[2] % extents[1],
                                     shape.owned[r].offset[2] + n % extents[2]};
                    if (!has(shape.needed[peer], cell))
                        continue;
                    run = run && (cells == 0 || last == n - 1);
                    last = n;
                    ++cells;
                }
                const auto part = common_part(shape.owned[r], shape.needed[peer]);
                CHECK((part ? element_count(part->shape) : 0) == cells);
                if (part)
                    CHECK(is_contiguous(*part, shape.owned[r]) == run);
                sent += peer == r ? 0 : 8 * cells;
            }
            CHECK(box_exchange_sent(shape, static_cast<int>(r)) == sent);
            all += sent;
        }
        CHECK(mean_box_exchange_sent(shape) == Approx(static_cast<double>(all) / 3));
    }
}

TEST_CASE("the axes of communication that are not those of the mesh")
{
    const Graph g =
        parsed("mesh x=2 y=2 z=1\nat x=0 y=1 z=0\ninput %a : f32[4]\nmicrobatch {\n"
               "  %b = all_reduce(%a) {axis=\"y+x\", combine=\"max\", rule=\"x0 -> x0\"} : f32[4]\n"
               "  %c = all_reduce(%b) {axis=\"x\", combine=\"sum\", rule=\"x0 -> x0\"} : f32[4]\n"
               "  %d = all_gather(%c) {axis=\"x+y\", rule=\"x0 -> y\", dim=\"0\", y=16} : f32[16]\n"
               "  %e = reduce_scatter(%d) {axis=\"world\", combine=\"max\", rule=\"x0 -> y\", dim=\"0\", "
               "y=4} : f32[4]\n"
               "  %f = all_gather(%e) {axis=\"x+y\", rule=\"x0 -> y\", dim=\"0\", y=16} : f32[16]\n}\n");
    CHECK(joint_axes(g) == std::vector<std::string>{"x+y", "y+x"});
}

TEST_CASE("a reduce-scatter states its combiner unless it is a sum")
{
    for (const Combine combine : {Combine::sum, Combine::max, Combine::product}) {
        Graph g;
        g.name = "g";
        g.mesh.axes = {{"x", 2}};
        g.at = {1};
        Builder b(g);
        b.reduce_scatter(b.value("v", {DType::f32, {3}}, Role::input), "x", 0, 1, combine);
        verify(g, Level::local);
        const std::string text = to_text(g);
        CHECK((text.find("combine") == std::string::npos) == (combine == Combine::sum));
        const Graph again = parse_graph(text, "g.graph");
        CHECK(again.ops[0].attrs == g.ops[0].attrs);
    }
}

TEST_CASE("a rank's tensors may be empty, those of all ranks may not")
{
    const std::string ops =
        "input %a : f32[0,4] <x,-> of f32[1,4]\nmicrobatch {\n  %b = gelu(%a) : f32[0,4]\n"
        "  %c = permute(%b) {axis=\"x\", shape=\"1 4\", owned=\"0 0 1 4 1 0 0 4\", "
        "needed=\"0 0 0 4 0 0 1 4\"} : f32[1,4]\n}\n";
    const Graph g = parsed("mesh x=2\nat x=1\n" + ops);
    CHECK(g[g.find("b")].type.bytes() == 0);
    CHECK(bytes_of(g, g.ops[0]) == 0);
    Graph global;
    global.name = "g";
    Builder(global).value("v", {DType::f32, {2, 0}}, Role::input);
    verify(global, Level::local);
    CHECK_THROWS_AS(verify(global, Level::global), UserError);
    CHECK_THROWS_AS(verify(global, Level::sharded), UserError);
}
