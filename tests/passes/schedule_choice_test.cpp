// parallel.schedule = "auto", and schedules that do not fit.
#include "base/check.hpp"
#include "catch.hpp"
#include "choose/choose_schedule.hpp"
#include "choose/decide.hpp"
#include "choose/search.hpp"
#include "compile/simulated_step.hpp"
#include "config/schedules.hpp"
#include "has.hpp"
#include "schedule/named_order.hpp"
#include "schedule/order_file.hpp"
#include "small_run.hpp"

using namespace trivium;

namespace {

RunConfig deep_config(i64 pipeline, i64 micro_batch, i64 data = 1)
{
    RunConfig c = odd_config(Family::llama, {data, pipeline, 1, data > 1 ? 2 : 0}, false, 0);
    c.model.layers = 4 * pipeline - 2;
    c.train.micro_batch = micro_batch;
    return c;
}

struct Cost {
    Seconds seconds = 0;
    Bytes arena = 0;
};

Choices chosen_for(const RunConfig& config) { return decide(config, machine_called("cpu")); }

Cost step_of(const Choices& choices)
{
    CompileConfig options;
    options.machine = machine_called("cpu");
    const SimulatedStep step = simulate_step(choices, options, train_program, 1);
    Cost made{step.length()};
    for (const SimulatedRank& rank : step.ranks)
        made.arena = std::max(made.arena, rank.memory.arena);
    return made;
}
Cost step_of(const RunConfig& config) { return step_of(chosen_for(config)); }

} // namespace

TEST_CASE("a step of many microbatches is simulated by some of them", "[release]")
{
    for (const char* const schedule :
         {"1f1b", "interleaved", "zb-h1", "zb-v", "dualpipe-v", "v-min", "gpipe"})
        for (const i64 stages : {1, 4}) {
            INFO(schedule << ", " << stages << " stages");
            RunConfig config = deep_config(stages, 1);
            config.train.global_batch = 40;
            config.parallel.schedule = stages > 1 ? schedule : "1f1b";
            const Machine machine = machine_called("h100");
            const Choices choices = decide(config, machine);
            const auto play = [&](std::size_t most) {
                CompileConfig options;
                options.machine = machine;
                PlayedStep step(choices.config, choices.order, machine, most);
                compile_ranks(choices, options, is_first_of_stage, [&](i64 rank, Compiled& compiled) {
                    step.add(rank, std::move(compiled.programs[train_program]), compiled.memory);
                    return true;
                });
                return step;
            };
            PlayedStep all = play(PlayedStep::most_steps), some = play(1);
            const Seconds seconds = all.simulate(machine, 1);
            CHECK(some.simulate(machine, 1) == Approx(seconds).epsilon(1e-6));
            CHECK(some.seconds(machine, 1) == Approx(seconds).epsilon(1e-6));
            CHECK(some.parts().computed == Approx(all.parts().computed).epsilon(1e-6));
            CHECK(all.microbatches() == 40);
            const bool keeps_all = stages > 1 && std::string(schedule) == "gpipe";
            CHECK(some.microbatches() == (keeps_all ? 40 : 3 * stages));
        }
}

TEST_CASE("auto: no named schedule that keeps no more is faster in the simulator", "[release]")
{
    for (const auto& [pipeline, data] : {std::pair<i64, i64>{2, 1}, {4, 1}, {2, 2}}) {
        RunConfig c = deep_config(pipeline, 24 / data / 6, data);
        c.parallel.schedule = "auto";
        const Choices chosen = chosen_for(c);
        CHECK(chosen.config.train.micro_batch == c.train.micro_batch);
        CHECK(!chosen.config.parallel.schedule_near.empty());
        CHECK(chosen_for(c).order == chosen.order);
        const Cost found = step_of(chosen);
        for (const char* name : {"1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v", "v-half", "v-min"}) {
            c.parallel.schedule = name;
            INFO(pipeline << " stages, " << name << ", auto from " << chosen.config.parallel.schedule_near);
            CHECK(found.seconds <= step_of(c).seconds * (1 + 1e-9));
        }
    }
}

