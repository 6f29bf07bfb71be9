// Returns to checkpoints, skipped steps, and what counts as the best, as users see them.
#include "train/watched/watched.hpp"

TEST_CASE("a run goes back to a checkpoint and leaves data out, the same after restarts and on a grid")
{
    const Watched w;
    // With so low a bound, an ordinary step is a spike now and then.
    const std::vector<std::string> keys{"train.steps=40",       "train.precision=f64", "train.spike_z=0.25",
                                        "train.spike_window=8", "train.max_skipped=3", "checkpoint.every=4",
                                        "train.rewind=20",      "train.lr=3e-6",       "train.min_lr=3e-6"};
    const Outcome whole = w.run("a", keys);
    INFO(whole.err);
    REQUIRE(whole.status == 0);
    const i64 last = 40;
    const auto lines = w.metrics("a-log");
    i64 returns = 0;
    for (std::size_t i = 0; i < lines.size(); ++i) {
        CHECK(lines[i].step == static_cast<i64>(i) + 1); // each step once
        if (!lines[i].has("rewound_from"))
            continue;
        ++returns;
        CHECK((lines[i].step - 1) % 4 == 0);
        CHECK(lines[i].value("restarted_at") == static_cast<double>(lines[i].step - 1));
        CHECK(lines[i].value("rewound_from") > static_cast<double>(lines[i].step + 1));
    }
    REQUIRE(returns > 0);
    const RunState state = state_of(w.at("a", last));
    CHECK(state.rewinds.count >= returns); // two may begin at one step
    CHECK(state.samples == 4 * last + state.rewinds.samples);
    CHECK(whole.err.find("the run goes back to a/step-") != std::string::npos);
    std::set<i64> superseded;
    visit_metrics(w.folder / "a-log/metrics.superseded.jsonl",
                  [&](const MetricsRecord& record) { superseded.insert(record.step); });
    CHECK(superseded.size() >= 2);

    const auto same = [&](const std::string& name, double bound) {
        const auto own = w.losses(name + "-log"), want = w.losses("a-log");
        REQUIRE(own.size() == want.size());
        for (std::size_t i = 0; i < own.size(); ++i)
            CHECK(std::abs(own[i] - want[i]) <= bound * want[i]);
        CHECK(state_of(w.at(name, last)).samples == state.samples);
        CHECK(state_of(w.at(name, last)).rewinds == state.rewinds);
    };
    // In many launches, some of which end among skipped steps.
    for (int launch = 0; launch < 40; ++launch)
        if (w.run("b", with(keys, {"train.stop_after=3"})).status != 0 ||
            checkpoint_step(list_checkpoints(w.folder / "b").front()) == last)
            break;
    same("b", 0);
    // Killed while it goes back.
    run_and_signal(Run::arguments(1, 1, Watched::keys("k", keys)), w.folder.path(), "the run goes back",
                   SIGKILL);
    REQUIRE(w.run("k", keys).status == 0);
    same("k", 0);
    std::vector<std::string> two = Run::arguments(2, 1, Watched::keys("g", keys));
    two.emplace_back("parallel.zero=1");
    run_ranks({{2, two}}, w.folder.path());
    same("g", 1e-9);

    const Outcome nowhere = w.run("n", with(keys, {"checkpoint.every=0"}));
    CHECK(nowhere.err.find("train.rewind: has no effect because checkpoint.every is 0") != std::string::npos);
}

TEST_CASE("batches without a trained token neither end a run nor send it back")
{
    const Watched w;
    std::string lines;
    for (int i = 0; i < 8; ++i)
        lines +=
            nlohmann::json{{"prompt", std::string(3000, static_cast<char>('a' + i))}, {"completion", "yes"}}
                .dump() +
            "\n";
    write_text(w.folder / "prompts.jsonl", lines);
    const Outcome made = run_program(
        {"data", "tokenize", "prompts.jsonl", "--tokenizer", "bytes", "-o", "prompts.h5"}, w.folder.path());
    INFO(made.err);
    REQUIRE(made.status == 0);
    const Outcome trained = w.run("a", {"data.train=prompts.h5", "train.steps=30", "train.max_skipped=3",
                                        "train.rewind=5", "checkpoint.every=5"});
    INFO(trained.err);
    REQUIRE(trained.status == 0);
    const auto steps = w.metrics("a-log");
    REQUIRE(steps.size() == 30);
    i64 empty = 0, most = 0;
    for (const MetricsRecord& step : steps) {
        empty = step.value("trained_tokens") == 0 ? empty + 1 : 0;
        most = std::max(most, empty);
        CHECK_FALSE(step.has("rewound_from"));
    }
    CHECK(most >= 3);
    CHECK(state_of(w.at("a", 30)).skipped_in_row == 0);
    CHECK(state_of(w.at("a", 30)).rewinds.count == 0);
}

