// The search over strategies of programs of the user's own.
#include "base/check.hpp"
#include "catch.hpp"
#include "choose/quick_estimate.hpp"
#include "choose/strategy_space.hpp"
#include "draw.hpp"
#include "io/files/config_file.hpp"
#include "model/program.hpp"
#include "program.hpp"
#include "searches.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

using namespace trivium;

namespace {

/// Layers with weights over y, samples over x; a block for each, one before and one after them.
const std::string tower = R"(graph tower
size b=8 width=192 layers=3
mesh x=2 y=2
input %in : compute[b,width] <x,->
@ forward block 0
parameter %first : f32[width,width] init normal(std=0.1) decay
%x.0 = matmul(%in, %first) {rule="b i, i o -> b o"} : compute[b,width]
repeat i layers {
  @ forward block ${i+1} layer.$i
  parameter %up.$i : f32[width,width*4] <-,y> init normal(std=0.1) decay
  parameter %down.$i : f32[width*4,width] <y,-> init normal(std=0.1) decay
  %h.$i = matmul(%x.$i, %up.$i) {rule="b i, i o -> b o"} : compute[b,width*4]
  %g.$i = tanh(%h.$i) : compute[b,width*4]
  %f.$i = matmul(%g.$i, %down.$i) {rule="b i, i o -> b o"} : compute[b,width]
  %x.${i+1} = add(%x.$i, %f.$i) : compute[b,width]
}
@ forward block ${layers+1} head
%square = multiply(%x.${layers}, %x.${layers}) : compute[b,width]
%loss = reduce(%square) {combine="sum", dims="0 1"} : f32[]
output %loss
)";

/// tower without its lines that mark blocks.
std::string without_blocks()
{
    std::string text = tower;
    for (std::size_t at; (at = text.find("@ forward")) != std::string::npos;)
        text.erase(at, text.find('\n', at) - at);
    return text;
}

RunConfig tower_config(std::vector<std::string> overrides, const std::string& text = tower)
{
    overrides.insert(overrides.begin(), {"model.family=graph", "model.file=tower.graph"});
    RunConfig c = read_config("", overrides);
    c.model.program = read_program(text, "tower.graph", c.model.sizes);
    resolve_and_validate(c);
    return c;
}

RunConfig drawn_program(const RunConfig& base, i64 ranks, Draw& draw)
{
    RunConfig c = base;
    ParallelConfig& p = c.parallel;
    for (i64* degree : {&p.axes.list[0].degree, &p.axes.list[1].degree, &p.pipeline}) {
        *degree = i64{1} << below(draw, 3);
        if (ranks % *degree != 0)
            *degree = 1;
        ranks /= *degree;
    }
    p.data = ranks;
    p.zero = below(draw, 4);
    c.train.micro_batch = i64{1} << below(draw, 4);
    p.schedule = p.pipeline == 1 ? "1f1b"
                                 : std::string(names_of_enum<ScheduleKind>[static_cast<std::size_t>(
                                       below(draw, static_cast<i64>(names_of_enum<ScheduleKind>.size())))]);
    p.recompute = static_cast<Recompute>(below(draw, 3));
    return c;
}

} // namespace

TEST_CASE("closed forms of a program depend on the degree of each axis, in any order of the mesh")
{
    const Machine h100 = machine_called("h100");
    Compiling estimator(h100);
    const auto step_with = [](QuickEstimator& quick, const std::string& axes, const std::string& order) {
        const RunConfig c =
            tower_config({"train.global_batch=16", "train.micro_batch=4", "model.sizes.width=4096",
                          "parallel.axes=" + axes, "parallel.order=[\"data\",\"pipeline\"," + order + "]"});
        return quick.estimate(with_usual_policy(c)).step;
    };
    const auto threads = [](const ParallelConfig&) { return 1; };
    QuickEstimator both(estimator, h100, threads), alone(estimator, h100, threads);
    const Seconds samples = step_with(both, "{x=4,y=1}", "\"x\",\"y\""),
                  weights = step_with(both, "{x=1,y=4}", "\"y\",\"x\"");
    CHECK(samples != weights);
    CHECK(weights == step_with(alone, "{x=1,y=4}", "\"y\",\"x\""));
}

