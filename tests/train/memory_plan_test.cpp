// Memory plans of Llama presets, and what `explain --only memory` and `--svg` show of a plan.
#include "base/check.hpp"
#include "catch.hpp"
#include "choose/decide.hpp"
#include "cli/memory_picture.hpp"
#include "compile/compile.hpp"
#include "io/files/config_file.hpp"
#include "program.hpp"
#include "svg.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>

using namespace trivium;

namespace {

struct Grid {
    const char* preset;
    i64 data, pipeline, tensor, zero, batch;
    Recompute recompute = Recompute::none;
    i64 rank = 0;
};

Compiled compiled_on(const Grid& grid)
{
    RunConfig c;
    c.model = preset(grid.preset);
    if (c.model.vocab == 0)
        c.model.vocab = 1000;
    c.train.precision = Precision::bf16;
    c.train.global_batch = grid.batch;
    c.train.micro_batch = 1;
    c.parallel.data = grid.data;
    c.parallel.pipeline = grid.pipeline;
    c.parallel.tensor = grid.tensor;
    c.parallel.zero = static_cast<int>(grid.zero);
    c.parallel.recompute = grid.recompute;
    resolve_and_validate(c);
    return compile_training(c, {machine_called("h100"), {}, grid.rank});
}

} // namespace

TEST_CASE("less than 2 % of the arena is lost to fragmentation on Llama presets", "[release]")
{
    for (const Grid& grid : std::vector<Grid>{{"llama3-8b", 8, 1, 1, 1, 64},
                                              {"llama3-8b", 8, 1, 1, 3, 8},
                                              {"llama3-8b", 4, 4, 2, 3, 32, Recompute::selective, 2},
                                              {"llama2-7b", 8, 1, 1, 2, 32, Recompute::full},
                                              {"llama3-70b", 8, 4, 8, 1, 64, Recompute::selective}}) {
        const MemoryPlan plan = compiled_on(grid).memory;
        INFO(grid.preset << " zero " << grid.zero << ": " << plan.arena << " of " << plan.lower_bound);
        CHECK(plan.arena >= plan.lower_bound);
        CHECK(static_cast<double>(plan.arena - plan.lower_bound) < 0.02 * static_cast<double>(plan.arena));
    }
}

TEST_CASE("the history of a program's memory has the peak of the plan")
{
    for (const Grid& grid : std::vector<Grid>{{"llama-1m", 1, 1, 1, 0, 4},
                                              {"llama-1m", 2, 2, 1, 1, 8, Recompute::none, 1},
                                              {"llama-1m", 4, 1, 1, 3, 8, Recompute::full},
                                              {"toy-gemma3", 2, 1, 2, 1, 8, Recompute::selective},
                                              {"toy-neox", 1, 2, 2, 0, 8}}) {
        const Compiled compiled = compiled_on(grid);
        const Program& program = compiled.programs[train_program];
        const MemoryHistory history = memory_history(program.schedule, program.graph);
        const BytesByKind peak = alive_at(history, program.schedule, history.peak);
        CHECK(peak.sum() == compiled.memory.lower_bound);
        for (int kind = 0; kind < memory_kind_count; ++kind)
            CHECK(peak.bytes[kind] == compiled.memory.by_kind[kind]);
        Bytes rows = 0;
        for (const PeakRow& row : peak_rows(history, program.schedule))
            rows += row.bytes;
        CHECK(rows == compiled.memory.lower_bound);
        for (std::size_t time = 0; time < history.length; time += 7)
            CHECK(alive_at(history, program.schedule, time).sum() <= peak.sum());
        REQUIRE(!history.parts.empty());
        CHECK(history.parts.front().name == "prologue");
        CHECK(history.parts.back().name == "epilogue");
        CHECK(history.parts.front().begin == 0);
        CHECK(history.parts.back().end == history.length);
        for (std::size_t i = 1; i < history.parts.size(); ++i)
            CHECK(history.parts[i].begin == history.parts[i - 1].end);
        // No byte of the arena belongs to two buffers at a time.
        std::vector<Alive> alive = history.alive;
        std::sort(alive.begin(), alive.end(),
                  [](const Alive& a, const Alive& b) { return a.begin < b.begin; });
        for (std::size_t i = 0; i < alive.size(); ++i) {
            const Buffer& a = program.schedule[alive[i].buffer];
            REQUIRE(a.offset + a.bytes <= compiled.memory.arena);
            for (std::size_t j = i + 1; j < alive.size() && alive[j].begin < alive[i].end; ++j) {
                const Buffer& b = program.schedule[alive[j].buffer];
                INFO(a.name << " " << b.name);
                REQUIRE((a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset));
            }
        }
    }
}

