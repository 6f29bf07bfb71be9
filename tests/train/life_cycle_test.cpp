// A run with signals, time limits and restarts: it saves, ends with status 75, and resumes.
#include "base/check.hpp"
#include "catch.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "life_cycle_run.hpp"
#include "lifecycle/folder_lock.hpp"
#include "train/loss_spikes.hpp"

#include <chrono>
#include <cmath>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <thread>

using namespace trivium;

TEST_CASE("a signal around the first step leaves a checkpoint from which the next launch resumes")
{
    const Run run;
    const Outcome stopped =
        run_ranks_and({{2, Run::arguments(2, 1, {"train.steps=100000"})}}, run.folder.path(), "grid ",
                      [](int launcher) { kill(launcher, SIGUSR1); });
    INFO(stopped.err);
    CHECK(stopped.status == 75);
    CHECK(stopped.err.find("stopped on signal USR1 after step ") != std::string::npos);
    const auto saved = list_checkpoints(run.folder / "ck");
    REQUIRE(saved.size() == 1);
    const i64 step = checkpoint_step(saved.front());
    const auto train_on = [&](const std::string& checkpoints, const std::string& logs) {
        return run_ranks({{2, Run::arguments(2, 1,
                                             {str("train.steps=", step + 5), "checkpoint.dir=" + checkpoints,
                                              "log.dir=" + logs})}},
                         run.folder.path());
    };
    REQUIRE(train_on("whole", "lw").status == 0);
    const Outcome resumed = train_on("ck", "log");
    INFO(resumed.err);
    CHECK(resumed.status == 0);
    CHECK(resumed.err.find("resuming from ck/" + saved.front()) != std::string::npos);
    CHECK(run.losses() == run.losses("lw"));
    const auto launches = run.launches();
    REQUIRE(launches.size() == 2);
    CHECK((launches[0].ranks == 2 && launches[0].status == 75 && launches[0].reason == "signal USR1" &&
           launches[0].to == step));
    CHECK((launches[1].number == 2 && launches[1].from == step && launches[1].status == 0 &&
           launches[1].reason == "done" && launches[1].to == step + 5));
}

TEST_CASE("an evaluation that a signal interrupts is repeated by the next launch", "[release]")
{
    const Run run;
    const std::vector<std::string> more{"data.valid=valid.h5", "train.eval_every=4", "train.steps=4"};
    REQUIRE(run.train([&] {
                   auto all = more;
                   all.insert(all.end(), {"checkpoint.dir=whole", "log.dir=lw"});
                   return all;
               }())
                .status == 0);
    const Outcome stopped =
        run_ranks_and({{2, Run::arguments(1, 2, more)}}, run.folder.path(), "step 4/4", [](int launcher) {
            kill(processes_below(launcher, "trivium").back(), SIGTERM); // one rank alone
        });
    INFO(stopped.err);
    CHECK(stopped.status == 75);
    CHECK(stopped.err.find("stopped on signal TERM after step 4") !=
          std::string::npos); // in the evaluation, or just before it
    CHECK_FALSE(run.metrics().back().has("valid_loss"));
    const Outcome resumed = run.train(more);
    INFO(resumed.err);
    CHECK(resumed.status == 0);
    REQUIRE(run.metrics().size() == 4);
    CHECK(run.metrics().back().value("valid_loss") ==
          Approx(run.metrics("lw").back().value("valid_loss")).epsilon(1e-4));
    CHECK(run.train(more).err.find("validation") == std::string::npos); // once is enough
}

TEST_CASE("an interrupted evaluation stays pending if the next launch has no time for it", "[release]")
{
    const Run run;
    const std::vector<std::string> valid{"data.valid=valid.h5", "train.steps=4"};
    REQUIRE(run.train({"train.steps=4"}).status == 0); // without validation data, so that no evaluation ran
    {
        const Variable end("SLURM_JOB_END_TIME", std::to_string(std::time(nullptr) - 1));
        CHECK(run.train(valid).status == 75);
    }
    CHECK_FALSE(run.metrics().back().has("valid_loss"));
    CHECK(run.train(valid).status == 0);
    CHECK(run.metrics().back().has("valid_loss"));
}

TEST_CASE("a run saves and stops before the end of its job's time", "[release]")
{
    const Run run;
    const Variable id("SLURM_JOB_ID", "41");
    const Variable end("SLURM_JOB_END_TIME", std::to_string(std::time(nullptr) + 20));
    const auto begin = std::chrono::steady_clock::now();
    const Outcome stopped = run.train({"train.steps=10000000", "log.every=1000"});
    INFO(stopped.err);
    CHECK(stopped.status == 75);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
    CHECK(stopped.err.find("stopped on the job's time limit after step ") != std::string::npos);
    CHECK(list_checkpoints(run.folder / "ck").size() == 1);
    CHECK(run.launches().back().job == "41");
}

