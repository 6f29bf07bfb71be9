// docs/train-your-own.md: its commands run, train, and resume on other ranks; the samples that a run shows.
#include "catch.hpp"
#include "io/foreign_files.hpp"
#include "io/metrics/metrics.hpp"
#include "io/metrics/shown_samples.hpp"
#include "programs/page.hpp"
#include "train/program.hpp"

#include <cmath>
#include <functional>
#include <sstream>

using namespace trivium;

namespace {

/// A NumPy file of f32 numbers.
void write_numpy(const std::string& path, const std::string& shape, i64 count,
                 const std::function<double(i64)>& at)
{
    std::string file = foreign::numpy_header("<f4", "(" + shape + ")");
    for (i64 i = 0; i < count; ++i) {
        const auto number = static_cast<float>(at(i));
        file.append(reinterpret_cast<const char*>(&number), sizeof number);
    }
    write_text(path, file);
}

Outcome run_line(const std::string& line, const Folder& folder)
{
    std::istringstream text(line.substr(0, line.find('#')));
    std::vector<std::string> words;
    for (std::string word; text >> word;)
        words.push_back(word);
    if (words[0] == "trivium")
        return run_program({words.begin() + 1, words.end()}, folder.path());
    REQUIRE(words[0] == "mpirun");
    REQUIRE(words[3] == "trivium");
    return run_ranks({{std::stoi(words[2]), {words.begin() + 4, words.end()}}}, folder.path());
}

} // namespace

TEST_CASE("the commands of docs/train-your-own.md train a model, resume it on other ranks, and show samples")
{
    const Folder folder;
    const i64 samples = 400;
    const auto field = [](i64 i) { return std::sin(0.7 * static_cast<double>(i)); };
    write_numpy(folder / "inputs.npy", "400, 1, 9, 5", samples * 45, field);
    // The target is a convolution of the field: what its neighbours above and below are, half of each.
    write_numpy(folder / "outputs.npy", "400, 1, 9, 5", samples * 45, [&](i64 i) {
        const i64 row = i / 5 % 9;
        return (row > 0 ? 0.5 * field(i - 5) : 0) + (row < 8 ? 0.5 * field(i + 5) : 0);
    });
    i64 commands = 0;
    for (const page::Block& block : page::read_blocks(TRIVIUM_SOURCE "/docs/train-your-own.md")) {
        if (!block.name.empty())
            write_text(folder / block.name, block.text);
        if (block.kind != "bash")
            continue;
        std::istringstream lines(block.text);
        for (std::string line; std::getline(lines, line); ++commands) {
            const Outcome outcome = run_line(line, folder);
            INFO(line << "\n" << outcome.out << outcome.err);
            CHECK(outcome.status == 0);
        }
    }
    CHECK(commands == 6);
    const std::vector<MetricsRecord> metrics = read_metrics(folder / "logs");
    REQUIRE(metrics.size() == 400);
    CHECK(metrics[399].value("loss") < 0.05 * metrics[0].value("loss"));
    CHECK(metrics[200].value("ranks") == 4);
    const std::string report = read_text(folder / "report.html");
    for (const char* name :
         {"field of sample 0", "target of sample 1", "guess, step 50 of", "guess, step 400 of"})
        CHECK(report.find(std::string("alt=\"") + name) != std::string::npos);
    // The pictures are of the trained model.
    const std::vector<ShownSample> shown = read_shown_samples(folder / "logs");
    CHECK(shown.size() == 2 * (2 + 4));
    const auto of = [&](const std::string& name, i64 step) {
        for (const ShownSample& one : shown)
            if (one.name == name && one.step == step && one.sample == 1)
                return one.values;
        return std::vector<float>();
    };
    const std::vector<float> target = of("target", -1), guess = of("guess", 400);
    REQUIRE(target.size() == 45);
    REQUIRE(guess.size() == 45);
    double error = 0;
    for (std::size_t i = 0; i < 45; ++i)
        error += std::pow(target[i] - guess[i], 2);
    CHECK(error < 0.05 * metrics[0].value("loss"));
}

