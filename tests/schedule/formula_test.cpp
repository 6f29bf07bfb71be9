// Named schedules against published formulas, an independent event simulation and the best of all orders.
#include "base/check.hpp"
#include "catch.hpp"
#include "schedule/named_order.hpp"
#include "schedule/order_check.hpp"
#include "schedule/play.hpp"

#include <functional>
#include <map>
#include <queue>
#include <random>

using namespace trivium;

namespace {

using Kind = ScheduleKind;

std::vector<Kind> all_kinds()
{
    std::vector<Kind> all;
    for (std::size_t i = 0; i < names_of_enum<Kind>.size(); ++i)
        all.push_back(static_cast<Kind>(i));
    return all;
}

double most_of(const std::vector<double>& values) { return *std::max_element(values.begin(), values.end()); }

/// Idle time of the idlest rank between its first and its last task (Qi et al. 2023, section 2.3).
Seconds largest_bubble(const Playback& played)
{
    Seconds most = 0;
    for (const std::vector<Span>& spans : played.spans) {
        Seconds idle = 0;
        for (std::size_t i = 1; i < spans.size(); ++i)
            idle += spans[i].begin - spans[i - 1].end;
        most = std::max(most, idle);
    }
    return most;
}

/// The bubble and the peak of activations at unit times, in passes of one stage and microbatch (the table in
/// docs/schedules.md), and from how many microbatches on they hold.
struct Formula {
    Kind kind;
    std::function<i64(i64 p, i64 v)> from, bubble;
    std::function<i64(i64 p, i64 v, i64 m)> peak;
    std::function<bool(i64 p, i64 v, i64 m)> holds = [](i64, i64, i64) { return true; };
};

std::vector<Formula> formulas()
{
    const auto one = [](i64, i64) { return i64{1}; };
    const auto p1 = [](i64 p, i64) { return p; };
    const auto full = [](i64 p, i64) { return 3 * (p - 1); };
    return {
        {Kind::gpipe, one, full, [](i64, i64, i64 m) { return m; }},
        {Kind::one_f_one_b, one, full, [](i64 p, i64, i64 m) { return std::min(m, p); }},
        {Kind::breadth_first, p1, full, [](i64, i64 v, i64 m) { return v * m; }},
        {Kind::interleaved, p1, full, [](i64 p, i64 v, i64 m) { return std::min(v * m, v * p + p - 1); },
         [](i64 p, i64, i64 m) { return m % p == 0; }},
        {Kind::zb_h1, p1, [](i64 p, i64) { return p - 1; }, [](i64 p, i64, i64) { return p; }},
        {Kind::zb_h2, [](i64 p, i64) { return 2 * p - 1; }, [](i64, i64) { return i64{0}; },
         [](i64 p, i64, i64) { return 2 * p - 1; }},
        {Kind::zb_v, [](i64 p, i64) { return 2 * p - 1; }, [](i64, i64) { return i64{0}; },
         [](i64 p, i64, i64) { return 2 * p; }},
        {Kind::v_half, p1, full, [](i64 p, i64, i64) { return p + 2; },
         [](i64 p, i64, i64 m) { return p % 2 == 0 && (p > 2 || m > 1); }},
        {Kind::v_min, p1, [](i64 p, i64) { return 4 * p - (p % 3 == 0 ? 3 : 5); },
         [](i64 p, i64, i64) { return ceil_div(2 * p, i64{3}) + 2; },
         [](i64 p, i64, i64 m) { return p % 3 != 0 || m > p; }},
        {Kind::dualpipe_v, [](i64 p, i64) { return 2 * p; }, [](i64 p, i64) { return p - 1; },
         [](i64 p, i64, i64) { return 2 * p + 1; }},
    };
}

/// Runs tasks as soon as they can, by a queue of events; knows nothing but the orders and the dependencies.
/// Returns the end of each task.
std::map<Task, double> independent(const PipelineOrder& order, const OrderCosts& costs)
{
    const PipelineShape& shape = order.shape;
    std::map<Task, double> end;
    std::vector<std::size_t> next(order.ranks.size(), 0);
    std::vector<double> free(order.ranks.size(), 0);
    const auto result_of = [&](Work work, i64 stage, i64 m) -> const double* {
        for (const Work way : work == Work::forward ? std::vector<Work>{Work::forward}
                                                    : std::vector<Work>{Work::backward, Work::input_gradient})
            if (const auto known = end.find({way, stage, m}); known != end.end())
                return &known->second;
        return nullptr;
    };
    std::priority_queue<std::pair<double, std::size_t>, std::vector<std::pair<double, std::size_t>>,
                        std::greater<>>
        events;
    for (std::size_t r = 0; r < next.size(); ++r)
        events.push({0, r});
    while (!events.empty()) {
        const auto [time, r] = events.top();
        events.pop();
        if (time < free[r] || next[r] == order.ranks[r].size())
            continue;
        const Task task = order.ranks[r][next[r]];
        const StageCost& cost = costs[static_cast<std::size_t>(task.stage)];
        double ready = 0, length = cost.forward;
        bool known = true;
        const auto need = [&](Work work, i64 stage) {
            const double* at = result_of(work, stage, task.microbatch);
            known = known && at;
            const i64 boundary = std::min(stage, task.stage);
            const double message = shape.rank_of(stage) != shape.rank_of(task.stage)
                                       ? costs[static_cast<std::size_t>(boundary)].message
                                       : 0;
            if (at)
                ready = std::max(ready, *at + message);
        };
        if (task.work == Work::forward && task.stage > 0)
            need(Work::forward, task.stage - 1);
        if (task.work == Work::backward || task.work == Work::input_gradient) {
            need(Work::forward, task.stage);
            if (task.stage + 1 < shape.stages())
                need(Work::backward, task.stage + 1);
            length = cost.input_gradient + (task.work == Work::backward ? cost.weight_gradient : 0);
        }
        if (task.work == Work::weight_gradient) {
            need(Work::backward, task.stage);
            length = cost.weight_gradient;
        }
        if (!known)
            continue; // another rank's event wakes it
        if (ready > time) {
            events.push({ready, r});
            continue;
        }
        end[task] = time + length;
        free[r] = time + length;
        ++next[r];
        for (std::size_t other = 0; other < next.size(); ++other)
            events.push({std::max(time + length, free[other]), other});
    }
    return end;
}

OrderCosts random_costs(const PipelineShape& shape, std::mt19937_64& draw)
{
    std::uniform_real_distribution<double> some(0.2, 2);
    OrderCosts costs;
    for (i64 stage = 0; stage < shape.stages(); ++stage)
        costs.push_back({some(draw), some(draw), some(draw), some(draw), draw() % 2 ? some(draw) / 4 : 0});
    return costs;
}

} // namespace

