// Whole runs: saving, resuming, reporting.
#include "catch.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/metrics/metrics.hpp"
#include "program.hpp"
#include "train/learning_rate.hpp"
#include "train/trainer.hpp"

#include <cmath>
#include <csignal>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

using namespace trivium;

namespace {

/// A folder with a tiny corpus and a config that ends with `extra`.
struct Run {
    Folder folder;
    explicit Run(const std::string& extra = "")
    {
        make_store(folder, 4000, "text.txt", "train.h5", {"--valid", "valid.h5", "--valid-fraction", "0.1"});
        write_text(folder / "run.toml",
                   "[model]\npreset = \"toy\"\nlayers = 2\nseq = 32\n[data]\ntrain = \"train.h5\"\nvalid = "
                   "\"valid.h5\"\n"
                   "[train]\nsteps = 8\nglobal_batch = 4\nlr = 3e-3\nwarmup = 2\n[parallel]\nthreads = 1\n"
                   "[checkpoint]\ndir = \"ck\"\n[log]\ndir = \"log\"\n" +
                       extra);
    }
    Outcome trivium_in(const std::vector<std::string>& arguments) const
    {
        return ::run_program(arguments, folder.path());
    }
    Outcome train(std::vector<std::string> overrides = {}) const
    {
        std::vector<std::string> arguments{"train", "run.toml"};
        arguments.insert(arguments.end(), overrides.begin(), overrides.end());
        return trivium_in(arguments);
    }
};

std::vector<double> content(const std::string& checkpoint)
{
    const CheckpointReader reader = CheckpointReader::open(checkpoint);
    std::vector<double> all;
    for (const auto& entry : reader.tensors()) {
        i64 count = 1;
        for (const i64 extent : entry.shape)
            count *= extent;
        std::vector<double> values(static_cast<std::size_t>(count));
        reader.read(entry.name, 0, count, DType::f64, values.data());
        all.insert(all.end(), values.begin(), values.end());
    }
    return all;
}

std::vector<double> losses(const std::string& log)
{
    std::vector<double> all;
    for (const MetricsRecord& r : read_metrics(log + "/metrics.jsonl"))
        all.push_back(r.value("loss"));
    return all;
}

} // namespace

TEST_CASE("the learning rate warms up linearly and falls along a cosine")
{
    TrainConfig c;
    c.lr = 1;
    c.min_lr = 0.1;
    c.warmup = 10;
    c.steps = 110;
    CHECK(learning_rate(c, 1) == Approx(0.1));
    CHECK(learning_rate(c, 10) == Approx(1));
    CHECK(learning_rate(c, 60) == Approx(0.55));
    CHECK(learning_rate(c, 110) == Approx(0.1));
    c.warmup = 0;
    CHECK(learning_rate(c, 110) == Approx(0.1));
}

TEST_CASE("schedules of the learning rate")
{
    TrainConfig c;
    c.lr = 1;
    c.min_lr = 0.1;
    c.warmup = 10;
    c.steps = 110;
    c.schedule = RateSchedule::constant;
    CHECK(learning_rate(c, 5) == Approx(0.5));
    CHECK(learning_rate(c, 110) == 1);
    c.schedule = RateSchedule::linear;
    CHECK(learning_rate(c, 35) == Approx(1 - 0.9 * 0.25));
    CHECK(learning_rate(c, 110) == Approx(0.1));
    CHECK(learning_rate(c, 200) == Approx(0.1));
    c.schedule = RateSchedule::inverse_sqrt;
    CHECK(learning_rate(c, 10) == 1);
    CHECK(learning_rate(c, 40) == Approx(0.5));
    CHECK(learning_rate(c, 4000) == Approx(0.1)); // at least min_lr
    c.schedule = RateSchedule::wsd;
    c.decay_steps = 20;
    for (const auto& [shape, middle] :
         {std::pair(DecayShape::linear, 0.75), std::pair(DecayShape::cosine, 0.5 + std::sqrt(0.125)),
          std::pair(DecayShape::one_minus_sqrt, 0.5)}) {
        c.decay_shape = shape;
        CHECK(learning_rate(c, 11) == Approx(1));
        CHECK(learning_rate(c, 90) == Approx(1));
        CHECK(learning_rate(c, 95) == Approx(0.1 + 0.9 * middle)); // after a quarter of the decay
        CHECK(learning_rate(c, 110) == Approx(0.1));
    }
    c.decay_steps = 0; // a tenth of the steps
    CHECK(learning_rate(c, 99) == Approx(1));
    CHECK(learning_rate(c, 100) < 1);
}

