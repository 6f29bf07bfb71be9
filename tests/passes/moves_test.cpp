// Moves from any layout to any other, simulated on all ranks with plain arrays.
#include "catch.hpp"
#include "draw.hpp"
#include "ir/exchange.hpp"
#include "ir/verify.hpp"
#include "naive.hpp"
#include "passes/sharding/moves.hpp"

#include <algorithm>
#include <cmath>

using namespace trivium;
using namespace trivium::naive;

namespace {

struct Problem {
    Mesh mesh;
    Shape whole;
    Layout from;
    DimAxes to;
};

Sharding sharded(const DimAxes& dims)
{
    Sharding s;
    for (const auto& axes : dims)
        s.dims.push_back({axes, false});
    return s;
}

/// Each axis shards a random dimension, or none, or (with `partial`) is one over which to combine.
DimAxes random_axes(Draw& draw, const Mesh& mesh, const Shape& whole, std::vector<Partial>* partial)
{
    DimAxes dims(whole.size());
    std::vector<MeshAxis> axes;
    for (const MeshAxis& axis : mesh.axes)
        if (axis.size == 4 && below(draw, 2)) { // in parts, as a reshape leaves it
            axes.push_back({axis.name + ":(1)2", 2});
            axes.push_back({axis.name + ":(2)2", 2});
        } else {
            axes.push_back(axis);
        }
    std::shuffle(axes.begin(), axes.end(), draw);
    const Combine combine = below(draw, 4) == 0 ? Combine::lse : Combine::sum;
    for (const MeshAxis& axis : axes) {
        const i64 choice = below(draw, static_cast<i64>(whole.size()) + 2);
        if (choice < static_cast<i64>(whole.size())) {
            const auto d = static_cast<std::size_t>(choice);
            i64 parts = axis.size;
            for (const std::string& other : dims[d])
                parts *= mesh.size(other);
            const bool whole_axis = !dims[d].empty() && dims[d].back().ends_with(":(1)2") &&
                                    axis.name.ends_with(":(2)2"); // which has a shorter name
            if (parts <= whole[d] && !whole_axis)
                dims[d].push_back(axis.name);
        } else if (partial && choice == static_cast<i64>(whole.size())) {
            partial->push_back({axis.name, combine});
        }
    }
    return dims;
}

Problem random_problem(u64 seed)
{
    Draw draw(seed);
    Problem p;
    p.mesh.axes = {{"data", 2}, {"tensor", seed % 2 ? 3 : 4}};
    if (seed % 3 == 0)
        p.mesh.axes.push_back({"expert", 2});
    for (i64 d = 1 + below(draw, 3); d > 0; --d)
        p.whole.push_back(1 + below(draw, 13));
    p.from.axes = random_axes(draw, p.mesh, p.whole, &p.from.partial);
    p.to = random_axes(draw, p.mesh, p.whole, nullptr);
    return p;
}

/// The value of the whole tensor at a cell.
double truth(i64 cell) { return 1 + static_cast<double>(cell % 23) + static_cast<double>(cell % 7) / 8; }

/// The shard of `truth` on the rank at `at`, cell by cell.
Array part_of_truth(const Problem& p, const DimAxes& dims, const Coordinates& at)
{
    const Box box = box_of(p.whole, sharded(dims), p.mesh, at);
    Array array{box.shape, {}};
    for (i64 i = 0; i < element_count(box.shape); ++i) {
        i64 rest = i, cell = 0, stride = 1;
        for (std::size_t d = p.whole.size(); d-- > 0; rest /= box.shape[d], stride *= p.whole[d])
            cell += (box.offset[d] + rest % box.shape[d]) * stride;
        array.cells.push_back(truth(cell));
    }
    return array;
}

/// The initial shards: for a partial value, each rank has a share that depends on its coordinates on those
/// axes.
Array first_part(const Problem& p, i64 rank)
{
    const Coordinates at = p.mesh.coordinates(rank);
    Array array = part_of_truth(p, p.from.axes, at);
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
        cell = p.from.partial[0].combine == Combine::sum ? share * cell : cell + std::log(share);
    return array;
}

double sent_by(const Graph& g, const Op& op)
{
    const std::string name = info(op).name;
    if (name == "slice")
        return 0;
    if (op.attrs->lists.find(Attr::owned)) { // what it receives
        const std::vector<i64> members = g.mesh.group(g.at, {*op.attrs->axis});
        const auto me = static_cast<std::size_t>(
            std::find(members.begin(), members.end(), g.mesh.rank(g.at)) - members.begin());
        const Box own = boxes(op, Attr::owned)[me], need = boxes(op, Attr::needed)[me];
        i64 common = 1;
        for (std::size_t d = 0; d < own.shape.size(); ++d)
            common *=
                std::max<i64>(0, std::min(own.offset[d] + own.shape[d], need.offset[d] + need.shape[d]) -
                                     std::max(own.offset[d], need.offset[d]));
        return static_cast<double>(element_count(need.shape) - common);
    }
    const auto n = static_cast<double>(g.mesh.ranks_along(*op.attrs->axis));
    const auto in = static_cast<double>(g[op.operands[0]].type.elements()),
               out = static_cast<double>(g[op.results[0]].type.elements());
    return (name == "all_gather" ? out : name == "all_reduce" ? 2 * in : in) * (n - 1) / n;
}

/// Whether the moves give each rank its shard, and cost what they say. Counts their kinds.
void check_moves(const Problem& p, int (&with_each)[6])
{
    const std::vector<Move> moves = moves_between(p.from, p.to, p.whole, p.mesh);
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
        const TensorType type = local_type({DType::f64, p.whole}, p.from.axes, p.mesh, g.at);
        const ValueId x = b.value("x", type, Role::input);
        g[x].whole = p.whole;
        g[x].sharding = sharded(p.from.axes);
        g[x].sharding.edit().partial = p.from.partial;
        const ValueId y = emit_moves(b, x, moves, p.from, {DType::f64, p.whole}, g.at);
        REQUIRE(dim_axes(g[y].sharding) == p.to);
        REQUIRE(g[y].sharding->partial.empty());
        REQUIRE(g[y].type == local_type({DType::f64, p.whole}, p.to, p.mesh, g.at));
        REQUIRE(g.ops.size() == moves.size());
        verify(g, Level::local);
        for (const Op& op : g.ops)
            sent += sent_by(g, op);
        held.push_back(first_part(p, rank));
    }
    if (p.mesh.ranks() <= 64) // of more, a sample
        CHECK(elements_moved(moves, p.from, p.whole, p.mesh) ==
              Approx(sent / static_cast<double>(p.mesh.ranks())).epsilon(1e-12));
    if (p.from.partial.empty()) { // at most 1.05 times what the ranks lack
        double lacks = 0;
        for (i64 rank = 0; rank < p.mesh.ranks(); ++rank) {
            const Box have = box_of(p.whole, sharded(p.from.axes), p.mesh, p.mesh.coordinates(rank)),
                      need = box_of(p.whole, sharded(p.to), p.mesh, p.mesh.coordinates(rank));
            const std::optional<Box> common = common_part(have, need);
            lacks +=
                static_cast<double>(element_count(need.shape) - (common ? element_count(common->shape) : 0));
        }
        CHECK(sent <= 1.05 * lacks);
    }
    for (std::size_t n = 0; n < moves.size(); ++n)
        held = communicate(graphs, n, held);
    for (i64 rank = 0; rank < p.mesh.ranks(); ++rank) {
        const Array want = part_of_truth(p, p.to, p.mesh.coordinates(rank)),
                    &got = held[static_cast<std::size_t>(rank)];
        REQUIRE(got.shape == want.shape);
        REQUIRE(got.cells.size() == want.cells.size());
        for (std::size_t i = 0; i < want.cells.size(); ++i)
            REQUIRE(got.cells[i] == Approx(want.cells[i]).epsilon(1e-12));
    }
}

} // namespace

