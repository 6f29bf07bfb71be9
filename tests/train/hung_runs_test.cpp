// Runs with a rank that stops, or never starts: the rank is named, and the run ends such that it can resume.
#include "base/check.hpp"
#include "catch.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "life_cycle_run.hpp"

#include <chrono>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <sys/stat.h>
#include <thread>

using namespace trivium;

TEST_CASE("a stopped rank is named with its operation, and the run ends such that it can resume")
{
    const Run run;
    const int stops = GENERATE(0, 1); // the first rank, which monitors the others, or another
    const std::vector<std::string> more{"train.steps=1000000", "checkpoint.every=20", "log.every=20",
                                        "job.watchdog=6"};
    int victim = 0;
    const auto begin = std::chrono::steady_clock::now();
    const Outcome hung = run_ranks_and(
        {{4, Run::arguments(2, 2, more)}}, run.folder.path(), "saved ck/step-00000020", [&](int launcher) {
            const auto ranks = processes_below(launcher, "trivium");
            REQUIRE(ranks.size() == 4);
            std::this_thread::sleep_for(
                std::chrono::milliseconds(1200)); // it reports its operation twice a second
            victim = ranks[static_cast<std::size_t>(
                               std::find_if(ranks.begin(), ranks.end(),
                                            [&](int process) { return is_rank(process, stops); }) -
                               ranks.begin()) %
                           4];
            kill(victim, SIGSTOP);
        });
    INFO(hung.err);
    CHECK(hung.status == 75);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(60));
    CHECK(hung.err.find("the run hangs: no heartbeat from rank ") != std::string::npos);
    const auto last_in = [&](const std::string& phase) {
        return hung.err.find("no heartbeat; last in " + phase) != std::string::npos;
    };
    CHECK((last_in("step ") || last_in("the save of step "))); // one follows the other every few milliseconds
    CHECK(hung.err.find("waits for rank") != std::string::npos);
    CHECK(hung.err.find(" over ") != std::string::npos); // an operation and its axis
    CHECK(
        (run.launches().back().status == 75 && run.launches().back().reason.find("hang: no heartbeat") == 0));
    CHECK(read_text(run.folder / "log/hang.txt").find("no heartbeat") != std::string::npos);
    const auto gone = [&] { return kill(victim, 0) != 0; };
    for (int tries = 0; tries < 100 && !gone(); ++tries)
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    CHECK(gone()); // the launcher has ended it
    const Outcome resumed =
        run_program(Run::arguments(1, 1, {"train.steps=1000000", "train.stop_after=1"}), run.folder.path());
    INFO(resumed.err);
    CHECK(resumed.status == 0);
    CHECK(resumed.err.find("resuming from ck/step-") != std::string::npos);
}

TEST_CASE("if both monitoring ranks are stopped, one of the other ranks ends the run", "[release]")
{
    const Run run;
    const Outcome hung = run_ranks_and(
        {{3, Run::arguments(
                 1, 1, {"parallel.pipeline=3", "model.layers=3", "train.steps=1000000", "log.every=20"})}},
        run.folder.path(), " tok/s", [&](int launcher) {
            std::this_thread::sleep_for(std::chrono::seconds(4)); // they have sent a heartbeat
            signal_ranks(launcher, {0, 2}, SIGSTOP);
        });
    INFO(hung.err);
    CHECK(hung.status == 75);
    CHECK(hung.err.find("no heartbeat from ranks 0 and 2, which monitor the others") != std::string::npos);
    CHECK(hung.err.find("waits for rank") != std::string::npos);
}

TEST_CASE("a hang ends the run even if the disk does not respond")
{
    const Run run;
    std::filesystem::create_directories(run.folder / "log");
    REQUIRE(mkfifo((run.folder / "log/hang.txt").c_str(), 0600) ==
            0); // no process reads it, so a writer blocks
    const Outcome hung =
        run_ranks_and({{2, Run::arguments(2, 1, {"train.steps=1000000", "log.every=20"})}}, run.folder.path(),
                      " tok/s", [](int launcher) { signal_ranks(launcher, {1}, SIGSTOP); });
    INFO(hung.err);
    CHECK(hung.status == 75);
    CHECK(hung.err.find("no heartbeat from rank 1") != std::string::npos);
}