TEST_CASE("a lower bound of a step is below the closed forms of all stages of ZeRO and recomputations, and "
          "close to some")
{
    const Machine h100 = machine_called("h100");
    const std::vector<std::string> program{"train.global_batch=32", "model.sizes.layers=7",
                                           "model.sizes.width=1024"},
        transformer{"model.dim=256", "model.heads=8", "model.layers=8", "train.global_batch=32"};
    struct Row {
        bool is_program;
        std::vector<std::string> given;
        Recompute least;
    };
    for (const auto& [is_program, given, level] : std::vector<Row>{
             {true, {}, Recompute::none},
             {true, {"parallel.overlap=false"}, Recompute::none},
             {true, {"parallel.recompute=full", "parallel.recompute_layers=3"}, Recompute::selective},
             {false, {}, Recompute::none},
             {false, {"parallel.recompute=full"}, Recompute::full}}) {
        std::vector<std::string> overrides = is_program ? program : transformer;
        overrides.insert(overrides.end(), given.begin(), given.end());
        const RunConfig base = is_program ? tower_config(overrides) : toy_config(overrides);
        Compiling estimator(h100);
        QuickEstimator quick(estimator, h100, [](const ParallelConfig&) { return 1; });
        const OpenSettings open = open_settings(base);
        int strategies = 0;
        double closest = 0;
        for (const ParallelConfig& grid : grids_for(base, 8))
            for_each_strategy(base, open, grid, h100, [&](const RunConfig& c) {
                if (++strategies % (contracts_on ? 59 : 7) != 0)
                    return;
                try {
                    const Seconds least = quick.least_step(c, level);
                    for (const RunConfig& each : memory_settings(c, open)) {
                        const Seconds step = quick.estimate(each).step;
                        INFO(to_toml(each, {"parallel", "train"}));
                        CHECK(least <= step * (1 + 1e-9));
                        closest = std::max(closest, least / step);
                    }
                } catch (const UserError&) { // more stages than blocks
                }
            });
        CHECK(strategies > 500);
        CHECK(closest > 0.8);
    }
}

TEST_CASE("of a program, too, no strategy that is drawn is faster than the one that the search finds",
          "[release]")
{
    Draw draw(3);
    const RunConfig base = tower_config({"train.global_batch=64"});
    const Machine machine = small_nodes();
    const SearchResult found = search(base, 8, machine);
    REQUIRE_FALSE(found.strategies.empty());
    const Seconds best = found.strategies.front().score.step;
    int legal = 0;
    for (int draws = 0; draws < 60; ++draws) {
        const RunConfig c = drawn_program(base, 8, draw);
        const Seconds step = step_of(c, machine);
        if (step == 0)
            continue;
        ++legal;
        INFO(to_toml(c, {"parallel", "train"})
             << "\nfound\n"
             << to_toml(found.strategies.front().config, {"parallel", "train"}));
        CHECK(best <= step * (1 + 1e-9));
    }
    CHECK(legal > 10);
}

TEST_CASE("the grids of a program have its axes, and stages if it has blocks")
{
    const auto grids = [](const std::vector<std::string>& overrides, i64 ranks, const std::string& text) {
        std::vector<std::string> all{"train.global_batch=16"};
        all.insert(all.end(), overrides.begin(), overrides.end());
        return grids_for(tower_config(all, text), ranks);
    };
    std::set<std::vector<i64>> seen;
    for (const ParallelConfig& p : grids({}, 8, tower)) {
        CHECK(rank_count(p) <= 8);
        CHECK(rank_count(p) > 4);
        CHECK(16 % batch_ranks(p) == 0);
        CHECK(p.tensor == 1);
        CHECK(p.pipeline <= 5);
        seen.insert(degrees_of(p));
    }
    for (const std::vector<i64>& each : std::vector<std::vector<i64>>{{8, 1, 1, 1, 1, 1},
                                                                      {1, 1, 1, 1, 8, 1},
                                                                      {1, 1, 1, 1, 1, 8},
                                                                      {1, 1, 2, 1, 2, 2},
                                                                      {2, 1, 2, 1, 1, 2}})
        CHECK(seen.contains(each)); // data, context, pipeline, tensor, x, y
    for (const ParallelConfig& p : grids({}, 8, without_blocks()))
        CHECK(p.pipeline == 1);
    const std::vector<ParallelConfig> kept = grids({"parallel.axes.y=4"}, 8, tower);
    CHECK(kept.size() > 1);
    for (const ParallelConfig& p : kept)
        CHECK(p.axes.list == ProgramAxes{{{"x", 1, true}, {"y", 4}}}.list);
    CHECK(grids({"parallel.axes.y=4", "parallel.data=2"}, 8, tower).size() == 1);
    CHECK(std::ranges::any_of(grids({"parallel.axes.y=4"}, 6, tower), // 4 does not divide 6
                              [](const ParallelConfig& p) { return p.axes.list[1].degree != 4; }));
}