TEST_CASE("at unit times bubbles and peaks are those of the formulas")
{
    for (const Formula& f : formulas())
        for (const i64 p : {2, 3, 4, 6, 8, 16})
            for (i64 v = chunks_of(f.kind).least; v <= std::min<i64>(3, chunks_of(f.kind).most); ++v)
                for (i64 m = f.from(p, v); m <= 64; ++m) {
                    if (!f.holds(p, v, m) || (contracts_on && (p + m) % 7 != 0)) // sanitizers take their time
                        continue;
                    INFO(name_of(f.kind)
                         << ", " << p << " ranks, " << v << " chunks, " << m << " microbatches");
                    const PipelineOrder order = named_order(f.kind, p, v, m);
                    const std::optional<Playback> played = play(order, unit_costs(order.shape));
                    REQUIRE(played);
                    REQUIRE(largest_bubble(*played) == double(f.bubble(p, v)));
                    if (m >= 2 * p) // before, fewer microbatches may be in flight
                        REQUIRE(most_of(played->peak) == double(f.peak(p, v, m)));
                    else
                        REQUIRE(most_of(played->peak) <= double(f.peak(p, v, m)));
                }
}

TEST_CASE("every named schedule can run, and the clock agrees with an independent simulation")
{
    std::mt19937_64 draw(18);
    for (const Kind kind : all_kinds())
        for (i64 p = 1; p <= (contracts_on ? 4 : 9); ++p)
            for (i64 v = chunks_of(kind).least; v <= std::min<i64>(3, chunks_of(kind).most); ++v)
                for (const i64 m : {i64{1}, i64{2}, p, p + 1, 2 * p - 1, 2 * p, 3 * p + 2}) {
                    INFO(name_of(kind)
                         << ", " << p << " ranks, " << v << " chunks, " << m << " microbatches");
                    const PipelineOrder order = named_order(kind, p, v, m);
                    REQUIRE(!find_fault(order));
                    for (const OrderCosts& costs :
                         {unit_costs(order.shape), random_costs(order.shape, draw)}) {
                        const std::optional<Playback> played = play(order, costs);
                        REQUIRE(played);
                        const std::map<Task, double> ends = independent(order, costs);
                        for (std::size_t r = 0; r < order.ranks.size(); ++r)
                            for (std::size_t i = 0; i < order.ranks[r].size(); ++i)
                                REQUIRE(played->spans[r][i].end == Approx(ends.at(order.ranks[r][i])));
                    }
                }
}