TEST_CASE("a job without progress ends permanently, a new job may try", "[release]")
{
    const Run run;
    REQUIRE(run.train({"train.stop_after=2"}).status == 0);
    std::filesystem::remove(run.folder / "log/launches.jsonl");
    const auto begin = [&](i64 from) {
        trivium::Launch launch;
        launch.job = "7";
        launch.from = from;
        LaunchLog(run.folder / "log", launch); // killed: no end
    };
    begin(0);
    begin(2);
    begin(2);
    const Variable restart("SLURM_RESTART_COUNT", "3");
    {
        const Variable id("SLURM_JOB_ID", "7");
        CHECK(run.train({"train.stop_after=1", "job.restarts=4"}).status ==
              0); // step 2 for only the third time
        std::filesystem::remove_all(run.folder / "ck/step-00000003");
        begin(2);
        const Outcome ended = run.train();
        INFO(ended.err);
        CHECK(ended.status == 1);
        CHECK(ended.err.find("job 7: has begun 3 times in a row at step 2") != std::string::npos);
        CHECK(run.train({"job.restarts=0", "train.stop_after=0"}).status == 0);
    }
}

TEST_CASE("a launch counts from the step from which it could resume", "[release]")
{
    const Run run;
    REQUIRE(run.train({"train.stop_after=4", "checkpoint.every=2"}).status == 0);
    std::filesystem::remove(run.folder / "log/launches.jsonl");
    trivium::Launch launch;
    launch.job = "8";
    launch.from = 4;
    for (int i = 0; i < 3; ++i)
        LaunchLog(run.folder / "log", launch).restored(2); // killed
    const Variable id("SLURM_JOB_ID", "8"), restart("SLURM_RESTART_COUNT", "3");
    const bool bad = GENERATE(false, true);
    if (bad) { // the checkpoint of the last launch is as bad as the one before
        const std::string manifest = run.folder / "ck/step-00000004/manifest.json";
        REQUIRE(std::filesystem::exists(manifest));
        write_text(manifest, read_text(manifest) + "x");
    }
    const Outcome outcome = run.train({"train.stop_after=1"});
    INFO(outcome.err);
    CHECK(outcome.status == (bad ? 1 : 0));
    CHECK((outcome.err.find("has begun 3 times in a row at step 2") != std::string::npos) == bad);
    REQUIRE(run.launches().size() == 4);
    CHECK(run.launches().back().from == (bad ? 2 : 4));
}

TEST_CASE("a checkpoint to resume may be written as a folder", "[release]")
{
    const Run run;
    REQUIRE(run.train({"train.stop_after=2"}).status == 0);
    CHECK(run.train({"checkpoint.resume=ck/step-00000002/", "train.stop_after=1"}).status == 0);
    CHECK(read_text(run.folder / "log/launches.jsonl").find("restored") ==
          std::string::npos); // its first line had that step
    std::filesystem::rename(run.folder / "ck/step-00000003", run.folder / "best");
    CHECK(run.train({"checkpoint.resume=best", "train.stop_after=1"}).status == 0);
    CHECK(run.launches()[1].from == 2);
    CHECK(run.launches()[2].from == 3);
}

TEST_CASE("the configured start of a job applies until it has saved", "[release]")
{
    const Run run;
    const std::string resume = GENERATE("never", "ck/step-00000002");
    REQUIRE(run.train({"train.stop_after=2"}).status == 0);
    const Outcome other = run.train({"train.stop_after=4"}); // the checkpoints that a new job must move aside
    REQUIRE(other.status == 0);
    const Variable id("SLURM_JOB_ID", "52");
    const i64 from = resume == "never" ? 0 : 2;
    {
        const Variable restart("SLURM_RESTART_COUNT", "1"); // the first launch died before it saved
        CHECK(run.train({"checkpoint.resume=" + resume, "train.stop_after=1"}).status == 0);
        CHECK(run.launches().back().from == from);
        CHECK(run.launches().back().to == from + 1);
    }
    const Variable restart("SLURM_RESTART_COUNT", "2");
    const Outcome again = run.train({"checkpoint.resume=" + resume, "train.stop_after=1"});
    INFO(again.err);
    CHECK(again.status == 0);
    CHECK(again.err.find("was requeued after it had saved") != std::string::npos);
    CHECK(run.launches().back().from == from + 1);
    CHECK(run.metrics().size() == static_cast<std::size_t>(from + 2));
}

