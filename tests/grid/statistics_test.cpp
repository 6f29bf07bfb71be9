// Running statistics of programs: parameters that are averages, and what reads them in an evaluation.
#include "catch.hpp"
#include "grid/programs.hpp"

#include "base/check.hpp"
#include "ir/ops/op_table.hpp"
#include "ir/text/text.hpp"
#include "model/program.hpp"

#include <cmath>
#include <regex>

using namespace trivium;
using namespace trivium::grids;

namespace {

/// A convolutional net with batch norm: rows over x, channels over y, four blocks.
std::string net(bool averages)
{
    return R"(graph batch_norm
size b=8 rows=6 columns=5 channels=4
size numbers=b*rows*columns
mesh x=2 y=2
input %in : compute[b,1,rows,columns] <-,-,x,->
input %target : compute[b,1,rows,columns]
parameter %first : f32[channels,1,3,3] <y,-,-,-> init normal(std=0.4) decay
%x.0 = convolution(%in, %first) {low="1 1", high="1 1"} : compute[b,channels,rows,columns] <-,y,x,->
repeat i 2 {
  @ forward block ${i+1} block$i
  parameter %w.$i : f32[channels,channels,3,3] init normal(std=0.3) decay
  %c.$i = convolution(%x.$i, %w.$i) {low="1 1", high="1 1"} : compute[b,channels,rows,columns]
)" + batch_norm_lines(averages) +
           R"(  %t.$i = tanh(%n.$i) : f32[b,channels,rows,columns]
  %x.${i+1} = add(%x.$i, %t.$i) : f32[b,channels,rows,columns]
}
@ forward block 3 head
parameter %last : f32[1,channels,1,1] init normal(std=0.4) decay
%out = convolution(%x.2, %last) {low="0 0", high="0 0"} : f32[b,1,rows,columns]
%d = subtract(%out, %target) : f32[b,1,rows,columns]
%dd = multiply(%d, %d) : f32[b,1,rows,columns]
%loss = reduce(%dd) {combine="sum", dims="0 1 2 3"} : f32[]
output %loss
)";
}
const std::string batch_norm = net(true), without_averages = net(false);

/// Averages of inputs, which formulas tell: of the mean over samples, in block 0, and, with what the loss
/// does not read, of the largest number.
const std::string of_inputs = R"(graph of_inputs
size b=4 width=3
mesh x=1
input %in : compute[b,width]
parameter %w : f32[width] init fill(value=0.5)
parameter %mean : f32[width] init fill(value=2.0) update average(decay=0.9)
parameter %largest : f32[] init fill(value=0.0) update average(decay=0.5)
%sum = reduce(%in) {combine="sum", dims="0"} : compute[width]
%now = affine(%sum) {alpha=1.0/b} : compute[width]
%m = running_statistic(%mean, %now) : compute[width]
%top = reduce(%in) {combine="max", dims="0 1"} : compute[]
@ forward block 1
%unread = running_statistic(%largest, %top) : compute[]
%wm = multiply(%m, %w) : compute[width]
%wide = broadcast(%wm) {dims="1", shape="b width"} : compute[b,width]
%d = subtract(%wide, %in) : compute[b,width]
%dd = multiply(%d, %d) : compute[b,width]
%loss = reduce(%dd) {combine="sum", dims="0 1"} : compute[]
%reads = reduce(%m) {combine="sum", dims="0"} : compute[]
%seen = affine(%reads) {alpha=1.0*b} : compute[]
output %loss
output %seen
)";

