// The examples of docs/examples that are trained have the same losses, parameters and moments on every grid
// as on one rank.
#include "catch.hpp"
#include "grid/programs.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cmath>
#include <regex>
#include <sstream>

using namespace trivium;
using namespace trivium::grids;

namespace {

ProgramCase vit(const NamedNumbers& sizes)
{
    return {.text = example_text("vit.graph"), .name = "vit.graph", .sizes = sizes};
}

ProgramCase unet(const NamedNumbers& sizes)
{
    return {.text = example_text("unet3d.graph"), .name = "unet3d.graph", .sizes = sizes};
}

/// The U-Net with batch norm: the two sums of a norm are over the samples, too.
ProgramCase unet_with_batch_norm(const NamedNumbers& sizes)
{
    const std::regex sum(R"(\s*(%\S+)( = reduce.*"2 3 4".*f32\[b,)(.*)\])");
    ProgramCase c = unet(sizes);
    std::istringstream lines(c.text);
    c.text.clear();
    int changed = 0;
    for (std::string line; std::getline(lines, line);) {
        if (std::smatch m; std::regex_match(line, m, sum)) {
            const std::string name = m[1], channels = m[3];
            line = str(name, ".own", m[2].str(), channels, "]\n", name, ".all = reduce(", name,
                       ".own) {combine=\"sum\", dims=\"0\"} : f32[", channels, "]\n", name, " = broadcast(",
                       name, ".all) {dims=\"1\", shape=\"b ", channels, "\"} : f32[b,", channels, "]");
            ++changed;
        }
        if (const auto at = line.find("alpha=1.0/x"); at != std::string::npos)
            line.insert(at + 9, "/b");
        c.text += line + "\n";
    }
    REQUIRE(changed == 4);
    return c;
}

const NamedNumbers small_vit{
    {{"side", 6}, {"patch", 2}, {"width", 12}, {"heads", 3}, {"layers", 2}, {"classes", 5}}};
const NamedNumbers odd_unet{
    {{"levels", 2}, {"x0", 9}, {"x1", 5}, {"x2", 3}, {"y0", 13}, {"y1", 7}, {"y2", 4}, {"z0", 4}, {"c0", 2}}};

const std::vector<ProgramMesh> vit_meshes{
    {{}, 2, 1, 0},
    {{}, 4, 1, 3, Recompute::none, 1},
    {{{{"model", 2}}}},
    {{{{"model", 3}}}},
    {{{{"model", 2}}}, 2, 1, 1, Recompute::full},
    {{{{"model", 2}}}, 2, 1, 3, Recompute::none, 1},
    {{}, 1, 2, 0, Recompute::none, 2},
    {{{{"model", 2}}}, 1, 2, 0, Recompute::selective, 2},
    {{}, 2, 2, 2, Recompute::none, 1},
    {{}, 1, 4, 0, Recompute::full, 1},
};

const std::vector<ProgramMesh> unet_meshes{
    {{}, 2, 1, 0},
    {{}, 4, 1, 3, Recompute::none, 1},
    {{{{"x", 2}}}},
    {{{{"y", 2}}}},
    {{{{"x", 3}}}},
    {{{{"x", 2}, {"y", 2}}}, 1, 1, 0, Recompute::full},
    {{{{"x", 2}}}, 2, 1, 1, Recompute::none, 1},
    {{{{"y", 2}}}, 2, 1, 2, Recompute::selective, 1},
    {{{{"x", 2}}}, 2, 1, 3, Recompute::none, 1},
    {{}, 1, 2, 0, Recompute::none, 1},
    {{{{"x", 2}}}, 1, 2, 0, Recompute::full, 2},
    {{}, 1, 4, 0, Recompute::none, 1},
};

} // namespace

TEST_CASE("a vision transformer") { check_same_on(vit(small_vit), 5, vit_meshes); }

