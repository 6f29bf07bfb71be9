// Moves from any layout to any other, simulated on all ranks with plain arrays.
#include "catch.hpp"
#include "ir/verify.hpp"
#include "passes/moves.hpp"

#include <algorithm>
#include <cmath>
#include <random>

using namespace trivium;

namespace {

using Draw = std::mt19937_64;

i64 below(Draw& draw, i64 n) { return static_cast<i64>(draw() % static_cast<u64>(n)); }

/// One rank's part of a tensor.
struct Array {
    Shape shape;
    std::vector<double> cells;
};

struct Problem {
    Mesh mesh;
    Shape whole;
    Layout from;
    Cuts to;
};

Sharding sharded(const Cuts& cuts)
{
    Sharding s;
    for (const auto& axes : cuts)
        s.dims.push_back({axes, false});
    return s;
}

/// Each axis cuts a random dimension, or none, or (where `partial` is given) is one to combine over.
Cuts random_cuts(Draw& draw, const Mesh& mesh, const Shape& whole, std::vector<Partial>* partial)
{
    Cuts cuts(whole.size());
    std::vector<MeshAxis> axes = mesh.axes;
    std::shuffle(axes.begin(), axes.end(), draw);
    const std::string combine = below(draw, 4) == 0 ? "lse" : "sum";
    for (const MeshAxis& axis : axes) {
        const i64 choice = below(draw, static_cast<i64>(whole.size()) + 2);
        if (choice < static_cast<i64>(whole.size())) {
            const auto d = static_cast<std::size_t>(choice);
            i64 parts = axis.size;
            for (const std::string& other : cuts[d])
                parts *= mesh.size(other);
            if (parts <= whole[d])
                cuts[d].push_back(axis.name);
        } else if (partial && choice == static_cast<i64>(whole.size())) {
            partial->push_back({axis.name, combine});
        }
    }
    return cuts;
}

Problem random_problem(u64 seed)
{
    Draw draw(seed);
    Problem p;
    p.mesh.axes = {{"data", 2}, {"tensor", 3}};
    if (seed % 3 == 0)
        p.mesh.axes.push_back({"expert", 2});
    for (i64 d = 1 + below(draw, 3); d > 0; --d)
        p.whole.push_back(1 + below(draw, 13));
    p.from.cuts = random_cuts(draw, p.mesh, p.whole, &p.from.partial);
    p.to = random_cuts(draw, p.mesh, p.whole, nullptr);
    return p;
}

/// The whole tensor's number at a cell.
double truth(i64 cell) { return 1 + static_cast<double>(cell % 23) + static_cast<double>(cell % 7) / 8; }

/// What the rank at `at` holds of `truth`, cell by cell.
Array part_of_truth(const Problem& p, const Cuts& cuts, const Coordinates& at)
{
    const Box box = box_of(p.whole, sharded(cuts), p.mesh, at);
    Array array{box.shape, {}};
    for (i64 i = 0; i < element_count(box.shape); ++i) {
        i64 rest = i, cell = 0, stride = 1;
        for (std::size_t d = p.whole.size(); d-- > 0; rest /= box.shape[d], stride *= p.whole[d])
            cell += (box.offset[d] + rest % box.shape[d]) * stride;
        array.cells.push_back(truth(cell));
    }
    return array;
}

/// How the ranks hold it at first: of a partial value, each has a share that depends on where it stands on those axes.
Array first_part(const Problem& p, i64 rank)
{
    const Coordinates at = p.mesh.coordinates(rank);
    Array array = part_of_truth(p, p.from.cuts, at);
    std::vector<std::string> axes;
    for (const Partial& partial : p.from.partial)
        axes.push_back(partial.axis);
    if (axes.empty())
        return array;
    const std::vector<i64> group = p.mesh.group(at, axes);
    const auto n = static_cast<double>(group.size());
    const auto mine = static_cast<double>(std::find(group.begin(), group.end(), rank) - group.begin() + 1);
    const double share = 2 * mine / (n * (n + 1)); // shares of 1, 2, 3, … n add up to one
    for (double& cell : array.cells)
        cell = p.from.partial[0].combine == "sum" ? share * cell : cell + std::log(share);
    return array;
}

std::size_t inner_of(const Shape& shape, std::size_t dim)
{
    return static_cast<std::size_t>(element_count(Shape(shape.begin() + static_cast<std::ptrdiff_t>(dim) + 1, shape.end())));
}

/// Rows [begin, begin + size) of dimension `dim`.
Array rows(const Array& x, std::size_t dim, Stretch part)
{
    Array y{x.shape, {}};
    y.shape[dim] = part.size;
    const std::size_t inner = inner_of(x.shape, dim), extent = static_cast<std::size_t>(x.shape[dim]);
    for (std::size_t i = 0; i < x.cells.size(); ++i) {
        const auto row = static_cast<i64>(i / inner % extent);
        if (row >= part.begin && row < part.begin + part.size)
            y.cells.push_back(x.cells[i]);
    }
    return y;
}

Array joined(const std::vector<const Array*>& parts, std::size_t dim)
{
    Array y{parts[0]->shape, {}};
    y.shape[dim] = 0;
    for (const Array* part : parts)
        y.shape[dim] += part->shape[dim];
    const std::size_t inner = inner_of(y.shape, dim);
    const std::size_t outer = y.shape[dim] == 0 ? 0 : static_cast<std::size_t>(element_count(y.shape)) / inner / static_cast<std::size_t>(y.shape[dim]);
    for (std::size_t o = 0; o < outer; ++o)
        for (const Array* part : parts) {
            const std::size_t run = static_cast<std::size_t>(part->shape[dim]) * inner;
            for (std::size_t i = 0; i < run; ++i)
                y.cells.push_back(part->cells[o * run + i]);
        }
    return y;
}

Array combined(const std::vector<const Array*>& parts, const std::string& combine)
{
    Array y = *parts[0];
    for (std::size_t i = 0; i < y.cells.size(); ++i) {
        double total = 0;
        for (const Array* part : parts) {
            REQUIRE(part->shape == y.shape);
            total += combine == "sum" ? part->cells[i] : std::exp(part->cells[i]);
        }
        y.cells[i] = combine == "sum" ? total : std::log(total);
    }
    return y;
}

/// Runs op `n` of each rank's graph at once, as its attributes say.
void run_op(const std::vector<Graph>& graphs, std::size_t n, std::vector<Array>& held)
{
    const std::vector<Array> before = held;
    for (std::size_t rank = 0; rank < graphs.size(); ++rank) {
        const Graph& g = graphs[rank];
        const Op& op = g.ops[n];
        const std::string name = info(op).name;
        REQUIRE(name == info(graphs[0].ops[n]).name);
        const Array& mine = before[rank];
        REQUIRE(g[op.operands[0]].type.shape == mine.shape);
        const std::size_t dim = has_attr(op.attrs, "dim") ? static_cast<std::size_t>(std::stoi(text_attr(op.attrs, "dim"))) : 0;
        if (name == "slice") {
            held[rank] = rows(mine, dim, {int_attr(op.attrs, "offset"), g[op.results[0]].type.shape[dim]});
        } else {
            const std::string& axis = text_attr(op.attrs, "axis");
            std::vector<const Array*> parts;
            for (const i64 member : g.mesh.group(g.at, {axis}))
                parts.push_back(&before[static_cast<std::size_t>(member)]);
            const i64 place = g.at[static_cast<std::size_t>(g.mesh.find(axis))];
            if (name == "all_gather")
                held[rank] = joined(parts, dim);
            else if (name == "all_reduce")
                held[rank] = combined(parts, text_attr(op.attrs, "combine"));
            else if (name == "reduce_scatter")
                held[rank] = rows(combined(parts, "sum"), dim, part_of(mine.shape[dim], g.mesh.size(axis), place));
            else
                FAIL("a move made the op " << name);
        }
        REQUIRE(g[op.results[0]].type.shape == held[rank].shape);
    }
}

double sent_by(const Graph& g, const Op& op)
{
    const std::string name = info(op).name;
    if (name == "slice")
        return 0;
    const auto n = static_cast<double>(g.mesh.size(text_attr(op.attrs, "axis")));
    const auto in = static_cast<double>(g[op.operands[0]].type.elements()), out = static_cast<double>(g[op.results[0]].type.elements());
    return (name == "all_gather" ? out : name == "all_reduce" ? 2 * in : in) * (n - 1) / n;
}

} // namespace

