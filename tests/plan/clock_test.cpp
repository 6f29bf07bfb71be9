// The simulated clock: queues, waits, and ranks that meet.
#include "base/check.hpp"
#include "catch.hpp"
#include "ir/builder.hpp"
#include "plan/cost.hpp"

using namespace trivium;

TEST_CASE("the clock: a Step begins when its queue is free and its waits have ended")
{
    Schedule s;
    s.queues = {"a", "b"};
    const auto add = [&](int queue, std::vector<std::size_t> waits) {
        Step step;
        step.kind = StepKind::feed;
        step.queue = queue;
        for (const std::size_t wait : waits)
            step.waits.emplace_back(wait);
        s.steps.push_back(step);
    };
    add(0, {});  // 0..3
    add(1, {});  // 0..1
    add(1, {0}); // 3..5
    add(0, {1}); // 3..4
    add(0, {2}); // 5..6
    const Timeline measured{{{0, 3}, {0, 1}, {4, 6}, {0, 1}, {1, 2}}};
    Machine device;
    device.is_device = true;
    const Graph none;
    const std::vector<StageProgram> program{{&none, &s, &measured}};
    const Timeline t = simulate(program, device, 1).front();
    const double begins[] = {0, 0, 3, 3, 5};
    for (std::size_t i = 0; i < 5; ++i)
        CHECK(t.spans[i].begin == begins[i]);
    CHECK(t.length() == 6);
    CHECK(t.busy(s, 0) == 5);
    CHECK(t.busy(s, 1) == 3);
    // A CPU starts what is on other queues after the Step of queue 0 that it runs, in the order of the list.
    const Timeline host = simulate(program, Machine{}, 1).front();
    const double begins_on_host[] = {0, 3, 4, 4, 6};
    for (std::size_t i = 0; i < 5; ++i)
        CHECK(host.spans[i].begin == begins_on_host[i]);
    s.steps[1].waits.emplace_back(2);
    CHECK_THROWS_AS(simulate(program, device, 1), InternalError);
}

TEST_CASE("ranks on one clock: a collective begins when the last simulated rank of its group comes to it")
{
    std::vector<Graph> graphs(4);
    std::vector<Schedule> schedules;
    for (i64 rank = 0; rank < 4; ++rank) {
        Graph& g = graphs[static_cast<std::size_t>(rank)];
        g.mesh = {{{"data", 2}, {"tensor", 2}}};
        g.at = g.mesh.coordinates(rank);
        Builder b(g);
        b.where = {Region::prologue, Phase::forward, 0, ""};
        b.all_gather(b.value("x", {DType::f32, {1000}}, Role::parameter), "tensor", 0, 2000);
        schedules.push_back(build_schedule(g, {}));
    }
    std::vector<StageProgram> programs;
    for (std::size_t rank = 0; rank < 4; ++rank)
        programs.push_back({&graphs[rank], &schedules[rank]});
    Machine machine;
    machine.launch = machine.link_latency = 0;
    machine.link_bytes_per_second = 4000; // 1 s
    std::vector<Seconds> ends;
    for (const Timeline& t : simulate(programs, machine, 1, {5, 0, 0, 2}))
        ends.push_back(t.length());
    CHECK(ends[0] == Approx(6));
    CHECK(ends[1] == Approx(6));
    CHECK(ends[2] == Approx(3));
    CHECK(ends[3] == Approx(3));
}
