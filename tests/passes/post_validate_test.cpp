// Post-validated updates on the simulator's clock.
#include "base/check.hpp"
#include "catch.hpp"
#include "choose/choose_schedule.hpp"
#include "choose/decide.hpp"
#include "compile/simulated_step.hpp"
#include "plan/cost.hpp"

#include <algorithm>

using namespace trivium;

namespace {

/// Llama 3 8B on 16 H100: a stage's parameters are gathered in less than two forward passes of a microbatch.
RunConfig pipeline_of_8(const char* schedule, UpdateMode update)
{
    RunConfig c;
    c.model = preset("llama3-8b");
    c.train.precision = Precision::bf16;
    c.train.global_batch = 64;
    c.train.micro_batch = 1;
    c.parallel.data = 2;
    c.parallel.pipeline = 8;
    c.parallel.zero = 1;
    c.parallel.schedule = schedule;
    c.parallel.update = update;
    resolve_and_validate(c);
    return c;
}

CompileConfig on_h100()
{
    CompileConfig options;
    options.machine = machine_called("h100");
    return options;
}

/// The graph, with what ranks of the data axis exchange moved to an axis of one rank, where it takes no time.
Graph with_free_exchanges(Graph graph)
{
    for (Op& op : graph.ops)
        if (op.attrs->axis == std::string(data_axis))
            op.attrs.edit().axis = tensor_axis;
    return graph;
}

} // namespace

TEST_CASE("with post-validated updates, 1F1B with ZeRO 1 hides what stages exchange, except the first two",
          "[release]")
{
    const CompileConfig options = on_h100();
    const RunConfig config = pipeline_of_8("1f1b", UpdateMode::post_validated);
    SimulatedStep step = simulate_step(decide(config, options.machine), options, train_program, 1);
    REQUIRE(step.ranks.size() == 8);
    const auto again = [&] { return simulate(step.ranks, options.machine, step.threads, config); };
    CHECK(again() == step.seconds);
    for (std::size_t s = 0; s < 8; ++s) {
        Graph& graph = step.ranks[s].program.graph;
        const Graph before = graph;
        graph = with_free_exchanges(std::move(graph));
        const double exposed = 1 - again() / step.seconds;
        graph = before;
        INFO("stage " << s << ": " << 100 * exposed << " % of the step");
        CHECK(exposed > -1e-9);
        if (s == 0)
            CHECK(exposed > 1e-3); // nothing to do meanwhile, so this is what the others hide
        if (s > 1)                 // products run a little more slowly while links are busy
            CHECK(exposed < 5e-4);
    }
}

TEST_CASE("with post-validated updates, zb-h2 idles less than half as long", "[release]")
{
    double idle[2];
    for (const UpdateMode update : {UpdateMode::synchronous, UpdateMode::post_validated}) {
        RunConfig config = pipeline_of_8("zb-h2", update);
        config.parallel.data = 1; // no gathers at the begin
        config.parallel.zero = 0;
        config.train.global_batch = 32;
        const SimulatedStep step =
            simulate_step(decide(config, on_h100().machine), on_h100(), train_program, 1);
        Seconds busiest = 0;
        for (const SimulatedRank& rank : step.ranks)
            busiest = std::max(busiest, rank.timeline.busy(rank.program.schedule, queue_compute));
        idle[static_cast<int>(update)] = 1 - busiest / step.seconds;
    }
    CHECK(idle[0] > 0.04); // the ranks wait for the last one, the last one for the first microbatch
    CHECK(idle[1] < idle[0] / 2);
}

TEST_CASE("parallel.update = auto: post-validated where that is shorter", "[release]")
{
    for (const char* schedule : {"1f1b", "zb-h2"}) {
        const auto step = [&](UpdateMode update) {
            RunConfig config = pipeline_of_8(schedule, update);
            config.train.global_batch = 32;
            return simulate_step(decide(config, on_h100().machine), on_h100(), train_program, 1);
        };
        const Seconds waits = step(UpdateMode::synchronous).seconds,
                      validates = step(UpdateMode::post_validated).seconds;
        const SimulatedStep chosen = step(UpdateMode::automatic);
        INFO(schedule << ": " << waits << " s, or " << validates << " s");
        CHECK((validates < 0.99 * waits) == (std::string(schedule) == "zb-h2"));
        CHECK(chosen.seconds == (validates < 0.99 * waits ? validates : waits));
    }
}