TEST_CASE("two runs are bitwise the same, and so is one that stopped and resumed")
{
    for (const char* key : {"train.precision=f32", "train.precision=bf16", "model.dropout=0.2"}) {
        const Run run;
        REQUIRE(run.train({key, "checkpoint.dir=a", "log.dir=la"}).status == 0);
        REQUIRE(run.train({key, "checkpoint.dir=b", "log.dir=lb"}).status == 0);
        REQUIRE(run.train({key, "checkpoint.dir=c", "log.dir=lc", "train.stop_after=3"}).status == 0);
        const Outcome resumed = run.train({key, "checkpoint.dir=c", "log.dir=lc"});
        INFO(resumed.err);
        REQUIRE(resumed.status == 0);
        CHECK(resumed.err.find("resuming from c/step-00000003") != std::string::npos);
        const auto a = content(run.folder / "a/step-00000008");
        CHECK(a.size() > 300000);
        CHECK((a == content(run.folder / "b/step-00000008")));
        CHECK((a == content(run.folder / "c/step-00000008")));
        CHECK(losses(run.folder / "la") == losses(run.folder / "lb"));
        CHECK(losses(run.folder / "la") == losses(run.folder / "lc"));
        CHECK(losses(run.folder / "la").size() == 8);
    }
}

TEST_CASE("the arena that plan prints is the arena that the run uses", "[release]")
{
    for (const char* key : {"train.precision=f32", "train.precision=bf16", "train.precision=f64",
                            "parallel.update=post-validated"}) {
        const Run run;
        const Outcome plan = run.trivium_in({"plan", "run.toml", key, "train.micro_batch=2", "--json"});
        REQUIRE(plan.status == 0);
        const i64 planned = nlohmann::json::parse(plan.out)["arena_bytes"];
        REQUIRE(run.train({key, "train.micro_batch=2"}).status == 0);
        const auto records = read_metrics(run.folder / "log/metrics.jsonl");
        for (const MetricsRecord& record : records) // the first step of a launch as well
            for (const char* bytes : {"memory_bytes", "planned_bytes"})
                CHECK(static_cast<i64>(record.value(bytes)) == planned);
    }
}

TEST_CASE("with offload, plan, log and metrics have the arenas of device and host, and the losses stay")
{
    const Run run;
    const std::string key = "parallel.offload=optimizer";
    const Outcome plan = run.trivium_in({"plan", "run.toml", key, "--json"});
    REQUIRE(plan.status == 0);
    const nlohmann::json planned = nlohmann::json::parse(plan.out);
    const Outcome on = run.train({key}), off = run.train({"checkpoint.dir=off", "log.dir=off-log"});
    REQUIRE(on.status == 0);
    REQUIRE(off.status == 0);
    const auto records = read_metrics(run.folder / "log/metrics.jsonl");
    CHECK(losses(run.folder / "log") == losses(run.folder / "off-log"));
    CHECK(records.back().value("memory_bytes") == planned["arena_bytes"].get<double>());
    CHECK(records.back().value("host_memory_bytes") == planned["host_arena_bytes"].get<double>());
    CHECK(on.out.find(str("(", planned["host_arena_bytes"].get<i64>(), " bytes)")) != std::string::npos);
    CHECK(on.out.find(str("arena of the host planned ", planned["host_arena_bytes"].get<i64>(),
                          " bytes, used ", planned["host_arena_bytes"].get<i64>(), " bytes")) !=
          std::string::npos);
    CHECK(off.out.find("arena of the host") == std::string::npos);
}

TEST_CASE("accumulating over microbatches changes rounding only", "[release]")
{
    const Run run;
    std::vector<std::vector<double>> all;
    for (const char* micro : {"4", "2", "1"}) {
        REQUIRE(run.train({std::string("train.micro_batch=") + micro,
                           std::string("checkpoint.dir=ck") + micro, std::string("log.dir=log") + micro})
                    .status == 0);
        all.push_back(losses(run.folder / (std::string("log") + micro)));
    }
    for (std::size_t i = 0; i < all[0].size(); ++i) {
        CHECK(all[1][i] == Approx(all[0][i]).epsilon(1e-5));
        CHECK(all[2][i] == Approx(all[0][i]).epsilon(1e-5));
    }
}

