// Looking after a run: best checkpoints, early ends, averages, norms of layers, as users see them.
#include "train/watched/watched.hpp"

TEST_CASE("the best checkpoint is kept, marked, named, and the same after restarts and on other grids")
{
    const Watched w;
    const Outcome whole = w.run("a", rising);
    INFO(whole.err);
    REQUIRE(whole.status == 0);
    const i64 best = w.lowest("a");
    REQUIRE(best > 1);
    REQUIRE(best < 9); // no longer one of the newest two
    CHECK(w.marked("a") == best);
    CHECK(read_text(w.folder / "a/best") == checkpoint_name(best) + "\n");
    CHECK(list_checkpoints(w.folder / "a").size() == 3);

    // In pieces, each launch ends at another place.
    for (int launch = 0; launch < 5; ++launch)
        REQUIRE(w.run("b", with(rising, {"train.stop_after=3"})).status == 0);
    CHECK(w.marked("b") == best);
    CHECK(tensors_of(w.at("a", best)) == tensors_of(w.at("b", best)));
    CHECK(state_of(w.at("a", 14)).best == state_of(w.at("b", 14)).best);
    CHECK(tensors_of(w.at("a", 14)) == tensors_of(w.at("b", 14)));

    // eval, export and resume by its name.
    const Outcome eval = run_program({"eval", "run.toml", "data.valid=valid.h5", "checkpoint.dir=a",
                                      "--batches", "4", "--checkpoint", "best", "--json"},
                                     w.folder.path());
    INFO(eval.err);
    REQUIRE(eval.status == 0);
    CHECK(nlohmann::json::parse(eval.out).at("step") == best);
    CHECK(nlohmann::json::parse(eval.out).at("loss").get<double>() ==
          Approx(state_of(w.at("a", 14)).best.loss).epsilon(1e-5));
    const Outcome exported = run_program({"checkpoint", "export", "a/best", "hf"}, w.folder.path());
    INFO(exported.err);
    CHECK(exported.out.find(str("of step ", best)) != std::string::npos);
    std::filesystem::copy(w.folder / "a", w.folder / "checkpoints", std::filesystem::copy_options::recursive);
    CHECK(run_program({"checkpoint", "export", "best", "hf2"}, w.folder.path()).status == 0);
    const Outcome pruned = run_program({"checkpoint", "prune", "a", "--keep", "1"}, w.folder.path());
    INFO(pruned.out);
    CHECK(pruned.status == 0);
    CHECK(w.marked("a") == best);
    CHECK(list_checkpoints(w.folder / "a").size() == 2);
    const Outcome resumed = w.run("a", with(rising, {"checkpoint.resume=best", "train.stop_after=1"}));
    INFO(resumed.err);
    REQUIRE(resumed.status == 0);
    CHECK(resumed.err.find(str("resuming from a/", checkpoint_name(best))) != std::string::npos);
    CHECK(w.marked("a") == best);

    const Outcome none = w.run("none", with(rising, {"checkpoint.resume=best"}));
    CHECK(none.status == 2);
    CHECK(none.err.find("no checkpoint is marked as the best") != std::string::npos);
    const Outcome wrong = w.run("wrong", {"checkpoint.best=valdi"});
    CHECK(wrong.status == 2);
    CHECK(wrong.err.find("did you mean 'valid'") != std::string::npos);
}

TEST_CASE("a run that is killed at any moment keeps the best checkpoint", "[release]")
{
    const Watched w;
    REQUIRE(w.run("a", rising).status == 0);
    for (const char* when : {"step  4/14", "step 4 ", "step 8 ", "step 11/14"}) {
        const std::string name = str("k", std::to_string(when[5]), when[6] == '/' ? "x" : "");
        std::vector<std::string> arguments = Run::arguments(1, 1, Watched::keys(name, rising));
        arguments[1] = "run.toml";
        run_and_signal(arguments, w.folder.path(), when, SIGKILL);
        REQUIRE(w.run(name, rising).status == 0);
        CHECK(w.marked(name) == w.marked("a"));
        CHECK(tensors_of(w.at("a", 14)) == tensors_of(w.at(name, 14)));
        CHECK(state_of(w.at("a", 14)).best == state_of(w.at(name, 14)).best);
    }
}

