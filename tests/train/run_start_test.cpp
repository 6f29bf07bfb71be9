// The start of a run and its messages: its folders, its requirements, and changes since its checkpoint.
#include "base/check.hpp"
#include "catch.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/metrics/launches.hpp"
#include "io/metrics/metrics.hpp"
#include "lifecycle/core_watch.hpp"
#include "lifecycle/disk_space.hpp"
#include "lifecycle/folder_lock.hpp"
#include "program.hpp"
#include "train/collapse.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

using namespace trivium;

namespace {

int count(const std::string& text, const std::string& part)
{
    int n = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
        ++n;
    return n;
}

struct Run {
    Folder folder;
    Run()
    {
        make_store(folder, 3000, "text.txt", "text.h5");
        make_store(folder, 2500, "other.txt", "other.h5");
        write_text(
            folder / "run.toml",
            "[model]\npreset = \"toy\"\nlayers = 2\nseq = 16\n[data]\ntrain = \"text.h5\"\n"
            "[train]\nsteps = 6\nglobal_batch = 4\nmicro_batch = 1\nlr = 3e-3\n[parallel]\nthreads = 1\n"
            "[checkpoint]\ndir = \"ck\"\n[log]\ndir = \"log\"\n");
    }
    static std::vector<std::string> words(const std::vector<std::string>& more)
    {
        std::vector<std::string> all{"train", "run.toml"};
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }
    Outcome train(const std::vector<std::string>& more = {}) const
    {
        return run_program(words(more), folder.path());
    }
    Outcome train_on(int ranks, const std::vector<std::string>& more = {}) const
    {
        return run_ranks({{ranks, words(more)}}, folder.path());
    }
    /// Runs a bash line in the folder; $TRIVIUM is the program; the output is in the file `said`.
    int shell(const std::string& line) const
    {
        write_text(folder / "line.bash", line + "\n");
        const int status = std::system(str("cd '", folder.path(), "' && TRIVIUM='", TRIVIUM_PROGRAM,
                                           "' LAUNCHER='", TRIVIUM_LAUNCHER, "' bash line.bash >said 2>&1")
                                           .c_str());
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    std::string said() const { return read_text(folder / "said"); }
    std::vector<double> losses(const std::string& file = "log") const
    {
        std::vector<double> all;
        for (const MetricsRecord& r : read_metrics(folder / file))
            all.push_back(r.value("loss"));
        return all;
    }
    /// Metrics files with lines of other runs.
    std::vector<std::string> kept() const
    {
        std::vector<std::string> files;
        for (const auto& entry : std::filesystem::directory_iterator(folder / "log"))
            if (has(entry.path().filename(), "metrics.run-"))
                files.push_back("log/" + entry.path().filename().string());
        return files;
    }
};

/// Number of pairs of slices in one row that overlap without nesting, over all rows.
int overlaps(const std::string& trace)
{
    std::map<std::pair<int, int>, std::vector<std::pair<i64, i64>>> rows; // in nanoseconds
    const auto nanoseconds = [](const nlohmann::json& us) { return std::llround(us.get<double>() * 1000); };
    const nlohmann::json file = nlohmann::json::parse(trace);
    for (const auto& event : file.at("traceEvents"))
        if (event.at("ph") == "X")
            rows[{event.at("pid"), event.at("tid")}].emplace_back(
                nanoseconds(event.at("ts")), nanoseconds(event.at("ts")) + nanoseconds(event.at("dur")));
    int bad = 0;
    for (auto& [row, slices] : rows) {
        std::sort(slices.begin(), slices.end(), [](const auto& a, const auto& b) {
            return a.first != b.first ? a.first < b.first : a.second > b.second;
        });
        std::vector<i64> open; // ends of the enclosing slices
        for (const auto& [begin, end] : slices) {
            while (!open.empty() && open.back() <= begin)
                open.pop_back();
            bad += !open.empty() && end > open.back() ? 1 : 0;
            open.push_back(end);
        }
    }
    return rows.empty() ? -1 : bad;
}

} // namespace

TEST_CASE("two concurrent runs do not share log.dir")
{
    const Run run;
    std::filesystem::create_directory(run.folder / "log");
    const FolderLock held(run.folder / "log");
    const Outcome refused = run.train();
    INFO(refused.err);
    CHECK(refused.status == 2);
    CHECK(has(refused.err, "log: is in use by another run"));
    CHECK(has(refused.err, "would mix their metrics"));
    CHECK(run.train({"log.dir=ck"}).status == 0); // one folder for both belongs to one run
}

TEST_CASE("a run keeps another run's metrics separate, and both continue", "[release]")
{
    const Run run;
    REQUIRE(run.train({"log.dir=whole", "checkpoint.dir=whole-ck"}).status == 0);
    REQUIRE(run.train({"train.stop_after=4"}).status == 0);
    const std::vector<double> first = run.losses();
    const Outcome second = run.train({"checkpoint.dir=ck2", "train.seed=7"});
    INFO(second.err);
    REQUIRE(second.status == 0);
    CHECK(has(second.err, "warning: log has the metrics of another run"));
    CHECK(run.losses().size() == 6);
    CHECK(run.losses() != run.losses("whole"));
    const auto kept = run.kept();
    REQUIRE(kept.size() == 1);
    CHECK(has(second.err, kept[0]));
    CHECK(run.losses(kept[0]) == first);
    CHECK_FALSE(std::filesystem::exists(run.folder / "log/metrics.superseded.jsonl"));
    const Outcome resumed = run.train();
    INFO(resumed.err);
    REQUIRE(resumed.status == 0);
    CHECK(run.losses() == run.losses("whole")); // its first lines are back
    CHECK(run.kept().size() == 1);              // those of the second run
    const Outcome anew = run.train({"checkpoint.resume=never"});
    INFO(anew.err);
    CHECK_FALSE(has(anew.err, "metrics of another run"));
    CHECK(run.losses() == run.losses("whole"));
    CHECK(run.losses("log/metrics.superseded.jsonl").size() == 6);
    CHECK(run.kept().size() == 1);
}

TEST_CASE("a run that branches off another's checkpoint begins with its lines", "[release]")
{
    const Run run;
    REQUIRE(run.train({"checkpoint.every=2", "checkpoint.keep=0"}).status == 0);
    const std::vector<double> before = run.losses();
    const Outcome branch =
        run.train({"checkpoint.dir=ck2", "checkpoint.resume=ck/step-00000002", "train.lr=1e-3"});
    INFO(branch.err);
    REQUIRE(branch.status == 0);
    const std::vector<double> after = run.losses();
    REQUIRE(after.size() == 6);
    CHECK(std::equal(before.begin(), before.begin() + 3,
                     after.begin())); // the third step's loss is known before its update
    CHECK(after != before);
    REQUIRE(run.kept().size() == 1);
    CHECK(run.losses(run.kept()[0]) == before);
}

TEST_CASE("a model that exceeds all memory is refused before it is compiled", "[release]")
{
    const Run run;
    const std::vector<std::string> huge{"model.preset=llama3-405b", "model.layers=126", "model.seq=64"};
    const auto begin = std::chrono::steady_clock::now();
    const Outcome alone = run.train(huge);
    INFO(alone.err);
    CHECK(alone.status == 2);
    CHECK(has(alone.err, "1 rank needs at least"));
    CHECK(has(alone.err, "available"));
    CHECK(has(alone.err, "remedy: "));
    auto cut = huge;
    cut.push_back("parallel.tensor=2");
    const Outcome two = run.train_on(2, cut);
    INFO(two.err);
    CHECK(two.status == 2);
    CHECK(count(two.err, "need at least") == 1);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(60)); // compiling takes minutes
    CHECK(run.train({"parallel.memory_limit=100000"}).status == 2);
}

