// Steps with fewer sequences at the begin of a run.
#include "base/check.hpp"
#include "catch.hpp"
#include "has.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/metrics/metrics.hpp"
#include "io/temporary_folder.hpp"
#include "train/tiny_run.hpp"

#include <functional>

using namespace trivium;

TEST_CASE("the batch of a step, and the samples of all steps before")
{
    TrainConfig t;
    t.global_batch = 32;
    t.batch_ramp.stages = {{8, 3}, {24, 2}};
    i64 sum = 0;
    for (i64 step = 1; step <= 9; ++step) {
        CHECK(batch_at(t, step) == (step <= 3 ? 8 : step <= 5 ? 24 : 32));
        sum += batch_at(t, step);
        CHECK(samples_in(t, step) == sum);
    }
    CHECK(common_batch(t) == 8);
}

TEST_CASE("a ramp trains the same on any grid, and after a stop in the middle of it")
{
    const TemporaryFolder folder;
    const tiny::Ground ground(folder.path());
    const auto config_of = [&](const tiny::Layout& layout, const std::string& name) {
        RunConfig config = ground.config(tiny::model_of(0), Precision::f32, layout, name);
        config.train.batch_ramp.stages = {{4, 2}, {8, 3}};
        return config;
    };
    const tiny::Layout one{1, 1, 1, 0, "1f1b", true, 0}, four{2, 2, 1, 2, "1f1b", true, 2};
    const std::vector<double> whole = tiny::train(config_of(one, "whole"), 1);
    REQUIRE(whole.size() == 8);
    const std::vector<MetricsRecord> records = read_metrics(folder / "whole-log");
    for (const MetricsRecord& record : records)
        CHECK(record.value("sequences") == (record.step <= 2 ? 4 : record.step <= 5 ? 8 : 12));
    RunConfig small = ground.config(tiny::model_of(0), Precision::f32, one, "small");
    small.train.global_batch = 4;
    small.train.stop_after = 2;
    const std::vector<double> begin = tiny::train(small, 1);
    CHECK(begin[0] == Approx(whole[0]).epsilon(1e-6)); // the same samples
    CHECK(begin[1] == Approx(whole[1]).epsilon(1e-6));
    for (const UpdateMode update : {UpdateMode::synchronous, UpdateMode::post_validated}) {
        if (contracts_on && update == UpdateMode::synchronous) // sanitizers take their time
            continue;
        const std::string name = str("four-", name_of(update));
        RunConfig config = config_of(four, name);
        config.parallel.update = update;
        config.train.stop_after = 3;
        tiny::train(config, 1);
        config.train.stop_after = 0;
        const std::vector<double> losses = tiny::train(config, 1);
        REQUIRE(losses.size() == 8);
        for (std::size_t i = 0; i < 8; ++i)
            CHECK(losses[i] == Approx(whole[i]).epsilon(1e-4));
        CHECK(CheckpointReader::open(str(folder / name, "/", checkpoint_name(8))).state().samples ==
              2 * 4 + 3 * 8 + 3 * 12);
    }
}

TEST_CASE("ramps that the grid cannot share are refused")
{
    const auto refusal = [](std::vector<BatchRamp::Stage> stages,
                            const std::function<void(RunConfig&)>& change) {
        RunConfig config;
        config.model.vocab = 256;
        config.train.global_batch = 16;
        config.train.batch_ramp.stages = std::move(stages);
        change(config);
        return message_of<UserError>([&] { resolve_and_validate(config); });
    };
    CHECK(refusal({{4, 1}, {8, 2}}, [](RunConfig& c) { c.parallel.data = 4; }).empty());
    CHECK(has(refusal({{4, 1}}, [](RunConfig& c) { c.parallel.data = 8; }),
              "make the batch of each stage a multiple of 8"));
    CHECK(has(refusal({{4, 1}}, [](RunConfig& c) { c.train.micro_batch = 8; }), "multiple of 8"));
    CHECK(has(refusal({{32, 1}}, [](RunConfig&) {}), "more than train.global_batch"));
    CHECK(has(refusal({{4, 0}}, [](RunConfig&) {}), "at least 1"));
    CHECK(has(refusal({{4, 1}}, [](RunConfig& c) { c.parallel.schedule = "auto"; }), "name the schedule"));
}