TEST_CASE("a restart waits for the folder that the previous launch still holds")
{
    const Run run;
    std::filesystem::create_directory(run.folder / "ck");
    std::optional<FolderLock> held(std::in_place, run.folder / "ck");
    const Variable id("SLURM_JOB_ID", "5");
    CHECK(run.train().status == 2); // of another run
    const Variable restart("SLURM_RESTART_COUNT", "1");
    const std::string waits = "is in use; waiting";
    SECTION("and the previous launch releases it")
    {
        const Outcome outcome =
            run_and_signal(Run::arguments(1, 1), run.folder.path(), waits, 0, [&] { held.reset(); });
        INFO(outcome.err);
        CHECK(outcome.status == 0);
        CHECK(outcome.err.find(waits) == outcome.err.rfind(waits)); // logged once
    }
    SECTION("unless a stop is requested")
    {
        const auto begin = std::chrono::steady_clock::now();
        const Outcome outcome = run_and_signal(Run::arguments(1, 1), run.folder.path(), waits, SIGTERM);
        INFO(outcome.err);
        CHECK(outcome.status == 75);
        CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(60));
    }
    SECTION("but not forever")
    {
        try {
            const FolderLock lock(run.folder / "ck", {.limit = 0.5});
            FAIL("it is held");
        } catch (const Error& error) {
            CHECK(error.exit_status() == 75);
        }
    }
    CHECK(run.launches().size() <= 1); // waiting does not count as a launch
}

TEST_CASE("a run resumes on fewer and on more ranks, on a grid that it chooses", "[release]")
{
    const Run run;
    REQUIRE(run.train({"checkpoint.dir=whole", "log.dir=lw"}).status == 0);
    const auto resume_on = [&](int ranks, const std::string& steps) {
        const Outcome o = run_ranks(
            {{ranks, Run::arguments(2, 2, {"parallel.strategy=auto", "train.stop_after=" + steps})}},
            run.folder.path());
        INFO(o.err);
        CHECK(o.status == 0);
        return o.err;
    };
    resume_on(4, "2");
    const std::string fewer =
        resume_on(3, "2"); // 3 divides neither 4 sequences nor 2 heads, but 4 blocks fill 3 stages
    CHECK(fewer.find("for 3 ranks: data 1 x pipeline 3 x tensor 1") != std::string::npos);
    resume_on(8, "2");
    resume_on(2, "2");
    const auto whole = run.losses("lw"), losses = run.losses();
    REQUIRE(losses.size() == whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i)
        CHECK(losses[i] == Approx(whole[i]).epsilon(1e-4));
    std::vector<double> ranks;
    for (const MetricsRecord& r : run.metrics())
        ranks.push_back(r.value("ranks"));
    CHECK(ranks == std::vector<double>{4, 4, 3, 3, 8, 8, 2, 2});
    const Outcome refused = run_ranks({{3, Run::arguments(2, 2)}},
                                      run.folder.path()); // without the option, another grid is an error
    CHECK(refused.status == 2);
    CHECK(refused.err.find("parallel.strategy=auto") != std::string::npos);
}

TEST_CASE("a job that is suspended for longer than the watchdog's limit continues", "[release]")
{
    const Run run;
    const Outcome outcome = run_ranks_and(
        {{2, Run::arguments(2, 1, {"train.steps=10000", "train.stop_after=600", "log.every=20"})}},
        run.folder.path(), " tok/s", [&](int launcher) {
            const auto ranks = processes_below(launcher, "trivium");
            for (const int process : ranks)
                kill(process, SIGSTOP);
            std::this_thread::sleep_for(std::chrono::seconds(8));
            for (const int process : ranks) {
                kill(process, SIGCONT);
                std::this_thread::sleep_for(std::chrono::milliseconds(500));
            }
        });
    INFO(outcome.err);
    CHECK(outcome.status == 0);
}

TEST_CASE("Ctrl-C on mpirun ends with a checkpoint if mpirun gives the ranks time", "[release]")
{
    const Run run;
    // No log lines: Open MPI 4 waits for this time once before it sends TERM, and reads no output meanwhile.
    const std::vector<std::string> more{"train.steps=1000000", "log.every=1000000"};
    const auto interrupt = [&](int launcher) {
        std::this_thread::sleep_for(std::chrono::seconds(1)); // into the steps
        kill(launcher,
             SIGINT); // its ranks are in separate process groups, so a terminal's INT reaches only mpirun
    };
    const Variable grace("OMPI_MCA_odls_base_sigkill_timeout", "10");
    const Outcome stopped =
        run_ranks_and({{2, Run::arguments(2, 1, more)}}, run.folder.path(), "compute ", interrupt);
    INFO(stopped.err);
    if (stopped.err.find("signal TERM") == std::string::npos && !is_open_mpi()) {
        WARN("this launcher is not Open MPI's: nothing to test");
        return;
    }
    if (stopped.err.find(" noticed in ") !=
        std::string::npos) // absent if the current step ended before it could be logged
        CHECK(stopped.err.find("mpirun kills the ranks 10 s after") != std::string::npos);
    CHECK(stopped.err.find("stopped on signal TERM after step") != std::string::npos);
    CHECK(stopped.err.find("kill -USR1") == std::string::npos); // no advice is needed
    const auto saved = list_checkpoints(run.folder / "ck");
    REQUIRE(saved.size() == 1);
    CHECK(run.launches().back().status == 75);
    const Outcome resumed =
        run_program(Run::arguments(1, 1, {"train.steps=1000000", "train.stop_after=1"}), run.folder.path());
    INFO(resumed.err);
    CHECK(resumed.status == 0);
    CHECK(resumed.err.find("resuming from ck/" + saved.front()) != std::string::npos);
}