TEST_CASE("while a microbatch waits for its weight gradients, it keeps what these need")
{
    // One rank: two forward passes, two input gradients, then the weight gradients.
    const PipelineOrder order{{.ranks = 1, .chunks = 1, .microbatches = 2},
                              {{{Work::forward, 0, 0},
                                {Work::forward, 0, 1},
                                {Work::input_gradient, 0, 0},
                                {Work::input_gradient, 0, 1},
                                {Work::weight_gradient, 0, 0},
                                {Work::weight_gradient, 0, 1}}}};
    const auto peak = [&](double activations, double waiting) {
        return play(order, {{1, 1, 1, activations, 0, waiting}})->peak.front();
    };
    CHECK(peak(10, 10) == 20);
    CHECK(peak(10, 4) == 20); // before the first input gradient has ended
    CHECK(peak(4, 10) == 20); // what both wait with
    CHECK(peak(0, 3) == 6);
}

TEST_CASE("a stage keeps gradients from its first backward pass of a step to the end of its last one")
{
    const Task forward_0{Work::forward, 0, 0}, forward_1{Work::forward, 1, 0},
        backward_1{Work::backward, 1, 0}, backward_0{Work::backward, 0, 0};
    const auto of = [](Task task, i64 microbatch) {
        task.microbatch = microbatch;
        return task;
    };
    const auto peak = [](i64 microbatches, const RankOrder& tasks, double activations, double gradients) {
        StageCost cost{1, 1, 1, activations};
        cost.gradients = gradients;
        return play({{.ranks = 1, .chunks = 2, .microbatches = microbatches}, {tasks}}, {cost, cost})
            ->peak.front();
    };
    // Both microbatches of a stage, then of the other: gradients of one stage at a time.
    const RankOrder by_stage{forward_0,  of(forward_0, 1),  forward_1,  of(forward_1, 1),
                             backward_1, of(backward_1, 1), backward_0, of(backward_0, 1)};
    CHECK(peak(2, by_stage, 10, 7) == 47);
    CHECK(peak(2, by_stage, 1, 100) == 104);
    // One microbatch after the other: gradients of both stages wait for the second.
    const RankOrder by_microbatch{forward_0,        forward_1,        backward_1,        backward_0,
                                  of(forward_0, 1), of(forward_1, 1), of(backward_1, 1), of(backward_0, 1)};
    CHECK(peak(2, by_microbatch, 10, 7) == 34);
}