TEST_CASE("the moves from any layout to any other give each rank what it wants")
{
    int with_each[4] = {};
    for (u64 seed = 0; seed < 3000; ++seed) {
        const Problem p = random_problem(seed);
        INFO("seed " << seed);
        const std::vector<Move> moves = moves_between(p.from, p.to, p.mesh);
        for (const Move& move : moves)
            ++with_each[static_cast<int>(move.kind)];
        std::vector<Graph> graphs(static_cast<std::size_t>(p.mesh.ranks()));
        std::vector<Array> held;
        double sent = 0;
        for (i64 rank = 0; rank < p.mesh.ranks(); ++rank) {
            Graph& g = graphs[static_cast<std::size_t>(rank)];
            g.name = "moves";
            g.mesh = p.mesh;
            g.at = p.mesh.coordinates(rank);
            Builder b(g);
            const TensorType type = local_type({DType::f64, p.whole}, p.from.cuts, p.mesh, g.at);
            const ValueId x = b.value("x", type, Role::input);
            g[x].sharding = sharded(p.from.cuts);
            g[x].sharding.partial = p.from.partial;
            const ValueId y = emit_moves(b, x, moves, p.from, {DType::f64, p.whole}, g.at);
            REQUIRE(cuts_of(g[y].sharding) == p.to);
            REQUIRE(g[y].sharding.partial.empty());
            REQUIRE(g[y].type == local_type({DType::f64, p.whole}, p.to, p.mesh, g.at));
            REQUIRE(g.ops.size() == moves.size());
            verify(g, Level::local);
            for (const Op& op : g.ops)
                sent += sent_by(g, op);
            held.push_back(first_part(p, rank));
        }
        CHECK(elements_moved(moves, p.from, p.whole, p.mesh) == Approx(sent / static_cast<double>(p.mesh.ranks())).epsilon(1e-12));
        for (std::size_t n = 0; n < moves.size(); ++n)
            run_op(graphs, n, held);
        for (i64 rank = 0; rank < p.mesh.ranks(); ++rank) {
            const Array want = part_of_truth(p, p.to, p.mesh.coordinates(rank)), &got = held[static_cast<std::size_t>(rank)];
            REQUIRE(got.shape == want.shape);
            REQUIRE(got.cells.size() == want.cells.size());
            for (std::size_t i = 0; i < want.cells.size(); ++i)
                REQUIRE(got.cells[i] == Approx(want.cells[i]).epsilon(1e-12));
        }
    }
    for (const int times : with_each)
        CHECK(times > 100);
}

