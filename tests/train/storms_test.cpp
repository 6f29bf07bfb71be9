// Storms of signals at random moments, over schedules, ZeRO stages, optimizers, types and grids: whatever
// happens to its launches, a run ends with the losses of an undisturbed one.
#include "base/check.hpp"
#include "catch.hpp"
#include "config/run_config.hpp"
#include "config/schedules.hpp"
#include "io/metrics/metrics.hpp"
#include "program.hpp"
#include "soak_settings.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <random>
#include <thread>

using namespace trivium;

namespace {

class Draw {
public:
    explicit Draw(std::uint64_t seed) : random_(seed) {}
    int below(int n) { return std::uniform_int_distribution(0, n - 1)(random_); }
    bool one_in(int n) { return below(n) == 0; }
    void sleep(int most_milliseconds)
    {
        std::this_thread::sleep_for(std::chrono::milliseconds(below(most_milliseconds + 1)));
    }

private:
    std::mt19937_64 random_;
};

struct Storm {
    int ranks = 1;
    bool other_grids = false; ///< each launch has another number of ranks
    std::vector<std::string> overrides;
};

Storm draw_storm(Draw& draw)
{
    Storm storm;
    std::vector<std::string>& o = storm.overrides;
    storm.other_grids = draw.one_in(4);
    ParallelConfig grid;
    for (const GridAxis& axis : grid_axes) {
        grid.*axis.degree = rank_count(grid) < (soak::whole() ? 8 : 4) ? 1 + draw.below(2) : 1;
        o.push_back(str("parallel.", axis.name, "=", grid.*axis.degree));
    }
    storm.ranks = static_cast<int>(rank_count(grid));
    o.insert(o.end(), {str("parallel.zero=", grid.data > 1 ? draw.below(4) : 0),
                       str("checkpoint.async=", draw.one_in(3) ? "false" : "true"),
                       str("train.optimizer=", draw.one_in(4) ? "muon" : "adamw")});
    if (grid.pipeline > 1)
        o.push_back(str("parallel.schedule=", names_of_enum<ScheduleKind>[static_cast<std::size_t>(draw.below(
                                                  static_cast<int>(names_of_enum<ScheduleKind>.size())))]));
    if (!storm.other_grids)
        o.push_back(str("train.precision=", draw.one_in(3) ? "bf16" : draw.one_in(3) ? "f64" : "f32"));
    if (draw.one_in(4))
        o.emplace_back("parallel.update=post-validated");
    if (draw.one_in(4))
        o.emplace_back("parallel.recompute=full");
    return storm;
}

std::vector<double> losses(const std::string& folder)
{
    std::vector<double> all;
    for (const MetricsRecord& record : read_metrics(folder + "/log"))
        all.push_back(record.value("loss"));
    return all;
}

/// One to four signals, to ranks or to the launcher. Returns the ranks.
std::vector<int> strike(Draw& draw, int launcher)
{
    const auto begin = std::chrono::steady_clock::now();
    while (processes_below(launcher, "trivium").empty() &&
           std::chrono::steady_clock::now() - begin < std::chrono::seconds(10))
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    draw.sleep(1500);
    const std::vector<int> all = processes_below(launcher, "trivium");
    std::size_t stopped = 0;
    for (int count = draw.one_in(3) ? 4 : 1; count > 0; --count) {
        const std::vector<int> ranks = processes_below(launcher, "trivium");
        if (ranks.empty())
            break;
        const int signals[] = {SIGKILL, SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGSTOP};
        const int signal = signals[draw.below(stopped + 1 < ranks.size() ? 6 : 5)]; // one of them must watch
        stopped += signal == SIGSTOP ? 1 : 0;
        const bool to_launcher = signal != SIGSTOP && signal != SIGKILL && draw.one_in(3);
        const int rank = ranks[static_cast<std::size_t>(draw.below(static_cast<int>(ranks.size())))];
        kill(to_launcher ? launcher : rank, signal);
        draw.sleep(20);
    }
    return all;
}

} // namespace

TEST_CASE("after any storm of signals a run ends with the losses of an undisturbed one")
{
    const Folder folder;
    make_store(folder, 3000);
    Draw draw(soak::seed());
    const soak::Budget budget;
    int storms = 0, launches = 0, refused = 0;
    do {
        const Storm storm = draw_storm(draw);
        std::string said = str("seed ", soak::seed(), ", storm ", storms, ", ranks ", storm.ranks,
                               storm.other_grids ? ", other grids:" : ":");
        for (const std::string& each : storm.overrides)
            said += " " + each;
        INFO(said);
        const auto launch = [&](const std::string& name, int ranks, const std::function<void(int)>& then) {
            std::vector<std::string> arguments{"train", "run.toml"};
            arguments.insert(arguments.end(), storm.overrides.begin(), storm.overrides.end());
            if (storm.other_grids)
                arguments.emplace_back("parallel.strategy=auto");
            return run_ranks_and({{ranks, arguments}}, folder / name, "", then);
        };
        for (const char* name : {"calm", "storm"}) {
            std::filesystem::remove_all(folder / name);
            std::filesystem::create_directory(folder / name);
            write_text(folder / name + "/run.toml",
                       "[model]\npreset = \"toy\"\nlayers = 4\nseq = 16\n[data]\ntrain = \"../train.h5\"\n"
                       "[train]\nsteps = 120\nglobal_batch = 12\nmicro_batch = 1\nlr = 1e-3\n[parallel]\n"
                       "threads = 1\n[checkpoint]\ndir = \"ck\"\nevery = 10\n[log]\ndir = \"log\"\nevery = "
                       "1000\n[job]\nwatchdog = 4\n");
        }
        const Outcome calm = launch("calm", storm.ranks, [](int) {});
        INFO(calm.err);
        if (calm.status == 2) { // settings that exclude each other
            ++refused;
            continue;
        }
        REQUIRE(calm.status == 0);
        ++storms;
        int status = -1;
        std::string log;
        for (int i = 0; status != 0 && i < 9; ++i) {
            const bool last = i == 8;
            std::vector<int> ranks;
            const Outcome outcome =
                launch("storm", storm.other_grids ? 1 + draw.below(4) : storm.ranks, [&](int launcher) {
                    if (!last)
                        ranks = strike(draw, launcher);
                });
            ++launches;
            status = outcome.status;
            const auto end = std::chrono::steady_clock::now();
            while (std::any_of(ranks.begin(), ranks.end(), is_left) &&
                   std::chrono::steady_clock::now() - end < std::chrono::seconds(20))
                std::this_thread::sleep_for(std::chrono::milliseconds(50));
            const auto left = std::chrono::steady_clock::now() - end;
            if (left > std::chrono::seconds(3))
                said += str("; ranks of launch ", i, " were left for ",
                            std::chrono::duration<double>(left).count(), " s");
            log += str("--- launch ", i, ", status ", status, "\n", outcome.err);
        }
        INFO(log);
        REQUIRE(status == 0);
        const std::vector<double> expected = losses(folder / "calm"), found = losses(folder / "storm");
        REQUIRE(found.size() == expected.size());
        for (std::size_t i = 0; i < found.size(); ++i)
            CHECK(std::abs(found[i] - expected[i]) <= (storm.other_grids ? 1e-4 : 0) * expected[i]);
    } while (budget.left() || storms == 0);
    std::printf("%d storms, %d launches; %d combinations were refused\n", storms, launches, refused);
}