TEST_CASE("explain draws the arena: rectangles within it that do not overlap")
{
    const Folder folder;
    const std::string svg = folder / "memory.svg";
    const Outcome outcome =
        run_program({"explain", "/dev/null", "model.preset=llama-1m", "model.vocab=1000",
                     "train.global_batch=4", "train.micro_batch=2", "--only", "memory", "--svg", svg},
                    folder.path());
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    CHECK(has(outcome.out, "# largest buffers at the peak of program train"));
    CHECK(has(outcome.out, "A activations"));
    const nlohmann::json memory = nlohmann::json::parse(
        run_program({"explain", "/dev/null", "model.preset=llama-1m", "model.vocab=1000",
                     "train.global_batch=4", "train.micro_batch=2", "--only", "memory", "--json"},
                    folder.path())
            .out)["memory"];
    Bytes bytes = 0;
    for (const nlohmann::json& row : memory["buffers_at_peak"])
        bytes += row["bytes"].get<Bytes>();
    CHECK(bytes == memory["lower_bound_bytes"]);
    CHECK(has(outcome.out, format_count(bytes) + " bytes, as Step"));
    const std::string text = read_text(svg);
    const std::vector<Rectangle> drawn = rectangles_of_svg(text, "buffer");
    REQUIRE(drawn.size() > 100);
    CHECK(has(text, "<title>"));
    CHECK(has(text, "prefers-color-scheme:dark"));
    for (const char* said :
         {"llama, 4 layers", ">rank 0 of data 1 x pipeline 1 x tensor 1; on &#39;generic CPU core",
          ">f: forward<", ">b: backward<", ">e: epilogue<"})
        CHECK(has(text, said));
    double most_right = 0, highest = 1e9;
    for (std::size_t i = 0; i < drawn.size(); ++i) {
        const Rectangle& a = drawn[i];
        CHECK(a.x >= 74 - 0.01);
        CHECK(a.y + a.height <= 720 - 78 + 0.02);
        most_right = std::max(most_right, a.x + a.width);
        highest = std::min(highest, a.y);
        for (std::size_t j = 0; j < i; ++j) {
            const Rectangle& b = drawn[j];
            const double both_x = std::min(a.x + a.width, b.x + b.width) - std::max(a.x, b.x),
                         both_y = std::min(a.y + a.height, b.y + b.height) - std::max(a.y, b.y);
            if (both_x > 0.025 && both_y > 0.025) // beyond the rounding of coordinates
                FAIL("two rectangles overlap by " << both_x << " x " << both_y);
        }
    }
    CHECK(most_right == Approx(1200 - 170).margin(0.02)); // parameters last over the whole step
    CHECK(highest >= 68 - 0.01);
}

TEST_CASE("a picture of many buffers leaves out the smallest and says so")
{
    ArenaChart chart;
    chart.kinds = {"a", "b<&>"};
    chart.arena = 1 << 20;
    chart.length = 1000;
    chart.most = 50;
    for (int i = 0; i < 1000; ++i)
        chart.rectangles.push_back({static_cast<double>(i), static_cast<double>(i + 1), 0, 1 << (10 + i % 10),
                                    i % 2, str("<", i, ">")});
    chart.rectangles.push_back({0, 1000, 1 << 19, 1 << 19, 0, "the largest"});
    const std::string svg = arena_svg(chart);
    CHECK(rectangles_of_svg(svg, "buffer").size() == 50);
    CHECK(has(svg, "951 smaller rectangles are not drawn"));
    CHECK(has(svg, "<title>the largest</title>"));
    CHECK(has(svg, "b&lt;&amp;&gt;"));
}