/// The averages of `of_inputs` after the steps of `c`: three of the mean, one of the largest number.
std::vector<double> averages_of(const ProgramCase& c)
{
    const i64 width = 3, each = c.micro_batch > 0 ? c.micro_batch : c.samples;
    std::vector<double> mean(3, 2.0);
    double largest = 0;
    for (int step = 0; step < c.steps; ++step) {
        if (c.refused.contains(step + 1))
            continue;
        for (i64 k = 0; k < width; ++k) {
            double sum = 0;
            for (i64 s = 0; s < c.samples; ++s)
                sum += element_of("in", step * c.samples + s, k);
            auto& m = mean[static_cast<std::size_t>(k)];
            m = 0.9 * m + 0.1 * sum / static_cast<double>(c.samples);
        }
        double tops = 0;
        for (i64 first = 0; first < c.samples; first += each) {
            double top = -INFINITY;
            for (i64 s = first; s < first + each; ++s)
                for (i64 k = 0; k < width; ++k)
                    top = std::max(top, element_of("in", step * c.samples + s, k));
            tops += top;
        }
        largest = 0.5 * largest + 0.5 * tops / static_cast<double>(c.samples / each);
    }
    mean.push_back(largest);
    return mean;
}

std::vector<double> of(const ProgramOutcome& outcome)
{
    std::vector<double> all = outcome.parameters.at("mean");
    all.push_back(outcome.parameters.at("largest").at(0));
    return all;
}

double most_apart(const std::vector<double>& a, const std::vector<double>& b)
{
    REQUIRE(a.size() == b.size());
    double most = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        most = std::max(most, std::abs(a[i] - b[i]));
    return most;
}

} // namespace

TEST_CASE("averages are those of a formula, whatever the division of a step")
{
    for (const auto& [data, pipeline, zero, micro] : {std::tuple(1, 1, 0, 0),
                                                      {1, 1, 0, 2},
                                                      {2, 1, 0, 4},
                                                      {2, 1, 1, 2},
                                                      {4, 1, 2, 1},
                                                      {2, 1, 3, 1},
                                                      {1, 2, 0, 4},
                                                      {2, 2, 3, 2}}) {
        ProgramCase c{.text = of_inputs};
        c.parallel.data = data;
        c.parallel.pipeline = pipeline;
        c.parallel.zero = zero;
        c.micro_batch = micro;
        const ProgramOutcome got = train_program(c, 1);
        ProgramCase whole = c;
        whole.micro_batch = micro * data; // of all ranks
        INFO("data " << data << ", pipeline " << pipeline << ", zero " << zero << ", micro " << micro);
        CHECK(most_apart(of(got), averages_of(whole)) < 1e-12);
        // An evaluation reads the averages.
        const std::vector<double>& mean = got.parameters.at("mean");
        CHECK(std::abs(got.evaluation.at(1) - (mean[0] + mean[1] + mean[2])) < 1e-12);
    }
}

TEST_CASE("averages of a type that is not the master's are kept in the master's")
{
    for (const char* type : {"compute", "bf16"}) {
        ProgramCase c{.text = std::regex_replace(of_inputs, std::regex("f32|compute"), type),
                      .precision = Precision::bf16,
                      .micro_batch = 4};
        INFO(c.text);
        for (const i64 data : {1, 2}) {
            c.parallel.data = data;
            c.parallel.zero = data - 1;
            ProgramCase whole = c;
            whole.micro_batch = 4 * data;
            CHECK(most_apart(of(train_program(c, 1)), averages_of(whole)) < 0.02);
        }
    }
}

TEST_CASE("a step that is not accepted leaves averages as they are")
{
    for (const UpdateMode update : {UpdateMode::synchronous, UpdateMode::post_validated})
        for (const auto& [data, pipeline] : {std::pair(1, 1), {2, 2}}) {
            ProgramCase c{.text = of_inputs, .micro_batch = 2, .refused = {1, 3}};
            c.parallel.data = data;
            c.parallel.pipeline = pipeline;
            c.parallel.zero = data - 1;
            c.parallel.update = update;
            ProgramCase whole = c;
            whole.micro_batch = 2 * data;
            const ProgramOutcome got = train_program(c, 1);
            CHECK(most_apart(of(got), averages_of(whole)) < 1e-12);
            CHECK(std::isfinite(got.losses[1]));
        }
}

