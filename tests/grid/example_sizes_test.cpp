// The examples that are trained, in three sizes: 20 steps of AdamW have PyTorch's losses, and on eight meshes
// those of one rank. torch/example_losses.py has the sizes, and wrote PyTorch's losses.
#include "base/check.hpp"
#include "catch.hpp"
#include "grid/programs.hpp"
#include "soak_settings.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>

using namespace trivium;
using namespace trivium::grids;

namespace {

constexpr Recompute none = Recompute::none, full = Recompute::full, selective = Recompute::selective;

struct Example {
    std::string name, classes; ///< `classes`: the size below which its integers are; empty: it has none
    std::vector<ProgramMesh> meshes;
};

const std::vector<ProgramMesh> decoder_meshes{{{{{"x", 2}, {"y", 2}}}},
                                              {{{{"x", 4}}}},
                                              {{{{"y", 2}}}, 1, 1, 3, full, 2},
                                              {{{{"x", 2}}}, 2, 1, 1},
                                              {{{{"y", 2}}}, 2, 1, 2, selective, 2},
                                              {{{{"x", 2}, {"y", 2}}}, 2, 1, 3, full, 1},
                                              {{{{"x", 2}}}, 1, 2, 0, selective, 2},
                                              {{}, 2, 2, 3, none, 1}};

const std::vector<Example> examples{
    {"vit",
     "classes",
     {{{}, 2, 1, 1},
      {{}, 4, 1, 3, full, 1},
      {{{{"model", 2}}}},
      {{{{"model", 3}}}},
      {{{{"model", 2}}}, 2, 1, 2, selective, 2},
      {{}, 1, 2, 0, none, 2},
      {{{{"model", 2}}}, 1, 2, 0, full, 2},
      {{}, 2, 2, 3, none, 1}}},
    {"unet3d",
     "",
     {{{}, 2, 1, 1},
      {{{{"x", 2}}}},
      {{{{"y", 2}}}},
      {{{{"x", 2}, {"y", 2}}}, 1, 1, 0, full},
      {{{{"x", 2}}}, 2, 1, 3, none, 1},
      {{{{"y", 2}}}, 2, 1, 2, selective, 1},
      {{}, 1, 2, 0, none, 1},
      {{{{"x", 2}}}, 1, 2, 0, full, 2}}},
    {"resnet",
     "classes",
     {{{}, 2, 1, 1},
      {{{{"x", 2}}}},
      {{}, 4, 1, 3, full},
      {{{{"x", 3}}}, 1, 1, 0, selective},
      {{{{"x", 2}}}, 2, 1, 2},
      {{}, 1, 2, 0},
      {{{{"x", 2}}}, 1, 2, 0, full},
      {{}, 2, 2, 3}}},
    {"decoder", "vocab", decoder_meshes},
    {"experts", "vocab", decoder_meshes},
    {"conformer",
     "classes",
     {{{{{"x", 2}, {"y", 2}}}},
      {{{{"y", 3}}}},
      {{{{"z", 2}}}, 1, 1, 3, full, 2},
      {{{{"y", 2}}}, 2, 1, 1},
      {{{{"z", 2}}}, 2, 1, 2, selective, 2},
      {{{{"y", 2}, {"z", 2}}}, 2, 1, 3, full, 1},
      {{{{"y", 2}}}, 1, 2, 0, selective, 2},
      {{}, 2, 2, 3, none, 1}}},
};

/// An example in one size, and PyTorch's losses.
struct Kept {
    NamedNumbers sizes;
    std::vector<double> losses;
};

/// "side 9 levels 2"
NamedNumbers sizes_of(const std::string& line)
{
    NamedNumbers sizes;
    std::istringstream words(line);
    std::string size;
    for (i64 number = 0; words >> size >> number;)
        sizes.list.emplace_back(size, number);
    return sizes;
}

/// Toy, odd, larger.
std::vector<Kept> kept_of(const Example& example)
{
    std::ifstream file(str(TRIVIUM_TEST_DATA, "/grid/torch/", example.name, ".losses"));
    std::vector<Kept> kept;
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        if (double loss = 0; words >> loss) {
            REQUIRE(!kept.empty());
            kept.back().losses.push_back(loss);
            continue;
        }
        kept.push_back({sizes_of(line), {}});
    }
    REQUIRE(kept.size() == 3);
    return kept;
}