TEST_CASE("equal stages are compiled once for an outline, as if each was compiled alone", "[release]")
{
    const auto choices_of = [](std::vector<std::string> keys) {
        for (const char* const key :
             {"model.dim=64", "model.heads=4", "model.vocab=258", "model.seq=32", "parallel.bucket=greedy",
              "train.global_batch=32", "parallel.data=2", "parallel.pipeline=4", "parallel.recompute=none",
              "parallel.gather_every=pass", "parallel.reduce_every=microbatch",
              "parallel.update=synchronous"})
            keys.emplace_back(key);
        RunConfig c = read_config("", keys);
        resolve_and_validate(c);
        return c;
    };
    CompileConfig options;
    options.machine = machine_called("h100");
    options.outline = true;
    for (const std::vector<std::string>& keys :
         {std::vector<std::string>{"model.layers=10", "parallel.schedule=1f1b", "parallel.zero=1"},
          {"model.layers=22", "parallel.schedule=zb-v", "parallel.zero=3", "parallel.tensor=2"},
          {"model.layers=30", "parallel.schedule=interleaved", "parallel.chunks=2",
           "model.layer_pattern=[\"sliding\", \"full\"]", "model.window=8"}}) {
        INFO(keys[1]);
        const RunConfig config = choices_of(keys);
        const PipelineOrder order = training_order(config);
        TrainingCompiler shared(config, order, options);
        std::vector<PassRecord> passes;
        for (i64 rank = 0; rank < shared.mesh().ranks(); ++rank) {
            if (!is_first_of_stage(shared.mesh(), rank))
                continue;
            const Compiled one = shared.rank(rank, "greedy"),
                           alone = TrainingCompiler(config, order, options).rank(rank, "greedy");
            passes = one.passes;
            CHECK(one.memory.arena == alone.memory.arena);
            CHECK(one.memory.snapshot == alone.memory.snapshot);
            const Program &a = one.programs.front(), &b = alone.programs.front();
            REQUIRE(a.graph.ops.size() == b.graph.ops.size());
            REQUIRE(a.schedule.steps.size() == b.schedule.steps.size());
            for (std::size_t i = 0; i < a.graph.ops.size(); ++i) {
                const Op &x = a.graph.ops[i], &y = b.graph.ops[i];
                REQUIRE(x.kind == y.kind);
                REQUIRE(x.block == y.block);
                REQUIRE(std::tuple(x.attrs->from, x.attrs->to, x.attrs->tag, x.attrs->reader) ==
                        std::tuple(y.attrs->from, y.attrs->to, y.attrs->tag, y.attrs->reader));
                REQUIRE(x.operands == y.operands);
            }
            for (const ValueId p : a.graph.with_role(Role::parameter))
                CHECK(a.graph[p].name == b.graph[p].name);
        }
        CHECK(std::ranges::count(passes, "partition", &PassRecord::name) < order.shape.ranks);
    }
}

TEST_CASE("with split backward passes, or several stages of a rank, an arena is hardly larger than what is "
          "alive at its peak",
          "[release]")
{
    struct Case {
        const char *schedule, *recompute;
        int pipeline, chunks, tensor;
        double most; // of arena / lower bound
    };
    // With many microbatches, and activations that are most of it.
    const std::vector<std::string> usual{"model.dim=64",       "model.heads=4",   "model.vocab=258",
                                         "model.seq=256",      "model.layers=14", "train.global_batch=64",
                                         "train.micro_batch=1"};
    for (const Case& each :
         {Case{"zb-h1", "full", 8, 0, 1, 1.02}, Case{"zb-v", "full", 8, 0, 1, 1.02},
          Case{"dualpipe-v", "full", 8, 0, 1, 1.02}, Case{"v-half", "full", 8, 0, 1, 1.02},
          Case{"interleaved", "none", 4, 4, 1, 1.05}, Case{"dualpipe-v", "selective", 4, 0, 2, 1.02},
          Case{"zb-h1", "selective", 4, 0, 2, 1.02}}) {
        INFO(each.schedule << ", tensor " << each.tensor);
        std::vector<std::string> overrides = usual;
        for (const std::string& key :
             {str("schedule=", each.schedule), str("recompute=", each.recompute),
              str("pipeline=", each.pipeline), str("chunks=", each.chunks), str("tensor=", each.tensor)})
            overrides.push_back("parallel." + key);
        RunConfig c = read_config("", overrides);
        resolve_and_validate(c);
        CompileConfig options;
        options.machine = machine_called("cpu");
        compile_ranks(decide(c, options.machine), options, is_first_of_stage,
                      [&](i64 rank, const Compiled& compiled) {
                          INFO("rank " << rank);
                          CHECK(static_cast<double>(compiled.memory.arena) <=
                                each.most * static_cast<double>(compiled.memory.lower_bound));
                          return true;
                      });
    }
}
