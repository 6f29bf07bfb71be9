// Meshes, parts, boxes and their runs, compared cell by cell.
#include "catch.hpp"
#include "ir/mesh.hpp"

#include <algorithm>
#include <random>

using namespace trivium;

namespace {

using Draw = std::mt19937_64;

i64 below(Draw& draw, i64 n) { return static_cast<i64>(draw() % static_cast<u64>(n)); }

Mesh random_mesh(Draw& draw)
{
    Mesh mesh;
    for (const char* name : {"data", "pipeline", "tensor", "expert"})
        if (below(draw, 4) > 0)
            mesh.axes.push_back({name, 1 + below(draw, 3)});
    return mesh;
}

/// The coordinates of cell `index` of a row-major tensor.
Shape place_of(const Shape& whole, i64 index)
{
    Shape at(whole.size());
    for (std::size_t d = whole.size(); d-- > 0; index /= whole[d])
        at[d] = index % whole[d];
    return at;
}

bool within(const Box& box, const Shape& at)
{
    for (std::size_t d = 0; d < at.size(); ++d)
        if (at[d] < box.offset[d] || at[d] >= box.offset[d] + box.shape[d])
            return false;
    return true;
}

} // namespace

TEST_CASE("ranks and coordinates of a mesh, the last axis fastest")
{
    const Mesh mesh{{{"data", 2}, {"pipeline", 3}, {"tensor", 4}}};
    CHECK(mesh.ranks() == 24);
    CHECK(mesh.coordinates(1) == Coordinates{0, 0, 1});
    CHECK(mesh.coordinates(4) == Coordinates{0, 1, 0});
    CHECK(mesh.rank({1, 2, 3}) == 23);
    CHECK(mesh.find("tensor") == 2);
    CHECK(mesh.find("expert") == -1);
    CHECK(mesh.size("pipeline") == 3);
    CHECK(mesh.size("expert") == 1);
    CHECK(mesh.group({1, 2, 3}, {"data"}) == std::vector<i64>{11, 23});
    CHECK(mesh.group({1, 0, 3}, {"tensor", "pipeline"}) ==
          std::vector<i64>{12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23});
    CHECK(mesh.group({1, 2, 3}, {}) == std::vector<i64>{23});
    CHECK(Mesh{}.ranks() == 1);
    CHECK(Mesh{}.coordinates(0).empty());
}

TEST_CASE("joint axes")
{
    const Mesh mesh{{{"x:(1)2", 2}, {"y", 3}, {"x:(2)4", 4}}};
    CHECK(mesh.ranks_along("y") == 3);
    CHECK(mesh.ranks_along("x:(1)2+x:(2)4") == 8);
    CHECK(mesh.ranks_along("x:(2)4+y") == 12);
    CHECK(mesh.ranks_along("y+y") == 3);
    CHECK(mesh.ranks_along("y+none") == 3);
    CHECK(mesh.ranks_along("none") == 1);
    CHECK(mesh.ranks_along("x") == 1); // not a part of a name
    CHECK(mesh.ranks_along("world") == 24);
    CHECK(mesh.group({1, 2, 3}, {"y+x:(1)2"}) == std::vector<i64>{3, 7, 11, 15, 19, 23});
    CHECK(mesh.group({1, 2, 3}, {"y", "x:(1)2"}) == mesh.group({1, 2, 3}, {"y+x:(1)2"}));
    CHECK(mesh.group({1, 2, 3}, {"x"}) == std::vector<i64>{23});
    CHECK_NOTHROW(check_mesh(mesh, "test: "));
    CHECK_THROWS_AS(check_mesh({{{"x+y", 2}}}, "test: "), UserError);
    CHECK(joins("a+b", "b"));
    CHECK_FALSE(joins("ab+c", "b"));
    CHECK_FALSE(joins("", "b"));
}

TEST_CASE("a rank has unique coordinates, and groups along any axes partition the mesh")
{
    Draw draw(1);
    for (int round = 0; round < 50; ++round) {
        const Mesh mesh = random_mesh(draw);
        std::vector<std::string> along;
        i64 members = 1;
        for (const MeshAxis& axis : mesh.axes)
            if (below(draw, 2) == 0) {
                along.push_back(axis.name);
                members *= axis.size;
            }
        std::vector<i64> seen(static_cast<std::size_t>(mesh.ranks()), 0);
        for (i64 rank = 0; rank < mesh.ranks(); ++rank) {
            const Coordinates at = mesh.coordinates(rank);
            REQUIRE(mesh.rank(at) == rank);
            const std::vector<i64> group = mesh.group(at, along);
            REQUIRE(static_cast<i64>(group.size()) == members);
            REQUIRE(std::is_sorted(group.begin(), group.end()));
            REQUIRE(std::count(group.begin(), group.end(), rank) == 1);
            for (const i64 member : group) {
                REQUIRE(mesh.group(mesh.coordinates(member), along) == group);
                seen[static_cast<std::size_t>(member)] += group.front() == rank;
            }
        }
        for (const i64 times : seen) // each rank is in the group of exactly one first member
            REQUIRE(times == 1);
    }
}

