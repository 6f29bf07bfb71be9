// The programs of docs/examples that train: the same losses and parameters on every mesh as on one rank.
#include "catch.hpp"
#include "grid/programs.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>

using namespace trivium;
using namespace trivium::grids;

namespace {

std::string example(const std::string& name)
{
    std::ifstream file(std::string(TRIVIUM_EXAMPLES) + "/" + name);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

struct Trial {
    i64 data, pipeline, zero;
    std::vector<ProgramAxes::Axis> axes;
    Recompute recompute = Recompute::none;
    i64 micro_batch = 0;
};

/// A few trials of one program and size, each compared with one rank.
void compare(const std::string& file, const NamedNumbers& sizes, i64 classes,
             const std::vector<Trial>& trials, Precision precision = Precision::f64)
{
    ProgramCase one{.text = example(file),
                    .name = file,
                    .sizes = sizes,
                    .precision = precision,
                    .samples = 12,
                    .steps = 3};
    const ProgramOutcome want = train_program(one, classes);
    for (const Trial& t : trials) {
        ProgramCase c = one;
        c.parallel.axes.list = t.axes;
        c.parallel.data = t.data;
        c.parallel.pipeline = t.pipeline;
        c.parallel.zero = t.zero;
        c.parallel.recompute = t.recompute;
        c.micro_batch = t.micro_batch;
        INFO(file << ": " << describe_degrees(config_of(c).parallel) << " zero " << t.zero << " micro batch "
                  << t.micro_batch);
        const ProgramDifferences d = differences(train_program(c, classes), want);
        INFO(d.text());
        if (precision == Precision::f64)
            CHECK(d.most() < 1e-9);
        else // AdamW divides gradients that are rounding errors by themselves, so parameters say nothing
            CHECK(std::max({d.losses, d.norms, d.evaluation}) < 1e-4);
    }
}

constexpr Recompute full = Recompute::full, selective = Recompute::selective;

} // namespace

TEST_CASE("decoder")
{
    compare("decoder.graph",
            {{{"seq", 5}, {"width", 12}, {"head", 4}, {"heads", 3}, {"hidden", 10}, {"vocab", 11}}}, 11,
            {{1, 1, 0, {{"x", 2}, {"y", 2}}},
             {1, 1, 0, {{"x", 3}}},
             {1, 1, 3, {{"y", 3}}, full, 2},
             {2, 1, 1, {{"x", 2}}},
             {2, 1, 2, {{"y", 2}}, selective, 2},
             {2, 1, 3, {{"x", 2}, {"y", 2}}, full, 1},
             {1, 2, 0, {{"x", 2}}, selective, 2},
             {1, 4, 0, {}, full, 1},
             {2, 2, 3, {}, Recompute::none, 1},
             {1, 2, 1, {{"x", 2}, {"y", 2}}, Recompute::none, 1}});
}

TEST_CASE("experts")
{
    compare("experts.graph",
            {{{"seq", 6},
              {"width", 8},
              {"head", 3},
              {"hidden", 7},
              {"experts", 3},
              {"capacity", 3},
              {"vocab", 11}}},
            11,
            {{1, 1, 0, {{"x", 2}, {"y", 2}}},
             {1, 1, 0, {{"x", 3}}},
             {1, 1, 3, {{"y", 2}}, full, 2},
             {2, 1, 1, {{"x", 2}}},
             {2, 1, 2, {{"y", 2}}, selective, 2},
             {2, 1, 3, {{"x", 2}, {"y", 2}}, full, 1},
             {1, 2, 0, {{"x", 2}}, selective, 2},
             {1, 4, 0, {}, full, 1},
             {2, 2, 3, {}, Recompute::none, 1},
             {1, 2, 1, {{"x", 2}, {"y", 2}}, Recompute::none, 1}});
}

TEST_CASE("conformer")
{
    compare("conformer.graph",
            {{{"frames", 7},
              {"bins", 2},
              {"channels", 3},
              {"width", 6},
              {"head", 3},
              {"hidden", 5},
              {"classes", 5}}},
            5,
            {{1, 1, 0, {{"x", 2}, {"y", 2}}},
             {1, 1, 0, {{"y", 3}}},
             {1, 1, 3, {{"z", 2}}, full, 2},
             {2, 1, 1, {{"y", 2}}},
             {2, 1, 2, {{"z", 2}}, selective, 2},
             {2, 1, 3, {{"y", 2}, {"z", 2}}, full, 1},
             {1, 2, 0, {{"y", 2}}, selective, 2},
             {1, 4, 0, {}, full, 1},
             {2, 2, 3, {}, Recompute::none, 1},
             {1, 2, 1, {{"y", 2}, {"z", 2}}, Recompute::none, 1}});
}

TEST_CASE("examples with the sizes that they declare, and with more layers, in f32")
{
    for (const NamedNumbers& sizes : {NamedNumbers{}, NamedNumbers{{{"layers", 3}}}}) {
        compare("decoder.graph", sizes, 64, {{1, 1, 0, {{"x", 2}, {"y", 2}}}, {2, 2, 1, {}, selective, 2}},
                Precision::f32);
        compare("experts.graph", sizes, 32, {{1, 1, 0, {{"x", 2}, {"y", 2}}}, {2, 2, 1, {}, selective, 2}},
                Precision::f32);
        compare("conformer.graph", sizes, 7, {{1, 1, 0, {{"x", 2}, {"y", 2}}}, {2, 2, 1, {}, selective, 2}},
                Precision::f32);
    }
}
