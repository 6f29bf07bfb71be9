// A signal at any moment after the first printed line, to any rank: status 75, a checkpoint if a step was
// near, and the run resumes.
#include "base/check.hpp"
#include "catch.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/metrics/metrics.hpp"
#include "program.hpp"
#include "soak_settings.hpp"

#include <csignal>
#include <filesystem>
#include <map>
#include <random>
#include <thread>

using namespace trivium;

TEST_CASE("a signal at a random moment ends in a checkpoint, from which the next launch resumes")
{
    const bool whole = soak::whole();
    const Folder folder;
    make_store(folder, 3000);
    make_store(folder, 20000, "long.txt", "valid.h5");
    // Loading, steps, evaluations and saves take about the same time.
    write_text(
        folder / "run.toml",
        "[model]\npreset = \"toy\"\nlayers = 2\nseq = 16\n[data]\ntrain = \"train.h5\"\nvalid = "
        "\"valid.h5\"\n"
        "[train]\nsteps = 1000000\nglobal_batch = 4\nmicro_batch = 1\nlr = 1e-3\neval_every = "
        "15\neval_batches = 30\n"
        "[parallel]\ndata = 2\nthreads = 1\n[checkpoint]\ndir = \"ck\"\nevery = 10\n[log]\ndir = \"log\"\n");
    std::mt19937_64 random(soak::seed());
    const auto draw = [&](double most) { return std::uniform_real_distribution(0.0, most)(random); };
    const soak::Budget budget;
    const int rounds = whole ? 50 : 2;
    std::map<std::string, int> phases;
    int stopped = 0, early = 0;
    for (int round = 0; round < rounds || (!whole && budget.left() && round < 50); ++round) {
        // Half of them near the start, which is short.
        const double wait = draw(round % 2 == 0 ? 0.25 : 2.5);
        const int signal = draw(1) < 0.5 ? SIGUSR1 : SIGTERM;
        INFO("round " << round << ", signal " << signal << " after " << wait << " s, seed " << soak::seed());
        const auto before = list_checkpoints(folder / "ck");
        const Outcome outcome =
            run_ranks_and({{2, {"train", "run.toml"}}}, folder.path(), "trivium ", [&](int launcher) {
                std::this_thread::sleep_for(std::chrono::duration<double>(wait));
                const std::vector<int> ranks = processes_below(launcher, "trivium");
                REQUIRE(ranks.size() == 2);
                kill(ranks[static_cast<std::size_t>(draw(1.999))], signal);
            });
        INFO(outcome.err);
        REQUIRE(outcome.status == 75);
        ++stopped;
        const std::size_t noticed = outcome.err.find(" noticed in ");
        const std::string phase =
            noticed == std::string::npos
                ? "at once"
                : outcome.err.substr(noticed + 12, outcome.err.find(':', noticed) - noticed - 12);
        ++phases[phase.substr(0, phase.find_first_of("0123456789"))];
        const auto after = list_checkpoints(folder / "ck");
        if (outcome.err.find(" before the first step, in ") != std::string::npos) { // nothing to save yet
            ++early;
            CHECK(after == before);
            continue;
        }
        REQUIRE_FALSE(after.empty());
        if (!before.empty()) {
            CHECK(outcome.err.find("resuming from ck/" + before.front()) !=
                  std::string::npos); // remains of the previous launch
            CHECK(checkpoint_step(after.front()) >= checkpoint_step(before.front()));
        }
        CHECK(run_program({"checkpoint", "verify", "ck/" + after.front()}, folder.path()).status == 0);
        // Each step up to the checkpoint is in the metrics once.
        i64 step = 0;
        for (const MetricsRecord& r : read_metrics(folder / "log"))
            CHECK(r.step == ++step);
        CHECK(step == checkpoint_step(after.front()));
    }
    std::string list;
    for (const auto& [phase, count] : phases)
        list += str(", ", count, " ", phase);
    WARN(stopped - early << " of " << stopped << " signals ended in a checkpoint, " << early
                         << " before anything could be lost" << list);
}