TEST_CASE("a signal ends the start of a run while it compiles")
{
    const int ranks = GENERATE(1, 2);
    const std::vector<std::string> deep{"model.layers=4000", "model.dim=8",
                                        "model.heads=2",     "model.kv_heads=2",
                                        "model.ffn_dim=8",   str("parallel.data=", ranks)}; // takes minutes
    // Nothing outside shows when a rank begins to compile: on a busy machine the signal may come too early.
    bool while_compiling = false;
    for (int delay = 300; delay < 10000 && !while_compiling; delay *= 2) {
        const Run run;
        std::chrono::steady_clock::time_point sent{};
        const auto wait = [&] {
            for (int i = 0; i < 3000 && read_launches(run.folder / "log").empty(); ++i)
                std::this_thread::sleep_for(std::chrono::milliseconds(10));
            std::this_thread::sleep_for(std::chrono::milliseconds(delay));
            sent = std::chrono::steady_clock::now();
        };
        const auto to_last = [&](int launcher) {
            wait();
            const std::vector<int> ranks_now = processes_below(launcher, "trivium");
            REQUIRE(ranks_now.size() == 2);
            kill(ranks_now.back(), SIGTERM);
        };
        const Outcome stopped =
            ranks == 1 ? run_and_signal(Run::words(deep), run.folder.path(), "trivium ", SIGTERM, wait)
                       : run_ranks_and({{ranks, Run::words(deep)}}, run.folder.path(), "trivium ", to_last);
        INFO(stopped.err);
        CHECK(std::chrono::steady_clock::now() - sent < std::chrono::seconds(60));
        CHECK(stopped.status == 75);
        while_compiling =
            has(stopped.err, "stopped on signal TERM before the first step, in the compilation");
        CHECK((while_compiling ||
               has(stopped.err, "stopped on signal TERM before the first step, in the start")));
        CHECK(list_checkpoints(run.folder / "ck").empty());
        const auto launches = read_launches(run.folder / "log");
        REQUIRE(launches.size() == 1);
        CHECK((launches[0].status == 75 && launches[0].reason == "signal TERM"));
        CHECK(run.train().status == 0); // the folders are unlocked
    }
    CHECK(while_compiling);
}