TEST_CASE("the moves from any layout to any other give each rank its shard")
{
    int with_each[6] = {};
    for (u64 seed = 0; seed < 3000; ++seed) {
        INFO("seed " << seed);
        check_moves(random_problem(seed), with_each);
    }
    for (const int times : with_each)
        CHECK(times > 100);
}

TEST_CASE("axes that divide into many parts of one size are moved after a short search")
{
    // A search that only composes exchanges of parts would visit 20,000 layouts in most of these.
    const std::vector<DimAxes> layouts{
        {{}, {}, {}},         {{"data"}, {}, {}},         {{"tensor"}, {}, {}},
        {{}, {"tensor"}, {}}, {{"data"}, {"tensor"}, {}}, {{"data"}, {}, {"tensor"}},
        {{}, {}, {"data"}},   {{"tensor"}, {}, {"data"}}, {{}, {"tensor", "data"}, {}}};
    const auto shards_tensor = [](const std::vector<std::string>& dim) {
        return std::find(dim.begin(), dim.end(), "tensor") != dim.end();
    };
    int with_each[6] = {}, most = 0, long_ones = 0;
    for (const bool partial : {false, true})
        for (const DimAxes& from : layouts)
            for (const DimAxes& to : layouts) {
                Problem p{{{{"data", 16}, {"tensor", 8}}}, {16, 128, 16}, {from, {}}, to};
                if (partial && std::any_of(from.begin(), from.end(), shards_tensor))
                    continue;
                if (partial)
                    p.from.partial.push_back({"tensor"});
                int left = search_limit;
                moves_between(p.from, p.to, p.whole, p.mesh, &left);
                most = std::max(most, search_limit - left);
                if (search_limit - left > few_layouts) { // with exchanges that bring all into place
                    ++long_ones;
                    check_moves(p, with_each);
                }
            }
    CHECK(most < 5000);
    CHECK(long_ones > 2);
}