TEST_CASE("no move where nothing changes, and the shortest way where there is one")
{
    const Mesh mesh{{{"data", 2}, {"tensor", 3}}};
    const auto names = [&](const Layout& from, const Cuts& to) {
        static constexpr const char* kinds[] = {"all_gather ", "reduce_scatter ", "all_reduce ", "slice "};
        std::vector<std::string> all;
        for (const Move& move : moves_between(from, to, mesh))
            all.push_back(kinds[static_cast<int>(move.kind)] + move.axis);
        return all;
    };
    using Names = std::vector<std::string>;
    CHECK(names({{{"tensor"}, {"data"}}, {}}, {{"tensor"}, {"data"}}) == Names{});
    CHECK(names({{{"tensor"}, {}}, {}}, {{}, {}}) == Names{"all_gather tensor"});
    CHECK(names({{{}, {}}, {}}, {{}, {"data"}}) == Names{"slice data"});
    CHECK(names({{{}, {}}, {{"tensor"}}}, {{}, {}}) == Names{"all_reduce tensor"});
    CHECK(names({{{}, {}}, {{"tensor"}}}, {{}, {"tensor"}}) == Names{"reduce_scatter tensor"});
    // What combines otherwise than by adding is not scattered.
    CHECK(names({{{}, {}}, {{"tensor", "lse"}}}, {{}, {"tensor"}}) == Names{"all_reduce tensor", "slice tensor"});
    // ZeRO's way: summed over tensor, then scattered over data within what tensor cuts.
    CHECK(names({{{"tensor"}}, {{"data"}}}, {{"tensor", "data"}}) == Names{"reduce_scatter data"});
    CHECK(names({{{}}, {{"data"}, {"tensor"}}}, {{"tensor", "data"}}) == Names{"reduce_scatter tensor", "reduce_scatter data"});
    // An axis that is to cut outside of another takes that one's gather first.
    CHECK(names({{{"data"}}, {}}, {{"tensor", "data"}}) == Names{"all_gather data", "slice tensor", "slice data"});
    CHECK(names({{{"tensor", "data"}}, {}}, {{"tensor"}}) == Names{"all_gather data"});
}