TEST_CASE("changes that affect what a resumed run learns are reported, and nothing else", "[release]")
{
    const Run run;
    REQUIRE(run.train().status == 0);
    const auto warnings = [&](const std::vector<std::string>& more) {
        for (const char* name : {"ck-now", "log-now"})
            std::filesystem::remove_all(run.folder / name);
        std::filesystem::copy(run.folder / "ck", run.folder / "ck-now",
                              std::filesystem::copy_options::recursive);
        auto all = more;
        all.insert(all.end(), {"checkpoint.dir=ck-now", "log.dir=log-now", "train.stop_after=1"});
        const Outcome outcome = run.train(all);
        INFO(outcome.err);
        CHECK(outcome.status == 0);
        return outcome.err;
    };
    const std::string none =
        warnings({"train.micro_batch=2", "log.every=2", "checkpoint.every=1", "train.eval_every=0"});
    CHECK(count(none, "warning: ") == 0);
    const std::string longer = warnings({"train.steps=12"});
    INFO(longer);
    CHECK(count(longer, "warning: ") == 1);
    CHECK(has(longer, "train.steps is 12 (was 6): the learning rate of step 7 is 0.0011"));
    CHECK(has(longer, "instead of 0"));
    CHECK(has(longer, "step  7/12"));
    const std::string batch = warnings({"train.steps=12", "train.global_batch=8"});
    CHECK(has(batch, "train.global_batch is 8, the checkpoint's run had 4: a step takes 8 sequences instead "
                     "of 4 from step 7 on"));
    CHECK(has(warnings({"train.steps=12", "model.seq=32"}), "model.seq is 32, the checkpoint's run had 16"));
    CHECK(has(warnings({"train.steps=12", "train.beta2=0.99"}),
              "train.beta2 is 0.99, the checkpoint's run had 0.95"));
    CHECK(has(warnings({"train.steps=12", "train.seed=3"}),
              "train.seed is 3, the checkpoint's run had 0: the order of samples changes"));
    CHECK(has(warnings({"train.steps=12", "data.train=other.h5"}),
              "data.train (other.h5) differs from the data"));
    CHECK(has(warnings({"train.steps=12", "train.init_from=ck"}), "train.init_from = ck is ignored"));
    std::filesystem::copy(run.folder / "text.h5", run.folder / "moved.h5");
    CHECK(count(warnings({"train.steps=12", "data.train=moved.h5"}), "warning: ") ==
          1); // only the steps changed; the same tokens under another path count as the same
}

TEST_CASE("other processes on the cores of a run are noticed once, after ten seconds", "[release]")
{
    const auto told_after = [](double per_second, int threads) { // seconds of the first two reports
        CoreWatch watch;
        std::vector<int> told;
        for (int second = 0; second <= 60; ++second)
            if (watch.notices(1, static_cast<i64>(1e6 + per_second * threads * second), threads))
                told.push_back(second);
        return told;
    };
    CHECK(told_after(5, 2).empty()); // own cores
    CHECK(told_after(49, 2).empty());
    CHECK((told_after(120, 2) == std::vector<int>{10}));
    CHECK((told_after(51, 1) == std::vector<int>{10}));
    CoreWatch watch; // many preemptions during the start do not count
    CHECK_FALSE(watch.notices(30, 100000, 1));
    CHECK_FALSE(watch.notices(11, 100020, 1));
}

