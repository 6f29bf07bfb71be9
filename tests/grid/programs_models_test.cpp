// The programs of docs/examples that train: the same losses and parameters on every mesh as on one rank.
#include "catch.hpp"
#include "grid/programs.hpp"

#include <algorithm>

using namespace trivium;
using namespace trivium::grids;

namespace {

/// With three steps of 12 samples.
void check_example(const std::string& file, const NamedNumbers& sizes, i64 classes,
                   const std::vector<ProgramMesh>& meshes, Precision precision = Precision::f64)
{
    check_same_on({.text = example_text(file),
                   .name = file,
                   .sizes = sizes,
                   .precision = precision,
                   .samples = 12,
                   .steps = 3},
                  classes, meshes);
}

constexpr Recompute full = Recompute::full, selective = Recompute::selective;

/// Meshes of two axes of a program; alone, the second one has `ranks`.
std::vector<ProgramMesh> meshes_over(const std::string& a, const std::string& b, i64 ranks)
{
    return {{{{{a, 2}, {b, 2}}}},
            {{{{a, 3}}}},
            {{{{b, ranks}}}, 1, 1, 3, full, 2},
            {{{{a, 2}}}, 2, 1, 1},
            {{{{b, 2}}}, 2, 1, 2, selective, 2},
            {{{{a, 2}, {b, 2}}}, 2, 1, 3, full, 1},
            {{{{a, 2}}}, 1, 2, 0, selective, 2},
            {{}, 1, 4, 0, full, 1},
            {{}, 2, 2, 3, Recompute::none, 1},
            {{{{a, 2}, {b, 2}}}, 1, 2, 1, Recompute::none, 1}};
}

} // namespace

TEST_CASE("decoder")
{
    check_example("decoder.graph",
                  {{{"seq", 5}, {"width", 12}, {"head", 4}, {"heads", 3}, {"hidden", 10}, {"vocab", 11}}}, 11,
                  meshes_over("x", "y", 3));
}

TEST_CASE("experts")
{
    check_example("experts.graph",
                  {{{"seq", 6},
                    {"width", 8},
                    {"head", 3},
                    {"hidden", 7},
                    {"experts", 3},
                    {"capacity", 3},
                    {"vocab", 11}}},
                  11, meshes_over("x", "y", 2));
}

TEST_CASE("what went to the experts is there in the backward pass, too")
{
    ProgramCase c{.text = example_text("experts.graph"), .name = "experts.graph"};
    c.parallel.axes = {{{"x", 2}, {"y", 2}}};
    const Graph graph = first_rank_of(c);
    // In each of 2 layers to the experts and back, and the same for gradients.
    CHECK(std::ranges::count_if(graph.ops, [](const Op& op) { return op.kind == OpKind::all_to_all; }) == 8);
}

TEST_CASE("conformer")
{
    std::vector<ProgramMesh> meshes = meshes_over("y", "z", 2);
    meshes.front() = {{{{"x", 2}, {"y", 2}}}};
    check_example("conformer.graph",
                  {{{"frames", 7},
                    {"bins", 2},
                    {"channels", 3},
                    {"width", 6},
                    {"head", 3},
                    {"hidden", 5},
                    {"classes", 5}}},
                  5, meshes);
}

TEST_CASE("examples with the sizes that they declare, and with more layers, in f32", "[release]")
{
    for (const NamedNumbers& sizes : {NamedNumbers{}, NamedNumbers{{{"layers", 3}}}}) {
        check_example("decoder.graph", sizes, 64,
                      {{{{{"x", 2}, {"y", 2}}}, 1, 1, 0}, {{}, 2, 2, 1, selective, 2}}, Precision::f32);
        check_example("experts.graph", sizes, 32,
                      {{{{{"x", 2}, {"y", 2}}}, 1, 1, 0}, {{}, 2, 2, 1, selective, 2}}, Precision::f32);
        check_example("conformer.graph", sizes, 7,
                      {{{{{"x", 2}, {"y", 2}}}, 1, 1, 0}, {{}, 2, 2, 1, selective, 2}}, Precision::f32);
    }
}