TEST_CASE("without that time, the run logs at its start how to stop it", "[release]")
{
    const Run run;
    const Outcome outcome = run_ranks({{2, Run::arguments(2, 1, {"train.stop_after=1"})}}, run.folder.path());
    INFO(outcome.err);
    CHECK(outcome.status == 0);
    if (is_open_mpi())
        CHECK(outcome.err.find("to stop with a checkpoint: kill -USR1 ") != std::string::npos);
}

TEST_CASE("a closed terminal stops a run like TERM, except under nohup", "[release]")
{
    const Run run;
    const Outcome stopped = run_and_signal(Run::arguments(1, 1, {"train.steps=1000000", "log.every=20"}),
                                           run.folder.path(), " tok/s", SIGHUP);
    INFO(stopped.err);
    CHECK(stopped.status == 75);
    CHECK(stopped.err.find("stopped on signal HUP after step ") != std::string::npos);
    signal(SIGHUP, SIG_IGN); // like nohup, for its child
    const Outcome ignored =
        run_and_signal(Run::arguments(1, 1, {"train.steps=1000000", "train.stop_after=400", "log.every=20"}),
                       run.folder.path(), " tok/s", SIGHUP);
    signal(SIGHUP, SIG_DFL);
    CHECK(ignored.status == 0);
}

TEST_CASE("a step with a loss spike is skipped, also after a restart")
{
    const Run run;
    const std::vector<std::string> more{"train.spike_z=1", "train.spike_window=10", "train.steps=40",
                                        "train.lr=1e-4", "train.min_lr=0"};
    const auto with = [&](std::vector<std::string> last) {
        last.insert(last.begin(), more.begin(), more.end());
        return last;
    };
    REQUIRE(run.train(with({"checkpoint.dir=whole", "log.dir=lw"})).status == 0);
    // The same by hand.
    std::vector<double> recent;
    int skipped = 0;
    for (const MetricsRecord& r : run.metrics("lw")) {
        const double loss = r.value("loss");
        double mean = 0, variance = 0;
        for (const double each : recent)
            mean += each / static_cast<double>(recent.size());
        for (const double each : recent)
            variance += (each - mean) * (each - mean) / static_cast<double>(recent.size());
        const bool out = recent.size() >= 8 && loss > mean + std::sqrt(variance);
        CHECK(r.has("skipped") == out);
        skipped += out ? 1 : 0;
        if (!out)
            recent.push_back(loss);
        if (recent.size() > 10)
            recent.erase(recent.begin());
    }
    CHECK(skipped > 0);
    REQUIRE(run.train(with({"train.stop_after=23"})).status == 0);
    REQUIRE(run.train(more).status == 0);
    CHECK(run.losses() == run.losses("lw"));
}

TEST_CASE("a run that only skips ends", "[release]")
{
    const Run run;
    const Outcome outcome =
        run.train({"train.steps=1000", "train.lr=1e30", "train.min_lr=1e30", "train.max_skipped=5"});
    INFO(outcome.err);
    CHECK(outcome.status == 1);
    CHECK(outcome.err.find("was skipped, the last of 5 steps in a row") != std::string::npos);
    CHECK(run.launches().back().status == 1);
}

TEST_CASE("loss spikes")
{
    const std::vector<double> recent{2.0, 2.1, 1.9, 2.0, 2.1, 1.9, 2.0, 2.0}; // mean 2, deviation 0.0707
    CHECK(is_spike(recent, 2.2, 2));
    CHECK_FALSE(is_spike(recent, 2.2, 3));
    CHECK_FALSE(is_spike(recent, 0.1, 2));        // a lower loss is not a spike
    CHECK_FALSE(is_spike({2.0, 2.0, 2.0}, 9, 2)); // too few losses
    CHECK_FALSE(is_spike(std::vector<double>(8, 2.0), 2.0, 2));
}