TEST_CASE("strategies of a program fit the memory; without one, the smallest is the answer")
{
    const RunConfig c = tower_config({"train.global_batch=16"});
    const auto largest = [](const Strategy& s) { return std::ranges::max(s.score.bytes); };
    const SearchResult all = search(c, 4, small_nodes());
    REQUIRE_FALSE(all.strategies.empty());
    const Bytes most = largest(*std::ranges::min_element(all.strategies, {}, largest)) * 6 / 5;
    CHECK(most < largest(*std::ranges::max_element(all.strategies, {}, largest)));
    const SearchResult found = search(c, 4, small_nodes(most));
    REQUIRE_FALSE(found.strategies.empty());
    for (const Strategy& s : found.strategies)
        CHECK(largest(s) <= most);
    const SearchResult none = search(c, 4, small_nodes(1000));
    CHECK(none.strategies.empty());
    CHECK(none.smallest);
}

TEST_CASE("plan --ranks writes the strategy of a program; more stages than blocks are refused", "[release]")
{
    const Folder folder;
    write_text(folder / "tower.graph", tower);
    const auto plan = [&](std::vector<std::string> arguments) {
        arguments.insert(arguments.begin(), {"plan", "run.toml", "--machine", "node.toml", "--json"});
        const Outcome outcome = run_program(arguments, folder.path());
        INFO(outcome.err);
        REQUIRE(outcome.status == 0);
        return nlohmann::json::parse(outcome.out);
    };
    const std::string config =
        "[model]\nfamily = \"graph\"\nfile = \"tower.graph\"\n[train]\nglobal_batch = 16\n";
    write_text(folder / "run.toml", config);
    write_text(folder / "node.toml", "is_device = true\nname = \"node\"\nprocess = 1\nmemory = 1e12\n");
    const auto made = plan({"--ranks", "4", "--write", "found.toml"});
    i64 ranks = 1;
    for (const auto& degree : made["grid"])
        ranks *= degree.get<i64>();
    CHECK(ranks == 4);
    CHECK(made["strategies"].size() > 1);
    CHECK(made["strategies"][0]["parallel"]["axes"]["x"] == made["grid"]["x"]);
    CHECK(plan({"--ranks", "4", "--explain", "2"})["estimated_step_seconds"] >=
          made["estimated_step_seconds"]);
    write_text(folder / "run.toml", read_text(folder / "found.toml"));
    CHECK(plan({})["estimated_step_seconds"] == made["estimated_step_seconds"]);
    const Outcome stages =
        run_program({"plan", "run.toml", "parallel.pipeline=6", "train.micro_batch=1"}, folder.path());
    CHECK(stages.status == 2);
    CHECK(has(stages.err, "6 stages for a model of 5 blocks"));
    CHECK(has(stages.err, "the program has 5 blocks"));
}

// What block 2 reads of block 0 is sent past block 1.
TEST_CASE("plan refuses stages that would wait for each other, as train does")
{
    const RunConfig c = tower_config({"train.global_batch=8", "train.micro_batch=1", "parallel.pipeline=2"});
    CompileConfig options;
    options.machine = machine_called("cpu");
    Choices choices = decide(c, options.machine);
    for (RankOrder& rank : choices.order.ranks)
        std::ranges::reverse(rank); // backward passes first
    CHECK_THROWS_AS(compile_training(choices, options), UserError);
    CHECK_THROWS_AS(
        compile_ranks(choices, options, is_first_of_stage, [](i64, const Compiled&) { return true; }),
        UserError);
}
