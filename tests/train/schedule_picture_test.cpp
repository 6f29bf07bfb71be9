// Pictures of pipeline schedules against one drawn by hand, the simulator's Timeline, and the settings.
#include "base/check.hpp"
#include "catch.hpp"
#include "choose/decide.hpp"
#include "cli/schedule_picture.hpp"
#include "plan/rank_activity.hpp"
#include "program.hpp"
#include "schedule/named_order.hpp"
#include "schedule/play.hpp"
#include "svg.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>

using namespace trivium;

namespace {

/// An order at unit times.
ScheduleChart chart_of(ScheduleKind kind, i64 ranks, i64 chunks, i64 microbatches)
{
    const PipelineOrder order = named_order(kind, ranks, chunks, microbatches);
    const std::optional<Playback> played = play(order, unit_costs(order.shape));
    REQUIRE(played);
    ScheduleChart chart;
    chart.title = "by hand";
    chart.length = chart.step = played->length();
    for (std::size_t r = 0; r < order.ranks.size(); ++r) {
        ScheduleChart::Row row;
        row.name = std::to_string(r);
        row.idle = chart.length;
        for (std::size_t t = 0; t < order.ranks[r].size(); ++t) {
            const Task& task = order.ranks[r][t];
            const Span& span = played->spans[r][t];
            row.spans.push_back({static_cast<ScheduleMark>(task.work), span.begin, span.end,
                                 task.stage / ranks, task.microbatch, to_text(task)});
            row.idle -= span.end - span.begin;
        }
        row.in_flight = in_flight(order.ranks[r]);
        chart.rows.push_back(std::move(row));
    }
    return chart;
}

SimulatedStep simulated(const std::vector<std::pair<const char*, i64>>& grid, const char* schedule,
                        const char* machine)
{
    RunConfig c;
    c.model = {.layers = 6, .dim = 64, .heads = 4, .vocab = 300, .seq = 32};
    c.train.global_batch = 12;
    c.train.micro_batch = 1;
    c.parallel.schedule = schedule;
    for (const auto& [key, value] : grid)
        (std::string(key) == "data"       ? c.parallel.data
         : std::string(key) == "tensor"   ? c.parallel.tensor
         : std::string(key) == "pipeline" ? c.parallel.pipeline
                                          : c.parallel.zero) = value;
    resolve_and_validate(c);
    return simulate_step(decide(c, machine_called(machine)), {machine_called(machine), {}}, train_program, 1);
}

std::vector<std::string> lines_of(const std::string& text)
{
    std::vector<std::string> lines;
    for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1)
        lines.push_back(text.substr(at, text.find('\n', at) - at));
    return lines;
}

} // namespace

TEST_CASE("1F1B on two ranks with three microbatches, at unit times, two characters a unit")
{
    const std::vector<std::string> lines =
        lines_of(schedule_text(chart_of(ScheduleKind::one_f_one_b, 2, 1, 3), 29));
    const std::vector<std::string> drawn{
        "by hand",
        "   0 F0F1....B0--F2B1--..B2--",
        "   1 ..F0B0--F1B1--F2B2--....",
        "F forward, B backward, . idle; numbers are microbatches",
        "rank  bubble  peak in flight  activations at the memory peak",
        "   0  25.0 %               2  0 B",
        "   1  25.0 %               1  0 B",
        "step 12.0 s, bubble 25.0 % (mean of the ranks)",
    };
    CHECK(lines == drawn);
}

TEST_CASE("chunks have their own letters, numbers stand where they fit, and what lasts longest is drawn")
{
    ScheduleChart chart = chart_of(ScheduleKind::interleaved, 2, 2, 2);
    CHECK(chart.length == 15); // 2 chunks of 2 microbatches of 3, and a bubble of one forward and backward
    CHECK(lines_of(schedule_text(chart, 5 + 30))[1].substr(5, 8) == "F0F1f0f1");
    chart = {};
    chart.length = chart.step = 20;
    chart.rows.resize(1);
    chart.rows[0].spans = {
        {ScheduleMark::forward, 0, 4.6, 0, 12, ""},    {ScheduleMark::weight_gradient, 4.6, 7, 1, 3, ""},
        {ScheduleMark::collective, 7.2, 9, 0, -1, ""}, {ScheduleMark::backward, 9, 16, 0, 1, ""},
        {ScheduleMark::wait, 10, 12, 0, -1, ""},       {ScheduleMark::step, 18, 20, 0, -1, ""}};
    CHECK(lines_of(schedule_text(chart, 25))[1] == "     F12--w3==B..B1--..SS");
}