TEST_CASE("a run without better losses ends early, however often it was restarted")
{
    const Watched w;
    const std::vector<std::string> keys = with(rising, {"train.patience=3"});
    const Outcome whole = w.run("a", keys);
    INFO(whole.err);
    REQUIRE(whole.status == 0);
    const auto lines = w.metrics("a-log");
    const i64 end = lines.back().step;
    CHECK(end == w.lowest("a") + 3);
    CHECK(end < 14);
    CHECK(lines.back().value("ended_early") == 1);
    CHECK(whole.err.find(str("the run ends early after step ", end)) != std::string::npos);
    CHECK(read_launches(w.folder / "a-log").back().reason.find("train.patience") != std::string::npos);
    CHECK(list_checkpoints(w.folder / "a").front() == checkpoint_name(end));
    for (int launch = 0; launch < 6; ++launch)
        REQUIRE(w.run("b", with(keys, {"train.stop_after=2"})).status == 0);
    CHECK(w.metrics("b-log").size() == lines.size());
    CHECK(tensors_of(w.at("a", end)) == tensors_of(w.at("b", end)));
    const Outcome again = w.run("a", keys);
    CHECK(again.status == 0);
    CHECK(w.metrics("a-log").size() == lines.size());
    CHECK(again.err.find("ends early") != std::string::npos);
    REQUIRE(w.run("a", with(rising, {"train.patience=100"})).status == 0);
    CHECK(w.metrics("a-log").back().step == 14);
}