TEST_CASE("a run that starts over moves later checkpoints aside, so that a restart resumes the right run",
          "[release]")
{
    const Run run;
    REQUIRE(run.train({"train.steps=6"}).status == 0);
    const Outcome anew = run.train({"train.seed=7", "checkpoint.resume=never", "train.stop_after=2"});
    REQUIRE(anew.status == 0);
    CHECK(anew.err.find("renamed to") != std::string::npos);
    const Outcome resumed = run.train({"train.seed=7"});
    REQUIRE(resumed.status == 0);
    CHECK(resumed.err.find("resuming from ck/step-00000002") != std::string::npos);
    REQUIRE(run.train({"train.seed=7", "checkpoint.dir=straight", "log.dir=l2"}).status == 0);
    CHECK((content(run.folder / "ck/step-00000008") == content(run.folder / "straight/step-00000008")));
    CHECK(losses(run.folder / "log") == losses(run.folder / "l2"));
}

TEST_CASE("two runs do not share a folder", "[release]")
{
    const Run run;
    std::string second;
    const Outcome first = run_and_signal(
        {"train", "run.toml", "train.steps=100000"}, run.folder.path(), "step      3/", SIGTERM, [&] {
            const Folder elsewhere;
            second = run_program({"train", run.folder / "run.toml", "data.train=" + (run.folder / "train.h5"),
                                  "data.valid=", "checkpoint.dir=" + (run.folder / "ck")},
                                 elsewhere.path())
                         .err;
        });
    CHECK(first.status == 75);
    CHECK(second.find("in use by another run") != std::string::npos);
}

TEST_CASE("checkpoint lists, shows and verifies what was saved")
{
    const Run run;
    REQUIRE(run.train({"train.steps=2", "checkpoint.every=1"}).status == 0);
    const Outcome listed = run.trivium_in({"checkpoint", "list", "ck", "--json"});
    REQUIRE(listed.status == 0);
    const auto list = nlohmann::json::parse(listed.out);
    REQUIRE(list.size() == 2);
    CHECK(list[0]["step"] == 2);
    const Outcome shown = run.trivium_in({"checkpoint", "show", "ck/step-00000001", "--json"});
    CHECK(nlohmann::json::parse(shown.out)["samples"] == 4);
    CHECK(run.trivium_in({"checkpoint", "verify", "ck"}).status == 0);
    std::string bytes = read_text(run.folder / "ck/step-00000002/shard-00000.h5");
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    write_text(run.folder / "ck/step-00000002/shard-00000.h5", bytes);
    const Outcome verified = run.trivium_in({"checkpoint", "verify", "ck"});
    CHECK(verified.status == 2);
    CHECK(verified.out.find("ck/step-00000002: bad") != std::string::npos);
    CHECK(verified.out.find("ck/step-00000001: good") != std::string::npos);
    // and a run resumes from the good one
    const Outcome resumed = run.train({"train.steps=3"});
    CHECK(resumed.status == 0);
    CHECK(resumed.err.find("resuming from ck/step-00000001") != std::string::npos);
}

TEST_CASE("training lowers the loss, eval agrees with the trainer, generate continues a prompt", "[release]")
{
    const Run run;
    REQUIRE(run.train({"train.steps=40"}).status == 0);
    const auto records = read_metrics(run.folder / "log/metrics.jsonl");
    REQUIRE(records.size() == 40);
    CHECK(records.back().value("loss") < records.front().value("loss") - 1);
    for (const char* name : {"step", "loss", "grad_norm", "lr", "tokens", "tokens_per_second", "step_seconds",
                             "mfu", "memory_bytes"})
        CHECK((std::string(name) == "step" || records.front().has(name)));
    const Outcome eval = run.trivium_in({"eval", "run.toml", "--json"});
    REQUIRE(eval.status == 0);
    CHECK(nlohmann::json::parse(eval.out)["loss"].get<double>() ==
          Approx(records.back().value("valid_loss")).epsilon(1e-9));
    const Outcome text = run.trivium_in({"generate", "run.toml", "--prompt", "the light of", "--tokens", "20",
                                         "--temperature", "0", "--json"});
    INFO(text.err);
    REQUIRE(text.status == 0);
    const auto json = nlohmann::json::parse(text.out);
    CHECK(json["tokens"].size() == 20);
    CHECK(run.trivium_in({"generate", "run.toml", "--prompt", "the light of", "--tokens", "20",
                          "--temperature", "0", "--json"})
              .out == text.out);
}