TEST_CASE("three chunks have three colours")
{
    ScheduleChart chart = chart_of(ScheduleKind::interleaved, 2, 3, 4);
    chart.subtitles = {"a model", "a grid & a machine"};
    const std::string svg = schedule_svg(chart);
    CHECK(has(svg, ">a model<"));
    CHECK(has(svg, ">a grid &amp; a machine<"));
    CHECK(has(svg, "chunks 0 to 2"));
    std::set<std::string> classes;
    for (const Rectangle& task : rectangles_of_svg(svg, "task"))
        classes.insert(task.classes);
    for (const char* mark : {"m0", "m1"}) {
        std::vector<int> brightness;
        for (const char* chunk : {"n0", "n1", "n2"}) {
            CHECK(classes.count(str("task ", mark, " ", chunk)) == 1);
            const std::string rule = str(".", mark, ".", chunk, "{fill:#");
            const std::size_t at = svg.find(rule);
            REQUIRE(at != std::string::npos);
            int sum = 0;
            for (const std::size_t digits : {0, 2, 4})
                sum += std::stoi(svg.substr(at + rule.size() + digits, 2), nullptr, 16);
            brightness.push_back(sum);
        }
        CHECK(brightness[1] > brightness[0] + 100);
        CHECK(brightness[2] > brightness[1] + 100);
    }
}

TEST_CASE("what a rank does is what its Timeline says", "[release]")
{
    struct Case {
        const char* schedule;
        std::vector<std::pair<const char*, i64>> grid;
        const char* machine;
    };
    const std::vector<Case> cases{
        {"1f1b", {{"pipeline", 3}}, "cpu"},
        {"interleaved", {{"pipeline", 2}, {"tensor", 2}}, "h100"},
        {"zb-v", {{"pipeline", 2}, {"data", 2}, {"zero", 2}}, "h100"},
        {"dualpipe-v", {{"pipeline", 3}}, "h100"},
        {"gpipe", {{"pipeline", 2}, {"data", 3}, {"zero", 3}}, "cpu"},
        {"1f1b", {{"tensor", 2}}, "h100"},
    };
    for (const Case& c : cases) {
        const SimulatedStep step = simulated(c.grid, c.schedule, c.machine);
        for (const SimulatedRank& rank : step.ranks) {
            INFO(c.schedule << " on " << c.machine << ", rank " << rank.rank);
            const Schedule& schedule = rank.program.schedule;
            const Graph& graph = rank.program.graph;
            const std::vector<Span>& spans = rank.timeline.spans;
            const RankActivity activity = rank_activity(graph, schedule, rank.program.tasks, rank.timeline);
            RankOrder drawn;
            for (const TaskSpan& t : activity.tasks)
                drawn.push_back(t.task);
            CHECK(drawn == rank.program.tasks);
            for (std::size_t t = 1; t < activity.tasks.size(); ++t)
                CHECK(activity.tasks[t - 1].span.end <= activity.tasks[t].span.begin);
            // Between any two moments at which something begins or ends, from all Steps.
            std::set<Seconds> moments;
            for (const Span& span : spans)
                moments.insert({span.begin, span.end});
            const auto covered = [](const std::vector<Span>& all, Seconds at) {
                return std::any_of(all.begin(), all.end(),
                                   [&](const Span& s) { return s.begin <= at && at < s.end; });
            };
            Seconds busy = 0, alone = 0;
            for (auto at = moments.begin(); std::next(at) != moments.end(); ++at) {
                bool computes = false, moves = false;
                for (std::size_t i = 0; i < spans.size(); ++i)
                    if (spans[i].begin <= *at && *at < spans[i].end) {
                        const Step& s = schedule.steps[i];
                        computes = computes || (s.kind == StepKind::op && s.queue == queue_compute);
                        moves = moves || (s.kind == StepKind::op && graph[s.op].attrs->axis &&
                                          *graph[s.op].attrs->axis != "pipeline");
                    }
                const Seconds lasts = *std::next(at) - *at;
                busy += computes || moves ? lasts : 0;
                alone += !computes && moves ? lasts : 0;
                CHECK(covered(activity.collectives, *at) == (!computes && moves));
            }
            Seconds whole = 0, of_step = 0;
            for (std::size_t i = 0; i < spans.size(); ++i)
                if (const Step& s = schedule.steps[i]; s.kind == StepKind::op && s.queue == queue_compute &&
                                                       graph[s.op].region != Region::microbatch)
                    whole += spans[i].end - spans[i].begin;
            for (const Span& span : activity.step)
                of_step += span.end - span.begin;
            CHECK(of_step == Approx(whole));
            Seconds collectives = 0;
            for (const Span& span : activity.collectives)
                collectives += span.end - span.begin;
            CHECK(activity.busy == Approx(busy));
            CHECK(collectives == Approx(alone).margin(1e-12));
            CHECK(activity.busy ==
                  Approx(rank.timeline.busy(schedule, queue_compute) + collectives).epsilon(1e-9));
        }
        const ScheduleChart chart = schedule_picture(step);
        CHECK(chart.length == step.length());
        for (const ScheduleChart::Row& row : chart.rows)
            CHECK((row.idle >= 0 && row.idle < chart.length));
    }
}