TEST_CASE("a run that has collapsed reports it once", "[release]")
{
    CollapseWatch watch;
    int told = 0;
    for (int i = 0; i < 20; ++i)
        told += watch.collapses(9.0, 0) ? 1 : 0;
    CHECK(told == 1);
    CollapseWatch healthy;
    for (int i = 0; i < 20; ++i) {
        CHECK_FALSE(healthy.collapses(0.0001, 1e-8)); // memorised
        CHECK_FALSE(healthy.collapses(9.0, i % 4 == 0 ? 1 : 0));
    }
    const Run run;
    const Outcome dead = run.train({"train.lr=1e6", "train.steps=12"});
    INFO(dead.err);
    CHECK(count(dead.err, "warning: the run has collapsed") == 1);
    CHECK(has(dead.err, "lower train.lr"));
    CHECK_FALSE(has(run.train({"checkpoint.dir=c2", "log.dir=l2", "train.steps=40"}).err, "collapsed"));
}

TEST_CASE("the log goes to stdout, warnings and errors to stderr, and a closed stdout is harmless",
          "[release]")
{
    const Run run;
    REQUIRE(run.shell("$TRIVIUM train run.toml train.stop_after=2 >out 2>err") == 0);
    CHECK(has(read_text(run.folder / "out"), "step 2/6"));
    CHECK(has(read_text(run.folder / "out"), "saved ck/step-00000002"));
    CHECK(read_text(run.folder / "err").empty());
    REQUIRE(run.shell("$TRIVIUM train run.toml train.stop_after=1 train.seed=2 >out 2>err") == 0);
    CHECK(has(read_text(run.folder / "err"), "warning: train.seed"));
    CHECK_FALSE(has(read_text(run.folder / "out"), "warning: "));
    REQUIRE(run.shell("$TRIVIUM train nowhere.toml >out 2>err") == 2);
    CHECK(read_text(run.folder / "out").find("nowhere") == std::string::npos);
    CHECK(has(read_text(run.folder / "err"), "nowhere.toml"));
    std::filesystem::remove_all(run.folder / "ck");
    REQUIRE(run.shell("($TRIVIUM train run.toml 2>err; echo $? >status) | head -n 1") == 0);
    INFO(read_text(run.folder / "err"));
    CHECK(read_text(run.folder / "status") == "0\n");
    CHECK(has(read_text(run.folder / "err"), "warning: stdout cannot be written"));
    CHECK(has(run.said(), "trivium "));
    CHECK(list_checkpoints(run.folder / "ck").size() == 1);
    CHECK(run.losses().size() == 6);
    // Open MPI's mpirun ends its ranks if its own stdout is closed, and may crash before they have saved. No
    // rank must remain.
    std::filesystem::remove_all(run.folder / "ck");
    run.shell("$LAUNCHER 2 $TRIVIUM train run.toml parallel.data=2 train.steps=20000 checkpoint.every=1000 "
              "2>err | head -n 20");
    int status = -1;
    for (int i = 0; i < 60 && status != 0;
         ++i) { // the folders are unlocked, and the checkpoints are complete
        std::this_thread::sleep_for(std::chrono::milliseconds(250));
        status = run.train({"train.steps=20000", "train.stop_after=1"}).status;
    }
    INFO(run.said() << read_text(run.folder / "err"));
    CHECK(status == 0);
}

TEST_CASE("a run predicts its step on a machine that it is given, and the report compares the two")
{
    const Run run;
    REQUIRE(run.train().status == 0);
    for (const MetricsRecord& r : read_metrics(run.folder / "log"))
        CHECK_FALSE(r.has("predicted_step_seconds"));
    std::vector<std::string> predicted{"log.machine=cpu", "log.dir=second", "checkpoint.dir=ck2",
                                       "parallel.pipeline=2", "train.micro_batch=1"};
    const Outcome outcome = run.train_on(2, predicted);
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    CHECK(has(outcome.out, " per step, simulated on 'generic CPU core'"));
    CHECK(has(outcome.out, "than simulated on 'generic CPU core' ("));
    const Outcome plan = run_program({"plan", "run.toml", "parallel.pipeline=2", "train.micro_batch=1",
                                      "--machine", "cpu", "--get", "estimated_step_seconds"},
                                     run.folder.path());
    for (const MetricsRecord& r : read_metrics(run.folder / "second"))
        CHECK(r.value("predicted_step_seconds") == Approx(std::stod(plan.out)).epsilon(0.1));
    REQUIRE(run_program({"metrics", "report", "second", "-o", "r.html"}, run.folder.path()).status == 0);
    CHECK(has(read_text(run.folder / "r.html"), "id=\"predicted_step\""));
    predicted[0] = "log.machine=none.toml";
    const Outcome refused = run.train_on(2, predicted);
    CHECK(refused.status == 2);
    CHECK(has(refused.err, "log.machine: none.toml"));
}