TEST_CASE("vision transformers of other sizes")
{
    // Heads, width and classes that two ranks do not share evenly; one block; one channel; patches of one
    // point.
    check_same_on(
        vit({{{"side", 9}, {"patch", 3}, {"width", 10}, {"heads", 5}, {"layers", 3}, {"classes", 7}}}), 7,
        {{{{{"model", 2}}}, 2, 1, 3, Recompute::selective, 2},
         {{{{"model", 4}}}},
         {{{{"model", 2}}}, 1, 2, 0, Recompute::none, 1}});
    check_same_on(vit({{{"side", 3},
                        {"patch", 1},
                        {"channels", 1},
                        {"width", 8},
                        {"heads", 2},
                        {"mlp", 5},
                        {"layers", 1},
                        {"classes", 2}}}),
                  2, {{{{{"model", 2}}}, 2, 1, 2}, {{}, 1, 3, 0, Recompute::full, 1}, {{}, 4, 1, 1}});
}

TEST_CASE("a 3-D U-Net", "[release]")
{
    check_same_on(unet({{{"levels", 1}, {"x0", 8}, {"y0", 4}, {"z0", 4}, {"c0", 2}}}), 2, unet_meshes);
}

TEST_CASE("a 3-D U-Net of odd extents") { check_same_on(unet(odd_unet), 2, unet_meshes); }

TEST_CASE("a 3-D U-Net with batch norm")
{
    check_same_on(
        unet_with_batch_norm(
            {{{"levels", 1}, {"in", 3}, {"out", 2}, {"x0", 7}, {"x1", 4}, {"y0", 6}, {"z0", 2}, {"c0", 3}}}),
        2,
        {{{}, 2, 1, 0},
         {{{{"x", 2}}}, 2, 1, 3},
         {{{{"y", 3}}}, 1, 1, 0, Recompute::full},
         {{{{"x", 2}, {"y", 2}}}, 1, 1, 0},
         {{{{"x", 2}}}, 1, 2, 0, Recompute::selective}});
}

TEST_CASE("a 3-D U-Net whose halos travel while it computes")
{
    ProgramCase c = unet({{{"levels", 1}, {"x0", 16}, {"y0", 8}, {"z0", 8}, {"c0", 8}}});
    c.samples = 2;
    c.steps = 1;
    c.parallel.delay_bandwidth = 1e6; // what is divided is decided for it; these ranks are not slower
    ProgramCase sharded = c;
    sharded.parallel.axes = {{{"x", 2}, {"y", 2}}};
    const Graph graph = first_rank_of(sharded);
    CHECK(std::ranges::any_of(graph.values, [](const Value& v) { return v.name.ends_with(".interior"); }));
    check_same_on(c, 2, {{{{{"x", 2}, {"y", 2}}}}, {{{{"x", 2}}}, 2, 1, 3, Recompute::full, 1}});
}

TEST_CASE("examples in f32", "[release]")
{
    ProgramCase c = vit(small_vit);
    c.precision = Precision::f32;
    check_same_on(c, 5, {{{{{"model", 2}}}, 2, 1, 3, Recompute::full, 1}});
    c = unet(odd_unet);
    c.precision = Precision::f32;
    check_same_on(c, 2, {{{{{"x", 2}}}, 2, 1, 3, Recompute::full, 1}});
}

TEST_CASE("a 3-D U-Net in bf16", "[release]")
{
    ProgramCase c = unet({{{"levels", 2}, {"x0", 8}, {"y0", 16}, {"z0", 16}, {"c0", 4}}});
    c.precision = Precision::bf16;
    c.samples = 2;
    const ProgramOutcome want = train_program(c, 2);
    for (const ProgramAxes& axes : {ProgramAxes{{{"x", 2}}}, ProgramAxes{{{"x", 2}, {"y", 2}}}}) {
        c.parallel.axes = axes;
        const ProgramDifferences d = differences(train_program(c, 2), want);
        INFO(d.text());
        CHECK(d.losses < 0.01);
        CHECK(d.norms < 0.05);
    }
}

TEST_CASE("both gradients of a convolution read the same halo")
{
    ProgramCase c = unet({{{"levels", 1}, {"x0", 8}, {"y0", 4}, {"z0", 4}, {"c0", 2}}});
    c.parallel.axes = {{{"x", 2}}};
    const Graph graph = first_rank_of(c);
    const auto halos = std::ranges::count_if(graph.ops, [](const Op& op) { return op.kind == OpKind::halo; });
    // Forward 5 convolutions of 3 x 3 x 3; backward one for each with stride 1 that is not the first, for the
    // strided one its input as well, for the first its input only.
    CHECK(halos == 5 + 3 + 2 + 1);
}