TEST_CASE("explain draws the schedule: one rectangle per task, inside the frame, in the row of its rank")
{
    const Folder folder;
    const std::string svg = folder / "schedule.svg";
    std::vector<std::string> words{"explain",
                                   "/dev/null",
                                   "model.preset=toy",
                                   "train.global_batch=5",
                                   "train.micro_batch=1",
                                   "parallel.pipeline=2",
                                   "parallel.schedule=zb-h1",
                                   "--only",
                                   "schedule"};
    const auto with = [&](std::vector<std::string> more) {
        std::vector<std::string> all = words;
        all.insert(all.end(), more.begin(), more.end());
        return run_program(all, folder.path());
    };
    const Outcome text = with({"--svg", svg});
    INFO(text.err);
    REQUIRE(text.status == 0);
    const std::vector<std::string> lines = lines_of(text.out);
    REQUIRE(lines.size() > 4);
    CHECK(lines[0] == "# schedule, simulated");
    CHECK(lines[1] == "schedule zb-h1 of program train: 2 pipeline ranks, 1 chunk each, 5 microbatches");
    CHECK(lines[2].size() == 100); // stdout is no terminal
    const PipelineOrder order = named_order(ScheduleKind::zb_h1, 2, 1, 5);
    const std::string picture = read_text(svg);
    std::vector<Rectangle> tasks = rectangles_of_svg(picture, "task");
    std::erase_if(tasks, [](const Rectangle& r) { return !has(r.hint, "microbatch"); });
    REQUIRE(tasks.size() == order.ranks[0].size() + order.ranks[1].size());
    std::size_t at = 0;
    for (const RankOrder& rank : order.ranks)
        for (const Task& task : rank) {
            const Rectangle& r = tasks[at++];
            INFO(to_text(task) << ": " << r.hint);
            CHECK(has(r.classes, str("m", static_cast<int>(task.work))));
            CHECK(has(r.hint, str(" of microbatch ", task.microbatch, ", stage ", task.stage, ", ")));
            CHECK(has(r.hint, " ms to "));
            CHECK((r.x >= 74 - 0.01 && r.x + r.width <= 1190 + 0.01));
            CHECK(r.y == tasks[&rank == order.ranks.data() ? 0 : order.ranks[0].size()].y);
        }
    CHECK(has(picture, "W: weight gradient"));

    const auto json = nlohmann::json::parse(with({"--json"}).out)["schedule"];
    CHECK(json["name"] == "zb-h1");
    CHECK(json["microbatches"] == 5);
    REQUIRE(json["pipeline_ranks"].size() == 2);
    for (std::size_t r = 0; r < 2; ++r) {
        CHECK(json["pipeline_ranks"][r]["peak_in_flight"] == in_flight(order.ranks[r]));
        std::string marks, want;
        for (const auto& span : json["pipeline_ranks"][r]["spans"])
            if (span["microbatch"] >= 0)
                marks += span["mark"].get<std::string>() + span["microbatch"].dump();
        for (const Task& task : order.ranks[r])
            want += str(name_of(task.work), task.microbatch);
        CHECK(marks == want);
    }
    const auto plan = nlohmann::json::parse(
        run_program({"plan", "/dev/null", "model.preset=toy", "train.global_batch=5", "train.micro_batch=1",
                     "parallel.pipeline=2", "parallel.schedule=zb-h1", "--json"},
                    folder.path())
            .out);
    CHECK(json["step_seconds"] == plan["estimated_step_seconds"]);
}

TEST_CASE("a schedule cannot be drawn of a graph file, nor share its file with another picture")
{
    const Folder folder;
    const auto refuses = [&](const std::vector<std::string>& arguments, const std::string& words) {
        const Outcome outcome = run_program(arguments, folder.path());
        INFO(outcome.err);
        CHECK(outcome.status == 2);
        CHECK(has(outcome.err, words));
        CHECK(has(outcome.err, "remedy: "));
    };
    write_text(folder / "x.graph", "graph x\n");
    refuses({"explain", "x.graph", "--only", "schedule"},
            "--only schedule: a graph file has the program of one");
    refuses({"explain", "/dev/null", "model.preset=toy", "--only", "schedule,memory", "--svg", "x.svg"},
            "--svg: one file cannot have the pictures");
}