TEST_CASE("no move if nothing changes, and the shortest sequence otherwise")
{
    const Mesh mesh{{{"data", 2}, {"tensor", 3}}};
    const auto names = [&](const Layout& from, const DimAxes& to) {
        static constexpr const char* kinds[] = {"all_gather ", "reduce_scatter ", "all_reduce ",
                                                "slice ",      "all_to_all ",     "permute "};
        std::vector<std::string> all;
        for (const Move& move : moves_between(from, to, Shape(to.size(), 12), mesh))
            all.push_back(kinds[static_cast<int>(move.kind)] + move.axis);
        return all;
    };
    using Names = std::vector<std::string>;
    CHECK(names({{{"tensor"}, {"data"}}, {}}, {{"tensor"}, {"data"}}) == Names{});
    CHECK(names({{{"tensor"}, {}}, {}}, {{}, {}}) == Names{"all_gather tensor"});
    CHECK(names({{{}, {}}, {}}, {{}, {"data"}}) == Names{"slice data"});
    CHECK(names({{{}, {}}, {{"tensor"}}}, {{}, {}}) == Names{"all_reduce tensor"});
    CHECK(names({{{}, {}}, {{"tensor"}}}, {{}, {"tensor"}}) == Names{"reduce_scatter tensor"});
    // Only sums are reduce-scattered.
    CHECK(names({{{}, {}}, {{"tensor", Combine::lse}}}, {{}, {"tensor"}}) ==
          Names{"all_reduce tensor", "slice tensor"});
    // ZeRO: summed over tensor, then scattered over data within the shards of tensor.
    CHECK(names({{{"tensor"}}, {{"data"}}}, {{"tensor", "data"}}) == Names{"reduce_scatter data"});
    CHECK(names({{{}}, {{"data"}, {"tensor"}}}, {{"tensor", "data"}}) ==
          Names{"reduce_scatter tensor", "reduce_scatter data"});
    // What another rank keeps is neither added nor gathered.
    CHECK(names({{{}, {"tensor"}}, {}}, {{"data"}, {}}) == Names{"slice data", "all_gather tensor"});
    CHECK(names({{{}, {}}, {{"tensor"}}}, {{"data"}, {}}) == Names{"slice data", "all_reduce tensor"});
    CHECK(names({{{}}, {{"tensor"}}}, {{"data", "tensor"}}) == Names{"slice data", "reduce_scatter tensor"});
    // An axis that becomes major to another one: shards change ranks, nothing is gathered.
    CHECK(names({{{"data"}}, {}}, {{"tensor", "data"}}) == Names{"permute data"});
    CHECK(names({{{"data"}, {}}, {}}, {{}, {"data"}}) == Names{"all_to_all data"});
    CHECK(names({{{"tensor", "data"}}, {}}, {{"tensor"}}) == Names{"all_gather data"});
}

TEST_CASE("shards of an uneven dimension are not made of parts of its axis")
{
    // 6 rows on 4 ranks are 2, 2, 1, 1; halves of halves would be 2, 1, 2, 1.
    const Mesh mesh{{{"x", 2}, {"y", 4}}};
    const std::vector<Move> moves =
        moves_between({{{"x"}, {}, {}}, {{"y:(2)2"}}}, {{}, {"y"}, {"x"}}, {5, 6, 9}, mesh);
    REQUIRE(!moves.empty());
    for (const Move& move : moves)
        for (const auto& axes : move.to)
            for (const std::string& axis : axes)
                CHECK(axis.find(':') == std::string::npos);
}