TEST_CASE("auto keeps the memory limit, and finds a microbatch if none is given", "[release]")
{
    RunConfig c = deep_config(4, 2);
    const Cost usual = step_of(c);
    c.parallel.schedule = "v-min";
    const Cost least = step_of(c);
    REQUIRE(least.arena < usual.arena);
    c.parallel.schedule = "auto";
    c.parallel.memory_limit = (usual.arena + least.arena) / 2;
    const Choices limited = chosen_for(c);
    CHECK(step_of(limited).arena <= c.parallel.memory_limit);

    c.parallel.memory_limit = 0;
    c.train.micro_batch = 0;
    const Choices chosen = chosen_for(c);
    CHECK(chosen.config.train.micro_batch > 0);
    CHECK(c.train.global_batch % chosen.config.train.micro_batch == 0);
    CHECK(step_of(chosen).seconds <= step_of(limited).seconds);
}

TEST_CASE("a schedule that does not fit is refused with one that does")
{
    RunConfig c = deep_config(4, 1);
    CompileConfig options;
    options.machine = machine_called("cpu");
    c.parallel.schedule = "v-min";
    const Cost least = step_of(c);
    c.parallel.schedule = "gpipe";
    c.parallel.memory_limit = least.arena + 1024;
    REQUIRE(step_of([&] {
                RunConfig free = c;
                free.parallel.memory_limit = 0;
                return free;
            }())
                .arena > c.parallel.memory_limit);
    std::string error;
    try {
        compile_training(c, options);
    } catch (const UserError& refused) {
        error = refused.what();
    }
    CHECK(has(error, "parallel.schedule=v-min"));

    c.parallel.memory_limit = 0;
    c.parallel.schedule = "interleaved";
    c.parallel.chunks = 5;
    error.clear();
    try {
        compile_training(c, options);
    } catch (const UserError& refused) {
        error = refused.what();
    }
    CHECK(has(error, "needs 20 stages"));
    CHECK(has(error, "set parallel.chunks to 4"));
}

TEST_CASE("on another grid, a schedule from a file is replaced")
{
    RunConfig c = deep_config(2, 2);
    c.given = {"parallel.pipeline", "parallel.schedule"};
    resolve(c.model);
    c.parallel.schedule = "my.csv";
    c.parallel.schedule_rows = to_csv(named_order(ScheduleKind::zb_h1, 2, 1, microbatch_count(c)));
    Compiling estimator(machine_called("cpu"));
    const auto schedule_on = [&](i64 ranks) {
        const SearchConfig search = search_on(machine_called("cpu"), c.parallel, 1);
        return choose_strategy(c, ranks, search, estimator).parallel.schedule;
    };
    CHECK(schedule_on(2) == "my.csv");
    c.given = {"parallel.schedule"};
    CHECK(!is_schedule_file(schedule_on(4)));
    c.parallel.pipeline = 1;
    c.parallel.schedule = "auto";
    c.parallel.schedule_rows.clear();
    CHECK(choose_schedule(c, estimator).config.parallel.schedule == "1f1b");
}

TEST_CASE("a found order, or one from a file, that does not fit is refused with settings")
{
    RunConfig c = deep_config(2, 4);
    c.parallel.memory_limit = 64 << 10;
    CompileConfig options;
    options.machine = machine_called("cpu");
    for (const char* schedule : {"auto", "my.csv"}) {
        c.parallel.schedule = schedule;
        c.parallel.schedule_rows = is_schedule_file(schedule)
                                       ? to_csv(named_order(ScheduleKind::zb_h2, 2, 1, microbatch_count(c)))
                                       : "";
        std::string error;
        try {
            compile_training(c, options);
        } catch (const UserError& refused) {
            error = refused.what();
        }
        INFO(schedule << ": " << error);
        CHECK(has(error, "parallel.memory_limit"));
    }
}