TEST_CASE("an average of weights")
{
    // It keeps what a step reads of the weights, which do not change here: init is 0.5, that of the average
    // 0.
    const std::string text = R"(graph weights
size b=4
mesh x=2
input %in : compute[b,6] <-,x>
parameter %w : f32[6,4] <x,-> init fill(value=0.5)
parameter %later : f32[6,4] init fill(value=0.0) update average(decay=0.75)
%used = running_statistic(%later, %w) : f32[6,4]
%out = matmul(%in, %used) {rule="b i, i o -> b o"} : f32[b,4]
@ forward block 1
%squares = multiply(%out, %out) : f32[b,4]
%loss = reduce(%squares) {combine="sum", dims="0 1"} : f32[]
output %loss
)";
    ProgramCase c{.text = text, .micro_batch = 4, .steps = 3, .lr = 0};
    const ProgramOutcome still = train_program(c, 1);
    for (const double x : still.parameters.at("later"))
        CHECK(std::abs(x - 0.5 * (1 - 0.75 * 0.75 * 0.75)) < 1e-14);
    c.lr = 0.1;
    check_same_on(c, 1,
                  {{{{{"x", 2}}}},
                   {{{{"x", 2}}}, 2, 1, 1},
                   {{}, 4, 1, 2, Recompute::full, 1},
                   {{{{"x", 2}}}, 2, 1, 3, Recompute::none, 1},
                   {{}, 2, 2, 3, Recompute::none, 2}});
}

TEST_CASE("a net with batch norm is the same on all meshes")
{
    const auto on = [](i64 x, i64 y) { return ProgramAxes{{{"x", x}, {"y", y}}}; };
    check_same_on({.text = batch_norm, .samples = 4}, 1,
                  {{on(2, 1)},
                   {on(1, 2)},
                   {on(2, 2), 2, 1, 1},
                   {on(2, 1), 4, 1, 3},
                   {on(1, 2), 2, 1, 2, Recompute::full},
                   {on(2, 1), 1, 2, 0},
                   {on(1, 2), 1, 4, 0, Recompute::selective},
                   {on(2, 1), 2, 2, 3}});
    // In two microbatches: each normalises by its own statistics.
    check_same_on({.text = batch_norm, .micro_batch = 4}, 1,
                  {{on(2, 1), 1, 1, 0, Recompute::none, 4},
                   {on(1, 2), 2, 1, 1, Recompute::none, 2},
                   {on(1, 1), 4, 1, 2, Recompute::full, 1},
                   {on(2, 1), 2, 1, 3, Recompute::none, 2},
                   {on(2, 1), 1, 2, 0, Recompute::none, 4},
                   {on(1, 1), 2, 4, 1, Recompute::none, 2}});
    ProgramCase muon{.text = batch_norm, .precision = Precision::f32, .optimizer = OptimizerKind::muon};
    check_same_on(muon, 1, {{on(2, 1), 2, 1, 1}, {on(2, 1), 1, 2, 0}});
}

TEST_CASE("an evaluation of a net with batch norm does not depend on how its samples are divided")
{
    const std::string constant = std::regex_replace(batch_norm, std::regex("decay=0[.0-9]*"), "decay=1.0");
    const auto evaluated = [](const std::string& text, i64 micro_batch) {
        return train_program({.text = text, .micro_batch = micro_batch, .steps = 1, .lr = 0}, 1)
            .evaluation.at(0);
    };
    const double all = evaluated(constant, 8);
    CHECK(std::abs(evaluated(constant, 2) / all - 1) < 1e-12);
    CHECK(std::abs(evaluated(constant, 1) / all - 1) < 1e-12);
    CHECK(std::abs(evaluated(without_averages, 2) / evaluated(without_averages, 8) - 1) > 1e-4);
}