TEST_CASE("a signal causes a save and the exit status for another launch")
{
    const Run run;
    const Outcome stopped = run_and_signal({"train", "run.toml", "train.steps=100000", "train.warmup=0"},
                                           run.folder.path(), "step      5/", SIGUSR1);
    INFO(stopped.err);
    CHECK(stopped.status == 75);
    CHECK(stopped.err.find("saved ck/step-") != std::string::npos);
    const auto records = read_metrics(run.folder / "log/metrics.jsonl");
    const i64 reached = records.back().step;
    REQUIRE(run.train({"train.steps=" + std::to_string(reached + 2)}).status == 0);
    const auto after = read_metrics(run.folder / "log/metrics.jsonl");
    REQUIRE(static_cast<i64>(after.size()) == reached + 2);
    for (std::size_t i = 0; i < after.size(); ++i)
        CHECK(after[i].step == static_cast<i64>(i) + 1);
}

TEST_CASE("a step that is not finite is skipped: it counts, and parameters do not change", "[release]")
{
    const Run run;
    // One step with an absurd learning rate puts every parameter out of range; later steps cannot be finite.
    const Outcome wild = run.train({"train.lr=1e38", "train.warmup=0", "train.steps=4", "train.grad_clip=0"});
    INFO(wild.err);
    REQUIRE(wild.status == 0);
    CHECK(wild.err.find("skipped") != std::string::npos);
    CHECK(wild.err.find("loss nan  norm nan") != std::string::npos);
    CHECK(wild.err.find("-nan") == std::string::npos);
    const CheckpointReader reader = CheckpointReader::open(run.folder / "ck/step-00000004");
    CHECK(reader.state().step == 4);
    CHECK(reader.state().samples == 16);
    CHECK(reader.state().updates < 4);
}

TEST_CASE("init_from loads the weights and resets the optimizer")
{
    const Run run;
    REQUIRE(run.train({"train.steps=4", "checkpoint.dir=base", "log.dir=l1"}).status == 0);
    const Outcome tuned = run.train(
        {"train.steps=1", "train.lr=0", "train.init_from=base", "checkpoint.dir=tuned", "log.dir=l2"});
    INFO(tuned.err);
    REQUIRE(tuned.status == 0);
    const CheckpointReader base = CheckpointReader::open(run.folder / "base/step-00000004");
    const CheckpointReader after = CheckpointReader::open(run.folder / "tuned/step-00000001");
    std::vector<float> x(258 * 64), y(258 * 64);
    base.read("param/embed.weight", 0, 258 * 64, DType::f32, x.data());
    after.read("param/embed.weight", 0, 258 * 64, DType::f32, y.data());
    CHECK(x == y);
}

TEST_CASE("a file or USR2 requests a checkpoint, and the run continues")
{
    for (const bool background : {false, true}) {
        const Run run;
        std::filesystem::create_directories(run.folder / "ck");
        write_text(run.folder / "ck/save-now", "");
        const std::vector<std::string> saves = {"checkpoint.keep=0",
                                                background ? "checkpoint.every=1000" : "checkpoint.every=0"};
        const Outcome asked = run.train(saves);
        CHECK(asked.status == 0);
        CHECK(asked.err.find("saved ck/step-00000001") != std::string::npos);
        CHECK(list_checkpoints(run.folder / "ck") ==
              std::vector<std::string>{"step-00000008", "step-00000001"});
        CHECK_FALSE(std::filesystem::exists(run.folder / "ck/save-now"));

        const Outcome signalled =
            run_and_signal({"train", "run.toml", "checkpoint.dir=ck2", "train.steps=400", saves[0], saves[1]},
                           run.folder.path(), "step   3/400", SIGUSR2);
        CHECK(signalled.status == 0);
        const std::vector<std::string> kept = list_checkpoints(run.folder / "ck2");
        REQUIRE(kept.size() == 2);
        CHECK(kept[0] == "step-00000400");
        CHECK(kept[1] < "step-00000400");
        CHECK(CheckpointReader::open(run.folder / ("ck2/" + kept[1])).state().step < 400);
    }
}