ProgramOutcome outcome_of(const Example& example, const NamedNumbers& sizes, Precision precision,
                          const ProgramMesh& mesh = {})
{
    const ProgramCase c = on_mesh({.text = example_text(example.name + ".graph"),
                                   .name = example.name + ".graph",
                                   .sizes = sizes,
                                   .precision = precision,
                                   .steps = 20},
                                  mesh);
    i64 classes = 1;
    for (const auto& [name, number] : sizes.list)
        classes = name == example.classes ? number : classes;
    try {
        return train_program(c, classes);
    } catch (const std::exception& error) {
        FAIL_CHECK(describe_degrees(c.parallel) << ": " << error.what());
        return {};
    }
}

double largest_difference(const std::vector<double>& got, const std::vector<double>& want)
{
    double most = got.size() == want.size() ? 0 : INFINITY;
    for (std::size_t i = 0; i < std::min(got.size(), want.size()); ++i)
        most = std::max(most, std::abs(got[i] / want[i] - 1));
    return most;
}

std::string text_of(const Example& example, const Kept& kept)
{
    std::string text = example.name;
    for (const auto& [name, number] : kept.sizes.list)
        text += str(" ", name, "=", number);
    return text;
}

/// Each mesh from the one with index `first` on, in steps of `every`, has the losses of one rank, which in
/// f64 are PyTorch's. Its clipping adds 1e-6 to the norm. Returns the largest difference between ranks.
double check_meshes(const Example& example, const Kept& kept, Precision precision, std::size_t first,
                    std::size_t every)
{
    const double within = precision == Precision::f64 ? 1e-9 : 1e-4;
    const std::vector<double> want = outcome_of(example, kept.sizes, precision).losses;
    if (precision == Precision::f64) {
        INFO(text_of(example, kept) << ", PyTorch");
        CHECK(largest_difference(want, kept.losses) < 1e-5);
    }
    double most = 0;
    for (std::size_t m = first; m < example.meshes.size(); m += every) {
        INFO(text_of(example, kept) << ", mesh " << m << ", " << name_of(precision));
        const double d =
            largest_difference(outcome_of(example, kept.sizes, precision, example.meshes[m]).losses, want);
        CHECK(d < within);
        most = std::max(most, d);
    }
    return most;
}

} // namespace

TEST_CASE("losses of 20 steps are those of PyTorch and of some meshes", "[release]")
{
    for (std::size_t e = 0; e < examples.size(); ++e)
        for (const std::size_t size : {0, 1}) // toy and odd
            for (const Precision precision : {Precision::f64, Precision::f32})
                check_meshes(examples[e], kept_of(examples[e])[size], precision,
                             precision == Precision::f64 ? 5 - size : (e + size) % 8, 8);
}

TEST_CASE("running statistics of batch norms, and what an evaluation makes of them, are PyTorch's")
{
    const auto example = std::ranges::find(examples, "resnet", &Example::name);
    std::ifstream file(str(TRIVIUM_TEST_DATA, "/grid/torch/resnet.averages"));
    int sizes = 0;
    for (std::string line; sizes < 2 && std::getline(file, line); ++sizes) { // toy and odd
        ProgramOutcome alone = outcome_of(*example, sizes_of(line), Precision::f64),
                       shared = outcome_of(*example, sizes_of(line), Precision::f64,
                                           {{{{"x", 2}}}, 2, 1, 3, Recompute::full});
        for (ProgramOutcome* got : {&alone, &shared})
            got->parameters["evaluation"] = {got->evaluation.at(0)};
        while (std::getline(file, line) && !line.empty()) {
            std::istringstream words(line);
            std::string name;
            std::vector<double> want;
            words >> name;
            for (double number = 0; words >> number;)
                want.push_back(number);
            INFO(name);
            for (const ProgramOutcome* got : {&alone, &shared}) {
                const auto& values = got->parameters.at(name);
                REQUIRE(values.size() == want.size());
                for (std::size_t i = 0; i < want.size(); ++i)
                    CHECK(values[i] == Approx(want[i]).epsilon(1e-5).margin(1e-6));
            }
        }
    }
    CHECK(sizes == 2);
}

// All with TRIVIUM_SOAK_WHOLE=1 (tests/soak --whole), otherwise from the one that the seed says for as long
// as the time lasts.
TEST_CASE("every example in three sizes", "[.soak]")
{
    const soak::Budget budget;
    const std::size_t count = examples.size() * 3;
    for (std::size_t n = 0; n < count && (soak::whole() || budget.left()); ++n) {
        const std::size_t at = (n + soak::seed()) % count;
        const Example& example = examples[at / 3];
        const Kept kept = kept_of(example)[at % 3];
        const double f64 = check_meshes(example, kept, Precision::f64, 0, 1),
                     f32 = check_meshes(example, kept, Precision::f32, 0, 1);
        std::printf("%s: f64 %.1e, f32 %.1e\n", text_of(example, kept).c_str(), f64, f32);
        std::fflush(stdout);
    }
}
