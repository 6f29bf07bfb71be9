// A rank that freezes at a random moment of a launch, before the watchdog exists or while it begins or ends:
// the run ends by itself within about a minute, with status 75 and the rank's name, and the next launch
// resumes.
#include "base/check.hpp"
#include "catch.hpp"
#include "io/metrics/launches.hpp"
#include "program.hpp"
#include "soak_settings.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <random>
#include <set>
#include <thread>

using namespace trivium;

namespace {

using Clock = std::chrono::steady_clock;
/// A run on three ranks, with short limits for tests; tests/ranks/launch_watch_test covers the usual ones.
struct Run {
    Folder folder;
    Run()
    {
        make_store(folder, 3000);
        write_text(
            folder / "run.toml",
            "[model]\npreset = \"toy\"\nlayers = 2\nseq = 16\n[data]\ntrain = \"train.h5\"\n"
            "[train]\nsteps = 1000000\nglobal_batch = 6\nmicro_batch = 1\n[parallel]\ndata = 3\nthreads = 1\n"
            "[checkpoint]\ndir = \"ck\"\n[log]\ndir = \"log\"\nevery = 1000\n[job]\nwatchdog = 5\n");
        setenv("TRIVIUM_STATUS_FILE", (folder / "status").c_str(), 1);
        setenv("TRIVIUM_START_LIMIT", "8", 1);
    }
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;
    ~Run()
    {
        unsetenv("TRIVIUM_STATUS_FILE");
        unsetenv("TRIVIUM_START_LIMIT");
    }
};

Seconds since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

} // namespace

TEST_CASE("a rank that freezes in the first second of a launch does not hang it")
{
    const Run run;
    const Folder& folder = run.folder;
    std::mt19937_64 random(soak::seed());
    const auto draw = [&](double most) { return std::uniform_real_distribution(0.0, most)(random); };
    const soak::Budget budget(2);
    int before = 0;
    for (int round = 0; round < 2 || budget.left(); ++round) {
        const double wait = draw(round % 2 == 0 ? 0.5 : 1.0);
        const int victims = draw(1) < 0.75 ? 1 : 2;
        INFO("round " << round << ", " << victims << " rank(s) stopped " << wait
                      << " s after the first was seen, seed " << soak::seed());
        std::remove((folder / "status").c_str());
        const auto begin = Clock::now();
        std::vector<int> stopped;
        std::vector<int> ranks;
        const Outcome outcome =
            run_ranks_and({{3, {"train", "run.toml"}}}, folder.path(), "", [&](int launcher) {
                const auto at = Clock::now();
                while (processes_below(launcher, "trivium").empty() && since(at) < 30)
                    std::this_thread::sleep_for(std::chrono::milliseconds(1));
                std::this_thread::sleep_for(std::chrono::duration<double>(wait));
                ranks = processes_below(launcher, "trivium");
                for (int i = 0; i < victims && !ranks.empty(); ++i) {
                    stopped.push_back(
                        ranks[static_cast<std::size_t>(draw(static_cast<double>(ranks.size()) - 1e-6))]);
                    kill(stopped.back(), SIGSTOP);
                }
            });
        INFO(outcome.err);
        REQUIRE_FALSE(stopped.empty());
        CHECK(since(begin) < 90);
        CHECK(outcome.status != 0);
        CHECK(read_text(folder / "status") == "75\n");
        CHECK(outcome.err.find("trivium: the run hangs: ") != std::string::npos);
        const bool in_start = outcome.err.find("has not finished after") != std::string::npos;
        if (in_start) {
            CHECK(outcome.err.find("is stopped (process ") != std::string::npos);
            const auto launches = read_launches(folder / "log");
            REQUIRE_FALSE(launches.empty());
            CHECK((launches.back().status == 75 && launches.back().reason.starts_with("hang: ")));
            ++before;
        }
        const auto end = Clock::now();
        while (std::any_of(ranks.begin(), ranks.end(), is_left) && since(end) < 30)
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
        CHECK(std::none_of(ranks.begin(), ranks.end(), is_left)); // including the stopped one
    }
    WARN(before << " of the launches hung before the watchdog was there");
}

TEST_CASE("a rank that freezes at the end of its run does not hang the others")
{
    const Run run;
    std::mt19937_64 random(soak::seed());
    const auto draw = [&](double most) { return std::uniform_real_distribution(0.0, most)(random); };
    const soak::Budget budget(2);
    for (int round = 0; round < 2 || budget.left(); ++round) {
        const double wait = draw(0.03);
        INFO("round " << round << ", stopped after " << wait << " s, seed " << soak::seed());
        std::remove((run.folder / "status").c_str());
        const auto begin = Clock::now();
        const Outcome outcome = run_ranks_and(
            {{3, {"train", "run.toml", "train.stop_after=1"}}}, run.folder.path(), "\nmetrics ",
            [&](int launcher) {
                std::this_thread::sleep_for(std::chrono::duration<double>(wait));
                if (const auto ranks = processes_below(launcher, "trivium"); !ranks.empty())
                    kill(ranks[static_cast<std::size_t>(draw(static_cast<double>(ranks.size()) - 1e-6))],
                         SIGSTOP);
            });
        INFO(outcome.err);
        CHECK(since(begin) < 90);
        const std::string status = read_text(run.folder / "status");
        CHECK((status == "0\n" || status == "75\n")); // 75: the ranks had not yet agreed on the end
        CHECK(run_program({"train", "run.toml", "parallel.data=1", "train.stop_after=1"}, run.folder.path())
                  .status == 0);
    }
}
