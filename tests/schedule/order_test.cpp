// Pipeline orders against hand-written orders.
#include "base/check.hpp"
#include "catch.hpp"
#include "schedule/named_order.hpp"
#include "schedule/order.hpp"

#include <algorithm>
#include <set>

using namespace trivium;

namespace {

std::string text_of(const RankOrder& tasks)
{
    std::string text;
    for (const Task& task : tasks)
        text += str(text.empty() ? "" : " ", name_of(task.work), task.microbatch);
    return text;
}

struct Case {
    i64 stage, stages, microbatches;
    const char* order;
    i64 slots;
};

} // namespace

TEST_CASE("1f1b first runs as many forward passes as stages follow, then alternates")
{
    const Case cases[] = {
        {0, 1, 1, "F0 B0", 1},
        {0, 1, 3, "F0 B0 F1 B1 F2 B2", 1},
        {0, 2, 4, "F0 F1 B0 F2 B1 F3 B2 B3", 2},
        {1, 2, 4, "F0 B0 F1 B1 F2 B2 F3 B3", 1},
        {0, 3, 4, "F0 F1 F2 B0 F3 B1 B2 B3", 3},
        {1, 3, 4, "F0 F1 B0 F2 B1 F3 B2 B3", 2},
        {2, 3, 4, "F0 B0 F1 B1 F2 B2 F3 B3", 1},
        {0, 4, 6, "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5", 4},
        {1, 4, 6, "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 B4 B5", 3},
        {2, 4, 6, "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 B5", 2},
        {3, 4, 6, "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5", 1},
        {0, 4, 2, "F0 F1 B0 B1", 2}, // fewer microbatches than stages
    };
    for (const Case& c : cases) {
        INFO("stage " << c.stage << " of " << c.stages);
        const RankOrder tasks = named_order(ScheduleKind::one_f_one_b, c.stages, 1, c.microbatches)
                                    .ranks[static_cast<std::size_t>(c.stage)];
        CHECK(text_of(tasks) == c.order);
        CHECK(in_flight(tasks) == c.slots);
    }
}

TEST_CASE("gpipe runs every forward, then every backward, on every stage")
{
    for (i64 stages = 1; stages <= 4; ++stages)
        for (i64 stage = 0; stage < stages; ++stage) {
            const RankOrder tasks =
                named_order(ScheduleKind::gpipe, stages, 1, 3).ranks[static_cast<std::size_t>(stage)];
            CHECK(text_of(tasks) == "F0 F1 F2 B0 B1 B2");
            CHECK(in_flight(tasks) == 3);
        }
}

namespace {

/// Runs the first tasks of each rank, forward passes in the order of the stages; returns how many cannot run.
i64 stuck(const PipelineOrder& order, const std::vector<i64>& heads)
{
    std::set<std::pair<i64, i64>> done; // stage, microbatch
    std::vector<i64> next(heads.size(), 0);
    for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t r = 0; r < heads.size(); ++r)
            while (next[r] < heads[r]) {
                const Task& task = order.ranks[r][static_cast<std::size_t>(next[r])];
                if (task.work != Work::forward ||
                    (task.stage > 0 && !done.contains({task.stage - 1, task.microbatch})))
                    break;
                done.insert({task.stage, task.microbatch});
                ++next[r];
                moved = true;
            }
    }
    i64 left = 0;
    for (std::size_t r = 0; r < heads.size(); ++r)
        left += heads[r] - next[r];
    return left;
}

} // namespace