TEST_CASE("background and blocking saves write the same bytes, and at least two are kept", "[release]")
{
    const Run run;
    REQUIRE(run.train({"checkpoint.every=3", "checkpoint.keep=1", "checkpoint.async=false",
                       "checkpoint.dir=sync"})
                .status == 0);
    REQUIRE(run.train({"checkpoint.every=3", "checkpoint.keep=1", "checkpoint.async=true",
                       "checkpoint.dir=async"})
                .status == 0);
    for (const char* dir : {"sync", "async"})
        CHECK(list_checkpoints(run.folder / dir) ==
              std::vector<std::string>{"step-00000008", "step-00000006"});
    for (const char* file :
         {"/step-00000006/shard-00000.h5", "/step-00000008/shard-00000.h5", "/step-00000008/index.h5"})
        CHECK(read_text(run.folder / (std::string("sync") + file)) ==
              read_text(run.folder / (std::string("async") + file)));
    const RunState state = CheckpointReader::open(run.folder / "sync/step-00000008").state();
    CHECK(state.machine == "generic CPU core");
    CHECK(state.cost_table.size() == 16);
}

TEST_CASE("a command that reads checkpoints does not change the folder of a run, whatever its path",
          "[release]")
{
    const Run run;
    REQUIRE(run.train({"train.steps=2", "checkpoint.every=1"}).status == 0);
    std::filesystem::create_directories(run.folder / "ck/.tmp-step-00000003"); // of a run that is saving
    std::string bytes = read_text(run.folder / "ck/step-00000002/manifest.json");
    bytes[10] = 'x';
    write_text(run.folder / "ck/step-00000002/manifest.json", bytes);
    for (const char* word : {"auto", "never"}) {
        const Outcome eval = run.trivium_in({"eval", "run.toml", "--checkpoint", word});
        CHECK(eval.status == 2);
        CHECK(eval.err.find("no such checkpoint") != std::string::npos);
        const Outcome begun = run.train({"checkpoint.dir=other", std::string("train.init_from=") + word});
        CHECK(begun.status == 2);
        CHECK(begun.err.find("no such checkpoint") != std::string::npos);
    }
    const Outcome eval = run.trivium_in({"eval", "run.toml"}); // from the previous one
    CHECK(eval.status == 0);
    CHECK(eval.err.find("is not used") != std::string::npos);
    CHECK(std::filesystem::exists(run.folder / "ck/.tmp-step-00000003"));
    CHECK(std::filesystem::exists(run.folder / "ck/step-00000002"));
}

TEST_CASE("no run resumes from parameters that are not finite", "[release]")
{
    const Run run;
    REQUIRE(run.train({"train.steps=4", "checkpoint.every=2"}).status == 0);
    { // step 4 again, with a NaN that hashes cannot detect
        const CheckpointReader good = CheckpointReader::open(run.folder / "ck/step-00000004");
        std::vector<std::vector<float>> values;
        std::vector<TensorPiece> pieces;
        for (const auto& entry : good.tensors()) {
            pieces.push_back(whole_tensor(entry.name, entry.shape, entry.type, nullptr));
            values.emplace_back(static_cast<std::size_t>(pieces.back().count()));
            good.read(entry.name, 0, pieces.back().count(), DType::f32, values.back().data());
            if (entry.name == "param/final_norm.weight")
                values.back()[3] = std::numeric_limits<float>::quiet_NaN();
        }
        for (std::size_t i = 0; i < pieces.size(); ++i)
            pieces[i].data = values[i].data();
        save_checkpoint(*make_self_comm(), run.folder / "ck", good.state(), pieces, 0);
    }
    const auto refuses = [&](const std::vector<std::string>& overrides) {
        const Outcome outcome = run.train(overrides);
        INFO(outcome.err);
        CHECK(outcome.status == 2);
        CHECK(outcome.err.find("'param/final_norm.weight' has 1 value that is not finite") !=
              std::string::npos);
    };
    refuses({"checkpoint.resume=ck/step-00000004", "train.steps=6"});
    refuses(
        {"train.init_from=ck/step-00000004", "checkpoint.dir=other", "log.dir=other-log", "train.steps=6"});
    CHECK(run.trivium_in({"eval", "run.toml", "--checkpoint", "ck/step-00000004"}).status == 2);
    const Outcome resumed = run.train({"train.steps=6"});
    INFO(resumed.err);
    CHECK(resumed.status == 0);
    CHECK((resumed.out + resumed.err).find("not finite") != std::string::npos);
    CHECK((resumed.out + resumed.err).find("step-00000002 at step 2") != std::string::npos);
    CHECK(std::filesystem::exists(run.folder / "ck/.bad-step-00000004"));
}