TEST_CASE("parts are consecutive, differ by at most one, and the larger ones come first")
{
    for (i64 extent = 0; extent < 30; ++extent)
        for (i64 parts = 1; parts < 9; ++parts) { // also more parts than rows: some are then empty
            i64 end = 0, before = extent;
            for (i64 i = 0; i < parts; ++i) {
                const IndexRange part = part_of(extent, parts, i);
                REQUIRE(part.begin == end);
                REQUIRE(part.size <= before);
                REQUIRE(part.size >= extent / parts);
                REQUIRE(part.size <= extent / parts + 1);
                end += part.size;
                before = part.size;
            }
            REQUIRE(end == extent);
        }
    CHECK(part_of(7, 3, 0) == IndexRange{0, 3});
    CHECK(part_of(7, 3, 2) == IndexRange{5, 2});
    CHECK(part_of(2, 3, 2) == IndexRange{2, 0});
}

TEST_CASE("the box of a dimension that two axes shard")
{
    const Mesh mesh{{{"data", 2}, {"tensor", 3}}};
    // 11 rows over tensor: 4 4 3; each over data: 2 2, 2 2, 2 1.
    const Sharding tensor_first{{{{"tensor", "data"}, false}, {{}, false}}, {}, ""};
    CHECK(box_of({11, 5}, tensor_first, mesh, {0, 0}) == Box{{0, 0}, {2, 5}});
    CHECK(box_of({11, 5}, tensor_first, mesh, {1, 0}) == Box{{2, 0}, {2, 5}});
    CHECK(box_of({11, 5}, tensor_first, mesh, {0, 1}) == Box{{4, 0}, {2, 5}});
    CHECK(box_of({11, 5}, tensor_first, mesh, {0, 2}) == Box{{8, 0}, {2, 5}});
    CHECK(box_of({11, 5}, tensor_first, mesh, {1, 2}) == Box{{10, 0}, {1, 5}});
    // Over data first: 6 5; each over tensor: 2 2 2, 2 2 1.
    const Sharding data_first{{{{"data", "tensor"}, false}, {{}, false}}, {}, ""};
    CHECK(box_of({11, 5}, data_first, mesh, {0, 1}) == Box{{2, 0}, {2, 5}});
    CHECK(box_of({11, 5}, data_first, mesh, {1, 0}) == Box{{6, 0}, {2, 5}});
    // Unknown sharding, an axis that the mesh lacks, a scalar.
    CHECK(box_of({11, 5}, {}, mesh, {1, 1}) == Box{{0, 0}, {11, 5}});
    CHECK(box_of({4}, {{{{"expert"}, false}}, {}, ""}, mesh, {1, 1}) == Box{{0}, {4}});
    CHECK(box_of({}, {}, mesh, {1, 1}) == Box{{}, {}});
}

TEST_CASE("boxes cover each cell as often as the product of the axes that do not shard it")
{
    Draw draw(2);
    for (int round = 0; round < 200; ++round) {
        const Mesh mesh = random_mesh(draw);
        Shape whole;
        for (i64 d = below(draw, 4); d > 0; --d)
            whole.push_back(1 + below(draw, 7));
        Sharding sharding;
        sharding.dims.resize(whole.size());
        i64 copies = 1;
        std::vector<MeshAxis> axes = mesh.axes;
        std::shuffle(axes.begin(), axes.end(), draw);
        for (const MeshAxis& axis : axes) {
            const auto d = static_cast<std::size_t>(below(draw, static_cast<i64>(whole.size()) + 1));
            if (d < whole.size())
                sharding.dims[d].axes.push_back(axis.name);
            else
                copies *= axis.size;
        }
        std::vector<i64> covers(static_cast<std::size_t>(element_count(whole)), 0);
        for (i64 rank = 0; rank < mesh.ranks(); ++rank) {
            const Box box = box_of(whole, sharding, mesh, mesh.coordinates(rank));
            for (std::size_t i = 0; i < covers.size(); ++i)
                covers[i] += within(box, place_of(whole, static_cast<i64>(i)));
        }
        for (const i64 times : covers)
            REQUIRE(times == copies);
    }
}

TEST_CASE("the runs of a box, cell by cell")
{
    Draw draw(3);
    for (int round = 0; round < 300; ++round) {
        Shape whole;
        Box box;
        for (i64 d = below(draw, 5); d > 0; --d) {
            whole.push_back(1 + below(draw, 5));
            const i64 begin = below(draw, whole.back() + 1);
            box.offset.push_back(below(draw, 3) == 0 ? 0 : begin);
            box.shape.push_back(box.offset.back() == 0 && below(draw, 2) == 0
                                    ? whole.back()
                                    : below(draw, whole.back() - box.offset.back() + 1));
        }
        std::vector<i64> cells; // cells of the box, in order, as indices in the whole tensor
        for (i64 i = 0; i < element_count(whole); ++i)
            if (within(box, place_of(whole, i)))
                cells.push_back(i);
        i64 runs = 0; // cells that are consecutive in the whole tensor are one run
        for (std::size_t i = 0; i < cells.size(); ++i)
            runs += i == 0 || cells[i] != cells[i - 1] + 1;
        std::vector<i64> visited;
        i64 calls = 0;
        for_each_run(whole, box, [&](i64 global, i64 local, i64 count) {
            REQUIRE(count > 0);
            REQUIRE(local == static_cast<i64>(visited.size()));
            for (i64 i = 0; i < count; ++i)
                visited.push_back(global + i);
            ++calls;
        });
        REQUIRE(visited == cells);
        REQUIRE(calls == runs);
    }
}