TEST_CASE("ranks can run the head of a step without what follows on other ranks")
{
    CHECK(head_tasks(named_order(ScheduleKind::one_f_one_b, 4, 1, 6)) == std::vector<i64>{4, 3, 2, 1});
    CHECK(head_tasks(named_order(ScheduleKind::zb_h2, 4, 1, 12)) == std::vector<i64>{7, 5, 3, 1});
    CHECK(head_tasks(named_order(ScheduleKind::gpipe, 3, 1, 5)) == std::vector<i64>{5, 5, 5});
    // Rank 1 ran stage 1 of microbatch 1 before its first backward pass, but rank 0 sends it after its own.
    PipelineOrder order{{2, 2, true, 2}, {}};
    using enum Work;
    order.ranks = {{{forward, 0, 0},
                    {forward, 3, 0},
                    {backward, 3, 0},
                    {forward, 0, 1},
                    {backward, 0, 0},
                    {forward, 3, 1},
                    {backward, 3, 1},
                    {backward, 0, 1}},
                   {{forward, 1, 0},
                    {forward, 2, 0},
                    {forward, 1, 1},
                    {backward, 2, 0},
                    {backward, 1, 0},
                    {forward, 2, 1},
                    {backward, 2, 1},
                    {backward, 1, 1}}};
    CHECK(head_tasks(order) == std::vector<i64>{2, 2});
    CHECK(stuck(order, {2, 3}) == 1);
    for (std::size_t k = 0; k < names_of_enum<ScheduleKind>.size(); ++k)
        for (const i64 ranks : {1, 2, 3, 4, 8})
            for (const i64 microbatches : {1, 2, 5, 16}) {
                const auto kind = static_cast<ScheduleKind>(k);
                const PipelineOrder named = named_order(kind, ranks, chunks_of(kind).usual, microbatches);
                INFO(name_of(kind) << ", " << ranks << " ranks, " << microbatches << " microbatches");
                CHECK(stuck(named, head_tasks(named)) == 0);
                CHECK(head_tasks(named)[0] > 0);
            }
}

namespace {

/// The tasks of `other` that end before a task begins, in any case: those from which a path of tasks leads to
/// it.
i64 reaching(const PipelineOrder& order, const Task& task, i64 other)
{
    std::set<Task> seen;
    std::vector<Task> open{task};
    while (!open.empty()) {
        const Task now = open.back();
        open.pop_back();
        const RankOrder& own = order.ranks[static_cast<std::size_t>(order.shape.rank_of(now.stage))];
        for (const RankOrder& tasks : order.ranks)
            for (std::size_t i = 0; i < tasks.size(); ++i) {
                const Task& t = tasks[i];
                const bool forward = t.work == Work::forward,
                           back = !forward && t.work != Work::weight_gradient;
                const bool neighbour = t.microbatch == now.microbatch &&
                                       ((forward && now.work == Work::forward && t.stage == now.stage - 1) ||
                                        (back && now.work != Work::forward &&
                                         now.work != Work::weight_gradient && t.stage == now.stage + 1));
                if ((neighbour || (&tasks == &own && i + 1 < tasks.size() && tasks[i + 1] == now)) &&
                    seen.insert(t).second)
                    open.push_back(t);
            }
    }
    return static_cast<i64>(
        std::ranges::count_if(seen, [&](const Task& t) { return order.shape.rank_of(t.stage) == other; }));
}

} // namespace

TEST_CASE("what has ended on another rank before a task begins")
{
    // The first rank begins its third forward pass after the second one's first backward pass.
    const PipelineOrder two = named_order(ScheduleKind::one_f_one_b, 2, 1, 4);
    CHECK(ended_before(two, 0, 1) == std::vector<i64>{0, 0, 2, 2, 4, 4, 6, 8});
    for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::interleaved, ScheduleKind::zb_v,
                                    ScheduleKind::dualpipe_v}) {
        const PipelineOrder order = named_order(kind, 3, chunks_of(kind).usual, 6);
        for (const i64 other : {0, 1}) {
            const std::vector<i64> ended = ended_before(order, 2, other);
            REQUIRE(ended.size() == order.ranks[2].size());
            for (std::size_t i = 0; i < ended.size(); ++i) {
                INFO(name_of(kind) << ": " << to_text(order.ranks[2][i]) << " on rank 2, rank " << other);
                CHECK(ended[i] == reaching(order, order.ranks[2][i], other));
            }
        }
    }
}
