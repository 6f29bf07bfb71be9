// Pipeline orders against hand-written orders.
#include "base/check.hpp"
#include "catch.hpp"
#include "schedule/order.hpp"

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