TEST_CASE("disk space is checked for the saves that exist at the same time", "[release]")
{
    const SavesToCome saves{.bytes = 100, .count = 10, .keep = 2, .kept_before = 0};
    CHECK_THROWS_AS(judge_space("d", 99, saves), IoError);
    CHECK(has(judge_space("d", 250, saves), "3 checkpoints"));
    CHECK(judge_space("d", 300, saves).empty());
    CHECK(judge_space("d", 100, {.bytes = 100, .count = 10, .keep = 2, .kept_before = 2}).empty());
    CHECK(judge_space("d", 999, {.bytes = 100, .count = 10, .keep = 0, .kept_before = 5}) != "");
    CHECK(judge_space("d", 100, {.bytes = 100, .count = 1, .keep = 2, .kept_before = 0}).empty());
    CHECK(judge_space("d", 0, {.bytes = 100, .count = 0, .keep = 2, .kept_before = 0}).empty());
    CHECK(judge_space("d", -1, saves).empty());
    CHECK(free_space(".") > 0);
    CHECK(free_space("no such folder") == -1);
}

TEST_CASE("a limit of address space causes a message on all ranks")
{
    if constexpr (contracts_on) // sanitizers take terabytes of it
        return;
    const Run run;
    const auto limited = [&](i64 megabytes, const std::string& command) {
        const int status = run.shell(str("(ulimit -v ", megabytes * 1024, "; exec ", command, ")"));
        INFO(megabytes << " MiB: " << command << "\n" << run.said());
        CHECK((status == 0 || status == 1 || status == 127)); // 127: from the loader
        CHECK_FALSE(has(run.said(), "internal error"));
        CHECK_FALSE(has(run.said(), "egmentation"));
        CHECK_FALSE(has(run.said(), "libgomp"));
        if (status == 1)
            CHECK((has(run.said(), "memory") || has(run.said(), "HDF5")));
    };
    // With less than 100 MiB, constructors of libraries (GnuTLS's, for one) end a program before main().
    for (const i64 megabytes : {100, 130, 170, 210, 260, 330, 420})
        limited(megabytes, "$TRIVIUM train run.toml parallel.threads=4");
    for (const i64 megabytes : {120, 230, 310, 370})
        limited(megabytes, "$LAUNCHER 2 bash -c 'exec $0 train run.toml parallel.data=2' $TRIVIUM");
    for (const i64 megabytes : {100, 120}) {
        limited(megabytes, "$TRIVIUM plan run.toml model.vocab=300");
        limited(megabytes, "$TRIVIUM explain run.toml model.vocab=300");
        limited(megabytes, "$TRIVIUM data tokenize text.txt --tokenizer bytes --output x.h5 --force");
    }
}

TEST_CASE("slices of a row of the trace nest or are disjoint", "[release]")
{
    const Run run;
    const std::vector<std::vector<std::string>> grids{{"parallel.data=2", "parallel.zero=1"},
                                                      {"parallel.tensor=2"},
                                                      {"parallel.pipeline=2"},
                                                      {"parallel.data=2", "parallel.tensor=2"}};
    for (const auto& grid : grids) {
        auto more = grid;
        more.insert(more.end(), {"log.trace=trace.json", "train.steps=3", "checkpoint.resume=never"});
        const Outcome outcome =
            run.train_on(grid.size() == 2 && grid[1] == "parallel.tensor=2" ? 4 : 2, more);
        INFO(outcome.err);
        REQUIRE(outcome.status == 0);
        CHECK(overlaps(read_text(run.folder / "trace.json")) == 0);
    }
}

TEST_CASE("a command that is not training says on which grid it runs if more ranks were started", "[release]")
{
    const Run run;
    REQUIRE(run.train({"train.stop_after=1"}).status == 0);
    const Outcome outcome = run_ranks({{2, {"eval", "run.toml"}}}, run.folder.path());
    INFO(outcome.err);
    CHECK(outcome.status == 0);
    CHECK(count(outcome.err, "on 2 ranks: data 2 x pipeline 1 x tensor 1; the config has") == 1);
    CHECK(count(outcome.out, "loss ") == 1);
    CHECK_FALSE(has(run_program({"eval", "run.toml"}, run.folder.path()).err, "the config has"));
}

TEST_CASE("an error that all ranks have is printed once, also one of the command line", "[release]")
{
    const Run run;
    for (const std::vector<std::string>& words : {std::vector<std::string>{"train"},
                                                  {"trian"},
                                                  {"train", "run.toml", "--no"},
                                                  {"train", "run.toml", "a.b=1"}}) {
        const Outcome outcome = run_ranks({{4, words}}, run.folder.path());
        INFO(outcome.err);
        CHECK(outcome.status == 2);
        CHECK(count(outcome.err, "trivium: ") == 1);
    }
}