TEST_CASE("a signal to an idle rank stops the run")
{
    const Run run;
    const Outcome stopped = run_ranks_and(
        {{3, Run::arguments(2, 1, {"parallel.strategy=auto", "train.steps=1000000", "log.every=20"})}},
        run.folder.path(), " tok/s", [](int launcher) { signal_ranks(launcher, {2}, SIGUSR1); });
    INFO(stopped.err);
    CHECK(stopped.status == 75);
    CHECK(stopped.err.find("1 of them idle") != std::string::npos);
    CHECK(stopped.err.find("stopped on signal USR1") != std::string::npos);
}

TEST_CASE("a rank that never starts")
{
    const Run run;
    write_text(run.folder / "sleeper", "#!/bin/sh\nexec sleep 60\n");
    std::filesystem::permissions(run.folder / "sleeper", std::filesystem::perms::owner_all);
    const Variable limit("TRIVIUM_START_LIMIT", "4");
    const Outcome outcome =
        run_ranks({{1, Run::arguments(2, 1)}, {1, {}, "", run.folder / "sleeper"}}, run.folder.path());
    INFO(outcome.err);
    CHECK(outcome.status == 75);
    CHECK(outcome.err.find("the run hangs: rank 0: the start of MPI has not finished after 4 s") !=
          std::string::npos);
    REQUIRE(run.launches().size() == 1);
    CHECK((run.launches().back().status == 75 &&
           run.launches().back().reason.starts_with("hang: the start of MPI")));
}

TEST_CASE("a job that hangs repeatedly in the start of MPI ends permanently", "[release]")
{
    const Run run;
    write_text(run.folder / "sleeper", "#!/bin/sh\nexec sleep 60\n");
    std::filesystem::permissions(run.folder / "sleeper", std::filesystem::perms::owner_all);
    const Variable limit("TRIVIUM_START_LIMIT", "3"), id("SLURM_JOB_ID", "9"),
        file("TRIVIUM_STATUS_FILE", run.folder / "status");
    for (int restart = 0; restart < 2; ++restart) {
        const Variable count("SLURM_RESTART_COUNT", std::to_string(restart));
        std::filesystem::remove(run.folder / "status");
        const Outcome outcome =
            run_ranks({{1, Run::arguments(2, 1, {"job.restarts=2"})}, {1, {}, "", run.folder / "sleeper"}},
                      run.folder.path());
        INFO(outcome.err);
        CHECK(read_text(run.folder / "status") == (restart == 0 ? "75\n" : "1\n"));
        CHECK((outcome.err.find("has begun 2 times in a row at step 0") != std::string::npos) ==
              (restart == 1));
    }
}

TEST_CASE("a signal during a start that never finishes stops it", "[release]")
{
    const Run run;
    write_text(run.folder / "sleeper", "#!/bin/sh\nexec sleep 60\n");
    std::filesystem::permissions(run.folder / "sleeper", std::filesystem::perms::owner_all);
    const auto begin = std::chrono::steady_clock::now();
    std::filesystem::remove(run.folder / ".err");
    const Outcome outcome =
        run_ranks_and({{1, Run::arguments(2, 1)}, {1, {}, "", run.folder / "sleeper"}}, run.folder.path(), "",
                      [&](int launcher) {
                          for (int i = 0; i < 1000 && processes_below(launcher, "trivium").empty(); ++i)
                              std::this_thread::sleep_for(std::chrono::milliseconds(10));
                          std::this_thread::sleep_for(std::chrono::milliseconds(500));
                          for (const int process : processes_below(launcher, "trivium"))
                              kill(process, SIGUSR1);
                      });
    INFO(outcome.err);
    CHECK(outcome.status == 75);
    CHECK(outcome.err.find("stopped on a signal during the start of MPI") != std::string::npos);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(35));
}