TEST_CASE("post-validated updates of averages have the same bits")
{
    for (const auto& [data, pipeline, zero] : {std::tuple(1, 2, 0), {2, 1, 1}, {2, 2, 2}}) {
        ProgramCase c{.text = batch_norm, .micro_batch = 2, .steps = 5};
        c.parallel.data = data;
        c.parallel.pipeline = pipeline;
        c.parallel.zero = zero;
        const ProgramOutcome want = train_program(c, 1);
        c.parallel.update = UpdateMode::post_validated;
        CHECK(differences(train_program(c, 1), want).most() == 0);
    }
}

TEST_CASE("offloaded averages have the same bits")
{
    ProgramCase c{.text = batch_norm, .micro_batch = 4};
    c.parallel.axes = {{{"x", 2}}};
    c.parallel.data = 2;
    c.parallel.zero = 1;
    const ProgramOutcome want = train_program(c, 1);
    c.parallel.offload = Offload::optimizer;
    CHECK(differences(train_program(c, 1), want).most() == 0);
}

TEST_CASE("an average has no gradient, moments or share of the norm")
{
    const Graph graph = first_rank_of({.text = batch_norm});
    CHECK(to_text(parse_graph(to_text(graph), "graph")) == to_text(graph));
    for (const Value& v : graph.values) {
        CHECK(v.name != "adam_m.mean.0");
        CHECK(v.name != "grad_sum.mean.0.squares");
    }
    CHECK(config_of({.text = batch_norm}).model.program.parameters ==
          4 * 9 + 2 * (4 * 4 * 9 + 4) + 4); // those that are trained
}

TEST_CASE("averages of what is reduced anyway add no collective to a microbatch")
{
    const auto collectives_of = [](const std::string& text) {
        ProgramCase c{.text = text};
        c.parallel.axes = {{{"x", 2}}};
        c.parallel.data = 2;
        const Graph graph = first_rank_of(c);
        return std::ranges::count_if(
            graph.ops, [](const Op& op) { return op.region == Region::microbatch && info(op).communicates; });
    };
    CHECK(collectives_of(batch_norm) == collectives_of(without_averages));
}

TEST_CASE("running statistics that are refused")
{
    const auto problem = [](const std::string& from, const std::string& to) -> std::string {
        std::string text = of_inputs;
        REQUIRE(text.find(from) != std::string::npos);
        text.replace(text.find(from), from.size(), to);
        try {
            read_program(text, "f.graph");
        } catch (const UserError& e) {
            return e.what();
        }
        return "";
    };
    const auto has = [](const std::string& text, const std::string& part) {
        INFO(text);
        CHECK(text.find(part) != std::string::npos);
    };
    has(problem("%m = running_statistic(%mean, %now)", "%m = affine(%now) {alpha=1.0}"),
        "f.graph:6: a model: has the parameter %mean with an average that nothing updates");
    has(problem("running_statistic(%mean, %now)", "running_statistic(%w, %now)"),
        "keeps a running statistic in %w");
    has(problem("%wm = multiply(%m, %w) : compute[width]",
                "%again = running_statistic(%mean, %now) : compute[width]\n%wm = multiply(%again, %w) : "
                "compute[width]"),
        "keeps two running statistics in %mean");
    has(problem("average(decay=0.9)", "average(decay=1.5)"), "use a number from 0 to 1");
    has(problem("average(decay=0.9)", "average(rate=0.5)"), "write update average(decay=");
    has(problem("average(decay=0.9)", "balance(rate=0.5)"),
        "f.graph:6: a model: has the parameter %mean with `update balance`");
    has(problem("average(decay=0.9)", "median(decay=0.5)"), "there is no update 'median'");
    has(problem("update average(decay=0.9)", "decay update average(decay=0.9)"),
        "decay and rows are for the optimizer");
    has(problem("input %in : compute[b,width]", "input %in : compute[b,width] update average(decay=0.5)"),
        "only a parameter has one");
}
