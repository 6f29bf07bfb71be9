// Runs whose ranks share experts, and what may go wrong in them.
#include "catch.hpp"
#include "has.hpp"
#include "io/metrics/metrics.hpp"
#include "train/program.hpp"

#include <chrono>
#include <csignal>
#include <filesystem>

using namespace trivium;

namespace {

struct Run {
    Folder folder;
    Run()
    {
        make_store(folder, 4000, "text.txt", "train.h5");
        write_text(folder / "run.toml",
                   "[model]\npreset = \"toy\"\nlayers = 2\nseq = 16\nexperts = 4\nexpert_dim = 32\n"
                   "[data]\ntrain = \"train.h5\"\n"
                   "[train]\nsteps = 3\nglobal_batch = 4\nlr = 1e-3\nwarmup = 1\n"
                   "[parallel]\nthreads = 1\ndata = 2\nexpert = 2\n"
                   "[checkpoint]\ndir = \"ck\"\n[log]\ndir = \"log\"\n");
    }
    static std::vector<std::string> words(const std::vector<std::string>& more)
    {
        std::vector<std::string> all{"train", "run.toml"};
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }
    Outcome train(const std::vector<std::string>& more) const
    {
        return run_ranks({{2, words(more)}}, folder.path());
    }
    std::vector<double> losses(const std::string& log) const
    {
        std::vector<double> all;
        for (const MetricsRecord& r : read_metrics(folder / (log + "/metrics.jsonl")))
            if (r.has("loss"))
                all.push_back(r.value("loss"));
        return all;
    }
};

} // namespace

TEST_CASE(
    "ranks that share experts have the losses of one rank, and too small a buffer ends them with one message")
{
    const Run run;
    const Outcome shared = run.train({"log.dir=shared", "checkpoint.dir=shared-ck"});
    INFO(shared.err);
    REQUIRE(shared.status == 0);
    const Outcome alone = run_program(
        Run::words({"parallel.data=1", "parallel.expert=1", "log.dir=alone", "checkpoint.dir=alone-ck"}),
        run.folder.path());
    INFO(alone.err);
    REQUIRE(alone.status == 0);
    const std::vector<double> got = run.losses("shared"), want = run.losses("alone");
    REQUIRE(got.size() == 3);
    REQUIRE(want.size() == 3);
    for (std::size_t i = 0; i < 3; ++i)
        CHECK(got[i] == Approx(want[i]).epsilon(1e-4));

    const Outcome refused = run.train({"parallel.expert_buffer=1"}); // no router is that equal
    INFO(refused.err);
    CHECK(refused.status == 2);
    CHECK(has(refused.err, "rows arrive, its buffer has"));
    CHECK(has(refused.err, "exchange_rows: expert rank "));
    CHECK(has(refused.err, "parallel.expert_overflow = \"drop\""));
    const Outcome dropped =
        run.train({"parallel.expert_buffer=1", "parallel.expert_overflow=drop", "checkpoint.dir=dropped"});
    INFO(dropped.err);
    CHECK(dropped.status == 0);
    const Outcome more = run.train({"model.experts=3"});
    CHECK(more.status == 2);
    CHECK(has(more.err, "parallel.expert: 2 ranks cannot share 3 experts"));
    CHECK(has(more.err, "set it to 1"));
}

TEST_CASE("a rank that is killed while rows travel ends the others", "[release]")
{
    const Run run;
    std::chrono::steady_clock::time_point killed;
    const Outcome outcome = run_ranks_and(
        {{2, Run::words({"train.steps=1000", "checkpoint.every=1", "parallel.delay_latency=0.3"})}},
        run.folder.path(), "saved ck/step-00000001",
        [&](int launcher) { // nearly all of a step, rows are under way
            const std::vector<int> ranks = processes_below(launcher, "trivium");
            REQUIRE(ranks.size() == 2);
            killed = std::chrono::steady_clock::now();
            kill(ranks[1], SIGKILL);
        });
    CHECK(outcome.status != 0);
    CHECK(std::chrono::steady_clock::now() - killed < std::chrono::seconds(20));
}