TEST_CASE("evaluations use averaged weights, which checkpoints keep")
{
    const Watched w;
    const std::vector<std::string> keys{"train.ema=0.8",      "train.steps=6",      "train.precision=f64",
                                        "train.eval_every=3", "checkpoint.every=1", "checkpoint.keep=0"};
    REQUIRE(w.run("first", {"train.steps=1", "train.precision=f64"}).status == 0);
    const std::string from = "train.init_from=first/step-00000001";
    const Outcome trained = w.run("a", with(keys, {from}));
    INFO(trained.err);
    REQUIRE(trained.status == 0);
    Tensors average;
    for (const auto& [name, values] : tensors_of(w.at("first", 1)))
        if (name.starts_with("param/"))
            average["ema/" + name.substr(6)] = values;
    for (i64 step = 1; step <= 6; ++step) {
        const Tensors now = tensors_of(w.at("a", step));
        double most = 0;
        for (auto& [name, values] : average)
            for (std::size_t i = 0; i < values.size(); ++i) {
                values[i] = 0.8 * values[i] + 0.2 * now.at("param/" + name.substr(4))[i];
                most = std::max(most, std::abs(values[i] - now.at(name)[i]));
            }
        CHECK(most < 1e-14);
    }
    // On four ranks, in two launches; the second begins with the bits of the first.
    std::vector<std::string> four = Run::arguments(2, 1, Watched::keys("g", with(keys, {from})));
    four.insert(four.end(), {"parallel.pipeline=2", "parallel.zero=1", "train.stop_after=3"});
    for (int launch = 0; launch < 2; ++launch) {
        const Outcome part = run_ranks({{4, four}}, w.folder.path());
        INFO(part.err);
        REQUIRE(part.status == 0);
    }
    double most = 0;
    const Tensors one = tensors_of(w.at("a", 6));
    for (const auto& [name, values] : tensors_of(w.at("g", 6)))
        for (std::size_t i = 0; i < values.size(); ++i)
            most = std::max(most, std::abs(values[i] - one.at(name)[i]));
    CHECK(most < 1e-9);
    const MetricsRecord alone = w.metrics("a-log").back(), grid = w.metrics("g-log").back();
    CHECK(grid.value("valid_loss") == Approx(alone.value("valid_loss")).epsilon(1e-9));
    CHECK(grid.value("valid_loss_raw") == Approx(alone.value("valid_loss_raw")).epsilon(1e-9));
    CHECK(alone.value("valid_loss") != alone.value("valid_loss_raw"));
    const auto evaluated = [&](const std::vector<std::string>& more) {
        std::vector<std::string> arguments{"eval",
                                           "run.toml",
                                           "data.valid=valid.h5",
                                           "train.precision=f64",
                                           "--json",
                                           "--batches",
                                           "4",
                                           "--checkpoint",
                                           "a"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const Outcome eval = run_program(arguments, w.folder.path());
        INFO(eval.err);
        REQUIRE(eval.status == 0);
        return nlohmann::json::parse(eval.out).at("loss").get<double>();
    };
    CHECK(evaluated({"--average"}) == Approx(alone.value("valid_loss")).epsilon(1e-9));
    CHECK(evaluated({}) == Approx(alone.value("valid_loss_raw")).epsilon(1e-9));
    // The exported model, imported again, is the average.
    for (const char* command : {"export a/step-00000006 hf --average", "import hf back"}) {
        std::istringstream words(std::string("checkpoint ") + command);
        std::vector<std::string> arguments;
        for (std::string word; words >> word;)
            arguments.push_back(word);
        const Outcome done = run_program(arguments, w.folder.path());
        INFO(done.err);
        REQUIRE(done.status == 0);
    }
    for (const auto& [name, values] : tensors_of(w.folder / "back/step-00000000"))
        for (std::size_t i = 0; i < values.size(); ++i)
            REQUIRE(values[i] == static_cast<double>(static_cast<float>(one.at("ema/" + name.substr(6))[i])));
    // Without averages, and from a checkpoint that has none.
    CHECK(run_program({"eval", "run.toml", "data.valid=valid.h5", "--batches", "1", "--checkpoint", "first",
                       "--average"},
                      w.folder.path())
              .err.find("has no averaged weights") != std::string::npos);
    const Outcome late = w.run("first", with(keys, {"train.stop_after=1"}));
    CHECK(late.status == 0);
    CHECK(late.err.find("they begin with its weights") != std::string::npos);
}

TEST_CASE("the mean of checkpoints")
{
    const Watched w;
    REQUIRE(w.run("a", {"train.steps=3", "checkpoint.every=1", "checkpoint.keep=0"}).status == 0);
    const auto average = [&](const std::vector<std::string>& more) {
        std::vector<std::string> arguments{"checkpoint", "average"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return run_program(arguments, w.folder.path());
    };
    const std::string one = "a/step-00000001", two = "a/step-00000002", three = "a/step-00000003";
    const Outcome mean = average({one, two, three, "-o", "mean", "--weights", "1,1,2"});
    INFO(mean.err);
    REQUIRE(mean.status == 0);
    const Tensors a = tensors_of(w.at("a", 1)), b = tensors_of(w.at("a", 2)), c = tensors_of(w.at("a", 3));
    const Tensors got = tensors_of(w.folder / "mean/step-00000003");
    std::size_t count = 0;
    for (const auto& [name, values] : got) {
        REQUIRE(name.starts_with("param/"));
        for (std::size_t i = 0; i < values.size(); ++i, ++count) {
            const double want = (a.at(name)[i] + b.at(name)[i] + 2 * c.at(name)[i]) / 4;
            REQUIRE(std::abs(values[i] - want) <= 0x1p-24 * std::abs(want) * 1.001);
        }
    }
    CHECK(count > 100000);
    CHECK(run_program({"checkpoint", "verify", "mean"}, w.folder.path()).status == 0);
    CHECK(run_program({"eval", "run.toml", "data.valid=valid.h5", "--batches", "1", "--checkpoint", "mean"},
                      w.folder.path())
              .status == 0);
    CHECK(run_program({"checkpoint", "export", "mean", "hf"}, w.folder.path()).status == 0);
    CHECK(w.run("from", {"train.init_from=mean", "train.steps=1"}).status == 0);
    REQUIRE(w.run("wide", {"train.steps=1", "model.layers=1"}).status == 0);
    for (const auto& [arguments, problem] : std::vector<std::pair<std::vector<std::string>, std::string>>{
             {{one, "-o", "x"}, "there is only one"},
             {{one, two}, "--output"},
             {{one, one, "-o", "x"}, "is named twice"},
             {{one, "wide", "-o", "x"}, "is of another model"},
             {{one, two, "-o", "x", "--weights", "1"}, "has 1 weight for 2 checkpoints"},
             {{one, two, "-o", "x", "--weights", "0,0"}, "have the sum 0"},
             {{one, two, "-o", "x", "--weights", "1,a"}, "not a weight"},
             {{one, two, "-o", "x", "--average"}, "has no averaged weights"},
             {{one, two, "-o", "mean"}, "exists"}}) {
        const Outcome refused = average(arguments);
        INFO(problem << "\n" << refused.err);
        CHECK(refused.status == 2);
        CHECK(refused.err.find(problem) != std::string::npos);
        CHECK_FALSE(std::filesystem::exists(w.folder / "x"));
    }
}

TEST_CASE("norms of layers are those of the weights in checkpoints, on a grid and after a restart")
{
    const Watched w;
    const std::vector<std::string> keys{"train.steps=6", "train.precision=f64", "log.layer_norms=2",
                                        "checkpoint.every=1", "checkpoint.keep=0"};
    REQUIRE(w.run("plain", {"train.steps=6", "train.precision=f64"}).status == 0);
    REQUIRE(w.run("a", keys).status == 0);
    CHECK(w.losses("plain-log") == w.losses("a-log"));
    CHECK_FALSE(std::filesystem::exists(w.folder / "plain-log/metrics.layers.jsonl"));
    const auto lines_of = [&](const std::string& name) {
        std::vector<nlohmann::json> lines;
        std::istringstream text(read_text(w.folder / (name + "-log/metrics.layers.jsonl")));
        for (std::string line; std::getline(text, line);)
            lines.push_back(nlohmann::json::parse(line));
        return lines;
    };
    const auto lines = lines_of("a");
    std::map<i64, double> squares; // of gradients, by step
    for (const auto& line : lines) {
        const i64 step = line.at("step");
        const Tensors before = tensors_of(w.at("a", step - 1)), after = tensors_of(w.at("a", step));
        const std::string prefix =
            "param/" + (line.contains("layer") ? str("layers.", line.at("layer").get<i64>(), ".") : "") +
            line.at("part").get<std::string>() + ".";
        double weight = 0, change = 0;
        for (const auto& [name, values] : after)
            for (std::size_t i = 0; name.starts_with(prefix) && i < values.size(); ++i) {
                weight += values[i] * values[i];
                change += std::pow(values[i] - before.at(name)[i], 2);
            }
        CHECK(line.at("weight_norm").get<double>() == Approx(std::sqrt(weight)).epsilon(1e-9));
        CHECK(line.at("update_norm").get<double>() == Approx(std::sqrt(change)).epsilon(1e-9));
        squares[step] += std::pow(line.at("grad_norm").get<double>(), 2);
    }
    CHECK(squares.size() == 3);
    for (const auto& [step, sum] : squares)
        CHECK(
            std::sqrt(sum) ==
            Approx(w.metrics("a-log")[static_cast<std::size_t>(step - 1)].value("grad_norm")).epsilon(1e-9));
    REQUIRE(run_program({"metrics", "report", "a-log", "--output", "a.html"}, w.folder.path()).status == 0);
    CHECK(read_text(w.folder / "a.html").find("The rows, from the top: embed, layers.0.attn_norm, ") !=
          std::string::npos);
    std::vector<std::string> four = Run::arguments(2, 1, Watched::keys("g", keys));
    four.insert(four.end(), {"parallel.pipeline=2", "parallel.zero=1"});
    REQUIRE(run_ranks({{4, with(four, {"train.stop_after=5"})}}, w.folder.path()).status == 0);
    std::filesystem::remove_all(w.at("g", 5));
    REQUIRE(run_ranks({{4, with(four, {"checkpoint.resume=g/step-00000003"})}}, w.folder.path()).status == 0);
    const auto other = lines_of("g");
    REQUIRE(other.size() == lines.size());
    for (std::size_t i = 0; i < lines.size(); ++i) {
        CHECK(other[i].at("part") == lines[i].at("part"));
        for (const char* key : {"step", "grad_norm", "weight_norm", "update_norm"})
            CHECK(other[i].at(key).get<double>() == Approx(lines[i].at(key).get<double>()).epsilon(1e-8));
    }
}