TEST_CASE("losses of other weights do not count as the best, nor do checkpoints of other runs")
{
    const Watched w;
    const std::vector<std::string> keys{"train.steps=8", "train.eval_every=2", "checkpoint.every=4",
                                        "checkpoint.best=valid"};
    REQUIRE(w.run("a", with(keys, {"train.stop_after=4"})).status == 0);
    CHECK(w.marked("a") == 4);
    const Outcome averaged = w.run("a", with(keys, {"train.ema=0.999"}));
    INFO(averaged.err);
    REQUIRE(averaged.status == 0);
    CHECK(state_of(w.at("a", 8)).best.averages);
    CHECK(w.marked("a") == state_of(w.at("a", 8)).best.step);
    CHECK_FALSE(state_of(w.at("a", 8)).best.data.empty());
    CHECK(averaged.err.find("train.ema has changed: earlier validation losses do not count") !=
          std::string::npos);

    // Nor do those that mean something else: the checkpoint that is resumed is evaluated again, and no step
    // is better, because the model stays as it is.
    const auto resumed = [&](const std::vector<std::string>& more, i64 last) {
        const Outcome outcome = w.run(
            "a", with(with(keys, more), {"train.lr=1e-30", "train.min_lr=1e-30", str("train.steps=", last)}));
        INFO(outcome.err);
        REQUIRE(outcome.status == 0);
        const std::size_t said = outcome.err.find(" has changed: earlier validation losses do not count");
        const std::size_t key =
            said == std::string::npos ? said : outcome.err.find_last_of(" \n", said - 1) + 1;
        return str(state_of(w.at("a", last)).best.step, " ",
                   said == std::string::npos ? "" : outcome.err.substr(key, said - key));
    };
    CHECK(resumed({}, 10) == "8 train.ema");
    CHECK(resumed({"train.eval_batches=1"}, 12) == "10 train.eval_batches");
    CHECK(resumed({"train.eval_batches=1"}, 14) == "10 ");
    CHECK(
        resumed({"train.eval_batches=1", "data.boundary_loss=ignore"}, 16).ends_with(" data.boundary_loss"));

    // A folder that has a checkpoint of the best one's step, of another run.
    REQUIRE(w.run("b", {"train.steps=4", "train.seed=7", "checkpoint.every=4"}).status == 0);
    REQUIRE(
        w.run("c", with(keys, {"train.stop_after=6", "checkpoint.every=2", "checkpoint.keep=0"})).status ==
        0);
    REQUIRE(state_of(w.at("c", 6)).best.step == 6);
    REQUIRE(w.run("d", with(keys, {"train.steps=6", "checkpoint.every=6", "train.seed=7"})).status == 0);
    const Outcome moved =
        w.run("d", with(keys, {"checkpoint.resume=c/step-00000006", "train.lr=10", "train.min_lr=10"}));
    INFO(moved.err);
    REQUIRE(moved.status == 0);
    CHECK(moved.err.find("the best checkpoint so far") != std::string::npos);
    CHECK(w.marked("d") == 8); // worse than what this folder lacks
}

TEST_CASE("an evaluation that is made up for leaves no checkpoint behind the next step")
{
    const Watched w;
    const std::vector<std::string> keys{"train.steps=8", "train.eval_every=4", "checkpoint.every=4",
                                        "checkpoint.keep=0"};
    REQUIRE(w.run("a", with(keys, {"train.stop_after=4"})).status == 0);
    REQUIRE(w.run("a", with(keys, {"checkpoint.best=valid"})).status == 0);
    CHECK(list_checkpoints(w.folder / "a") ==
          std::vector<std::string>{checkpoint_name(8), checkpoint_name(4)});
}

TEST_CASE("a return passes over a damaged checkpoint")
{
    const Watched w;
    const std::vector<std::string> keys{"train.steps=12",      "checkpoint.every=4",  "checkpoint.keep=0",
                                        "train.max_skipped=1", "train.rewind=1",      "train.lr=3e-6",
                                        "train.min_lr=3e-6",   "train.spike_window=9"};
    REQUIRE(w.run("a", with(keys, {"train.stop_after=9", "train.spike_z=1000"})).status == 0);
    for (const auto& file : std::filesystem::directory_iterator(w.at("a", 8)))
        if (file.path().filename().string().starts_with("shard")) {
            std::string bytes = read_text(file.path().string());
            bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
            write_text(file.path().string(), bytes);
        }
    // Now a loss above the mean is a spike.
    const Outcome back = w.run("a", with(keys, {"train.spike_z=1e-9"}));
    INFO(back.err);
    CHECK(back.err.find("this checkpoint is not used: a/step-00000008") != std::string::npos);
    CHECK(back.err.find("the last step was skipped; the run goes back to a/step-00000004") !=
          std::string::npos);
}