TEST_CASE("what a run shows of samples are the middle slices, on any mesh, and ends at the step of a restart")
{
    const Folder folder;
    write_text(folder / "twice.graph", R"(graph twice
size b=4
mesh x=2 y=2
input %volume : compute[b,2,5,6,140] <-,-,x,y,->
input %wave : compute[b,1,7] <-,-,x>
input %label : f32[b]
parameter %p : f32[1,1] init fill(value=1.0)
%two = affine(%volume) {alpha=2.0} : compute[b,2,5,6,140]
@ forward block 1
%three = affine(%wave) {alpha=3.0} : compute[b,1,7]
%each = reduce(%three) {combine="sum", dims="1 2"} : compute[b]
%one = reshape(%each) {shape="b 1"} : compute[b,1]
%scaled = matmul(%one, %p) {rule="b o, o p -> b p"} : compute[b,1]
%loss = reduce(%scaled) {combine="sum", dims="0 1"} : compute[]
output %loss
output %two
output %three
)");
    const i64 samples = 5, volume = 2 * 5 * 6 * 140;
    const auto number = [](i64 i) { return std::sin(static_cast<double>(i * i % 1009)); };
    write_numpy(folder / "volume.npy", "5, 2, 5, 6, 140", samples * volume, number);
    write_numpy(folder / "wave.npy", "5, 1, 7", samples * 7, number);
    write_numpy(folder / "label.npy", "5", samples, number);
    CHECK(run_line("trivium data arrays volume=volume.npy wave=wave.npy label=label.npy -o v.h5", folder)
              .status == 0);
    write_text(
        folder / "run.toml",
        "[model]\nfamily = \"graph\"\nfile = \"twice.graph\"\n[data]\ntrain = \"v.h5\"\nvalid = \"v.h5\"\n"
        "[train]\nsteps = 3\nglobal_batch = 2\neval_every = 1\nmicro_batch = 1\n[checkpoint]\nevery = "
        "2\nkeep = 9\n"
        "[log]\nsamples = 3\n");
    const auto check = [&](const std::string& line, const std::vector<i64>& steps) {
        const Outcome outcome = run_line(line, folder);
        INFO(line << "\n" << outcome.out << outcome.err);
        REQUIRE(outcome.status == 0);
        CHECK(outcome.out.find("used what was planned") != std::string::npos);
        std::vector<i64> found;
        i64 inputs = 0;
        for (const ShownSample& shown : read_shown_samples(folder / "logs")) {
            const bool is_volume = shown.shape.size() == 2, is_output = shown.step >= 0;
            CHECK(shown.name == (is_volume ? is_output ? "two" : "volume" : is_output ? "three" : "wave"));
            CHECK(shown.scale == (!is_output ? "" : is_volume ? "volume" : "wave"));
            if (is_output && is_volume && shown.sample == 0)
                found.push_back(shown.step);
            inputs += is_output ? 0 : 1;
            // Of 140 columns every second one is shown.
            CHECK(shown.shape == (is_volume ? std::vector<i64>{6, 70} : std::vector<i64>{7}));
            for (std::size_t i = 0; i < shown.values.size(); ++i) {
                const auto at = static_cast<i64>(i);
                const i64 index = is_volume
                                      ? shown.sample * volume + 2 * 6 * 140 + at / 70 * 140 + at % 70 * 2
                                      : shown.sample * 7 + at;
                const float factor = !is_output ? 1 : is_volume ? 2 : 3;
                if (shown.values[i] != factor * static_cast<float>(number(index)))
                    FAIL(shown.name << " " << shown.sample << " at " << i);
            }
        }
        CHECK(found == steps);
        CHECK(inputs == 2 * 3);
    };
    check("mpirun -n 4 trivium train run.toml parallel.axes.x=2 parallel.axes.y=2 train.stop_after=3",
          {1, 2, 3});
    check("mpirun -n 2 trivium train run.toml parallel.pipeline=2 train.steps=5", {1, 2, 3, 5});
    // From the checkpoint of step 2 on two data ranks.
    check("mpirun -n 2 trivium train run.toml parallel.data=2 train.steps=4 "
          "checkpoint.resume=checkpoints/step-00000002",
          {1, 2, 3, 4});
    // An evaluation shows the same of a checkpoint, in a folder of its own.
    const Outcome evaluated = run_line("trivium eval run.toml --samples shown", folder);
    INFO(evaluated.err);
    CHECK(evaluated.status == 0);
    const std::vector<ShownSample> all = read_shown_samples(folder / "logs"),
                                   shown = read_shown_samples(folder / "shown");
    CHECK(shown.size() == 3 * (2 + 2));
    for (const ShownSample& one : shown)
        CHECK(std::ranges::any_of(all, [&](const ShownSample& other) {
            return one.name == other.name && one.sample == other.sample && one.values == other.values &&
                   (one.step < 0) == (other.step < 0);
        }));
    CHECK(run_line("trivium metrics report shown -o shown.html", folder).status == 0);
    CHECK(run_line("trivium eval run.toml --samples logs", folder).status == 2); // those of the run
}
