// Whole runs on grids of ranks, under the launcher.
#include "base/check.hpp"
#include "base/cores.hpp"
#include "catch.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/metrics/metrics.hpp"
#include "program.hpp"

#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

using namespace trivium;

namespace {

/// A folder with a tiny corpus and config.
struct Run {
    Folder folder;
    Run()
    {
        make_store(folder, 4000, "text.txt", "train.h5", {"--valid", "valid.h5", "--valid-fraction", "0.1"});
        write_text(folder / "run.toml", "[model]\npreset = \"toy\"\nlayers = 3\nseq = 30\n[data]\ntrain = "
                                        "\"train.h5\"\nvalid = \"valid.h5\"\n"
                                        "[train]\nsteps = 6\nglobal_batch = 4\nmicro_batch = 1\nlr = "
                                        "3e-3\nwarmup = 2\neval_every = 3\n[parallel]\nthreads = 1\n"
                                        "[checkpoint]\ndir = \"ck\"\n[log]\ndir = \"log\"\n");
    }

    static std::vector<std::string> arguments(int data, int pipeline, int tensor,
                                              const std::vector<std::string>& more)
    {
        std::vector<std::string> all{"train", "run.toml", "parallel.data=" + std::to_string(data),
                                     "parallel.pipeline=" + std::to_string(pipeline),
                                     "parallel.tensor=" + std::to_string(tensor)};
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }

    Outcome train(int data, int pipeline, int tensor, const std::vector<std::string>& more) const
    {
        const int ranks = data * pipeline * tensor;
        const auto words = arguments(data, pipeline, tensor, more);
        return ranks == 1 ? run_program(words, folder.path()) : run_ranks({{ranks, words}}, folder.path());
    }

    std::vector<double> metric(const std::string& log, const std::string& name) const
    {
        std::vector<double> all;
        for (const MetricsRecord& r : read_metrics(folder / (log + "/metrics.jsonl")))
            if (r.has(name))
                all.push_back(r.value(name));
        return all;
    }

    std::map<std::string, std::vector<double>> content(const std::string& checkpoint) const
    {
        const CheckpointReader reader = CheckpointReader::open(folder / checkpoint);
        std::map<std::string, std::vector<double>> all;
        for (const auto& entry : reader.tensors()) {
            std::vector<double>& values = all[entry.name];
            values.resize(static_cast<std::size_t>(element_count(entry.shape)));
            reader.read(entry.name, 0, static_cast<i64>(values.size()), DType::f64, values.data());
        }
        return all;
    }
};

void check_close(const std::vector<double>& got, const std::vector<double>& want, double tolerance)
{
    REQUIRE(got.size() == want.size());
    for (std::size_t i = 0; i < got.size(); ++i)
        CHECK(got[i] == Approx(want[i]).epsilon(tolerance));
}

/// A trace's slices by rank and queue, and the names of ranks and queues.
struct TraceRows {
    std::vector<nlohmann::json> names;
    std::map<std::pair<int, int>, std::vector<nlohmann::json>> slices;
    /// Slices of one name on one rank, in the order of time.
    std::vector<nlohmann::json> called(const std::string& name, int rank) const
    {
        std::vector<nlohmann::json> found;
        for (const auto& [row, all] : slices)
            for (const nlohmann::json& slice : all)
                if (row.first == rank && slice["name"] == name)
                    found.push_back(slice);
        return found;
    }
};

TraceRows rows_of(const std::string& path)
{
    TraceRows made;
    const nlohmann::json file = nlohmann::json::parse(read_text(path));
    for (const auto& event : file.at("traceEvents"))
        if (event.at("ph") == "M")
            made.names.push_back(event);
        else
            made.slices[{event.at("pid"), event.at("tid")}].push_back(event);
    return made;
}

double seconds_since(std::chrono::steady_clock::time_point begin)
{
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

} // namespace

TEST_CASE("eight ranks have the losses of one, and use the arenas that plan prints")
{
    const Run run;
    REQUIRE(run.train(1, 1, 1, {"checkpoint.dir=a", "log.dir=la"}).status == 0);
    const std::vector<std::string> more{"checkpoint.dir=b", "log.dir=lb", "parallel.zero=1"};
    const Outcome grid = run.train(2, 2, 2, more);
    INFO(grid.err);
    REQUIRE(grid.status == 0);
    for (const char* name : {"loss", "grad_norm", "valid_loss"})
        check_close(run.metric("lb", name), run.metric("la", name), 1e-4);
    CHECK(run.metric("lb", "loss").size() == 6);
    CHECK(run.metric("lb", "valid_loss").size() == 2);
    CHECK(grid.err.find("8 ranks on 1 node: data 2 x pipeline 2 x tensor 2") != std::string::npos);
    // The arena of each rank, according to the plan and to the run.
    auto words = Run::arguments(2, 2, 2, more);
    words[0] = "plan";
    words.push_back("--json");
    const auto plan = nlohmann::json::parse(run_program(words, run.folder.path()).out);
    REQUIRE(plan["per_rank"].size() == 8);
    CHECK(grid.err.find("all other ranks used what was planned") != std::string::npos);
    CHECK(run.metric("lb", "memory_bytes").back() == plan["arena_bytes"].get<double>());
    // Ranks that share cores have the peak of these cores.
    const int cores = std::min(8, usable_core_count());
    CHECK(run.metric("lb", "mfu").back() * run.metric("lb", "step_seconds").back() ==
          Approx(plan["model_flops_per_step"].get<double>() / (150e9 * cores)));
    for (const auto& rank : plan["per_rank"])
        CHECK(grid.err.find(str("(", rank["arena_bytes"].get<i64>(), " bytes)")) != std::string::npos);
}

namespace {

/// Requires that the first rank of each stage has the same Steps in the same order on each queue.
void require_same_slices(const TraceRows& ran, const TraceRows& planned)
{
    REQUIRE(planned.slices.size() > 6);
    for (const auto& [row, slices] : planned.slices) {
        INFO("rank " << row.first << ", queue " << row.second);
        REQUIRE(ran.slices.contains(row));
        const auto& other = ran.slices.at(row);
        REQUIRE(slices.size() == other.size());
        for (std::size_t i = 0; i < slices.size(); ++i)
            CHECK((slices[i]["name"] == other[i]["name"] && slices[i]["args"] == other[i]["args"]));
    }
}

} // namespace

TEST_CASE("the trace of plan has the rows and slices of a run's, and ranks on two nodes share a clock there",
          "[release]")
{
    const Run run;
    std::vector<std::string> more{"checkpoint.dir=a", "log.dir=la", "log.trace=run.json",
                                  "parallel.schedule=zb-h1", "train.steps=2"};
    auto words = Run::arguments(1, 2, 1, more);
    std::vector<Launch> nodes; // a virtual node for each rank
    for (const char* node : {"SLURM_NODEID=0", "SLURM_NODEID=1"}) {
        Launch one{1, {node, "SLURM_STEP_NUM_TASKS=2", TRIVIUM_PROGRAM}, {}, "env"};
        one.arguments.insert(one.arguments.end(), words.begin(), words.end());
        nodes.push_back(one);
    }
    const Outcome outcome = run_ranks(nodes, run.folder.path());
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    CHECK(outcome.out.find("2 ranks on 2 nodes") != std::string::npos);
    const std::string aligned = "clocks aligned to ";
    REQUIRE(outcome.out.find(aligned) != std::string::npos);
    const double bound =
        std::stod(outcome.out.substr(outcome.out.find(aligned) + aligned.size())); // microseconds
    words[0] = "plan";
    words.insert(words.end(), {"--trace", "plan.json"});
    REQUIRE(run_program(words, run.folder.path()).status == 0);

    const TraceRows ran = rows_of(run.folder / "run.json"), planned = rows_of(run.folder / "plan.json");
    CHECK(ran.names == planned.names);
    CHECK(ran.slices.size() == planned.slices.size());
    require_same_slices(ran, planned);
    // A message does not arrive before it is sent, within that bound, which is rounded.
    for (const TraceRows* trace : {&ran, &planned})
        for (const int from : {0, 1}) {
            const auto sent = trace->called("send", from), received = trace->called("recv", 1 - from);
            REQUIRE(sent.size() == 4);
            REQUIRE(received.size() == 4);
            for (std::size_t i = 0; i < 4; ++i) {
                CHECK(sent[i]["args"]["microbatch"] == received[i]["args"]["microbatch"]);
                const double arrived = received[i]["ts"].get<double>() + received[i]["dur"].get<double>();
                CHECK(arrived > sent[i]["ts"].get<double>() - bound - 0.1);
            }
        }
}

TEST_CASE("a run with post-validated updates has the order of Steps that the plan has", "[release]")
{
    const Run run;
    const std::vector<std::string> more{"checkpoint.dir=a", "log.dir=la", "parallel.zero=1",
                                        "parallel.update=post-validated"};
    auto words = Run::arguments(2, 4, 1, more);
    words[0] = "plan";
    words.insert(words.end(), {"--trace", "plan.json"});
    REQUIRE(run_program(words, run.folder.path()).status == 0);
    auto traced = more;
    traced.push_back("log.trace=run.json");
    const Outcome outcome = run.train(2, 4, 1, traced);
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    require_same_slices(rows_of(run.folder / "run.json"), rows_of(run.folder / "plan.json"));
    // The same files as with synchronous updates.
    REQUIRE(run.train(2, 4, 1, {"checkpoint.dir=b", "log.dir=lb", "parallel.zero=1"}).status == 0);
    CHECK((run.content("a/step-00000006") == run.content("b/step-00000006")));
    for (const char* name : {"loss", "grad_norm", "valid_loss"})
        CHECK(run.metric("la", name) == run.metric("lb", name));
}

TEST_CASE("a run resumes bit for bit on its grid, and from the same numbers on any other", "[release]")
{
    const Run run;
    REQUIRE(run.train(2, 2, 1, {"checkpoint.dir=a", "log.dir=la", "parallel.zero=1"}).status == 0);
    REQUIRE(run.train(2, 2, 1, {"checkpoint.dir=b", "log.dir=lb", "parallel.zero=1", "train.stop_after=3"})
                .status == 0);
    std::filesystem::copy(run.folder / "b", run.folder / "c", std::filesystem::copy_options::recursive);
    const Outcome resumed = run.train(2, 2, 1, {"checkpoint.dir=b", "log.dir=lb", "parallel.zero=1"});
    INFO(resumed.err);
    REQUIRE(resumed.status == 0);
    CHECK(resumed.err.find("saved by data 2 x pipeline 2 x tensor 1") != std::string::npos);
    CHECK((run.content("a/step-00000006") == run.content("b/step-00000006")));
    CHECK(run.metric("la", "loss") == run.metric("lb", "loss"));
    // One step without effect on each of three other grids: it saves what it read, except the moments.
    const auto saved = run.content("c/step-00000003");
    struct Grid {
        int data, pipeline, tensor;
    };
    for (const Grid& g : {Grid{1, 1, 1}, Grid{1, 4, 2}, Grid{4, 1, 2}}) {
        std::filesystem::remove_all(run.folder / "d");
        std::filesystem::copy(run.folder / "c", run.folder / "d", std::filesystem::copy_options::recursive);
        const Outcome other = run.train(
            g.data, g.pipeline, g.tensor,
            {"checkpoint.dir=d", "log.dir=ld", "train.stop_after=1", "train.lr=0", "train.min_lr=0"});
        INFO(other.err);
        REQUIRE(other.status == 0);
        const auto later = run.content("d/step-00000004");
        REQUIRE(later.size() == saved.size());
        for (const auto& [name, values] : saved)
            if (name.rfind("param/", 0) == 0)
                CHECK((later.at(name) == values));
        // The samples continue at the same position: the loss of step 4 is that of the uninterrupted run.
        CHECK(run.metric("ld", "loss").back() == Approx(run.metric("la", "loss")[3]).epsilon(1e-4));
        std::filesystem::remove_all(run.folder / "ld");
        // And the run continues as if it had never stopped.
        std::filesystem::remove_all(run.folder / "e");
        std::filesystem::copy(run.folder / "c", run.folder / "e", std::filesystem::copy_options::recursive);
        REQUIRE(run.train(g.data, g.pipeline, g.tensor, {"checkpoint.dir=e", "log.dir=le"}).status == 0);
        const auto losses = run.metric("le", "loss");
        REQUIRE(losses.size() == 3);
        for (std::size_t i = 0; i < 3; ++i)
            CHECK(losses[i] == Approx(run.metric("la", "loss")[3 + i]).epsilon(1e-4));
        std::filesystem::remove_all(run.folder / "le");
    }
}

TEST_CASE("errors end all ranks with one message")
{
    const Run run;
    const auto count = [](const std::string& text, const std::string& word) {
        int n = 0;
        for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
            ++n;
        return n;
    };
    const auto begin = std::chrono::steady_clock::now();
    const Outcome fewer = run_ranks({{3, Run::arguments(2, 2, 1, {})}}, run.folder.path());
    CHECK(fewer.status == 2);
    CHECK(count(fewer.err, "trivium: ") == 1);
    CHECK(fewer.err.find("the grid has 4 ranks, 3 were started") != std::string::npos);
    const Outcome other =
        run_ranks({{1, Run::arguments(2, 1, 1, {})}, {1, Run::arguments(2, 1, 1, {"train.lr=0.5"})}},
                  run.folder.path());
    CHECK(other.status == 2);
    CHECK(count(other.err, "trivium: ") == 1);
    CHECK(other.err.find("rank 1: has a different config from rank 0") != std::string::npos);
    CHECK(other.err.find("lr = 0.5") != std::string::npos);
    const Outcome wrong = run_ranks({{2, Run::arguments(2, 1, 1, {"train.lrr=0.5"})}}, run.folder.path());
    CHECK(wrong.status == 2);
    CHECK(count(wrong.err, "trivium: ") == 1);
    CHECK(wrong.err.find("rank ") == std::string::npos); // not of a single rank
    CHECK(seconds_since(begin) < 30);
    const Outcome deep =
        run_ranks({{2, Run::arguments(1, 2, 1, {"parallel.schedule=interleaved", "parallel.chunks=40"})}},
                  run.folder.path());
    CHECK(deep.status == 2);
    CHECK(count(deep.err, "trivium: ") == 1);
    CHECK(deep.err.find("\"interleaved\" needs 80 stages") != std::string::npos);
    const Outcome grids =
        run_ranks({{3, Run::arguments(4, 1, 1, {})}, {1, Run::arguments(2, 1, 2, {})}}, run.folder.path());
    CHECK(grids.status == 2);
    CHECK(count(grids.err, "trivium: ") == 1);
    CHECK(grids.err.find("rank 3: has a different config from rank 0") != std::string::npos);
    // One rank has another text.
    write_text(run.folder / "other.txt", some_text(3000) + "and no more");
    std::filesystem::create_directory(run.folder / "other");
    REQUIRE(
        run_program({"data", "tokenize", "other.txt", "--tokenizer", "bytes", "--output", "other/train.h5"},
                    run.folder.path())
            .status == 0);
    std::filesystem::copy(run.folder / "run.toml", run.folder / "other/run.toml");
    std::filesystem::copy(run.folder / "valid.h5", run.folder / "other/valid.h5");
    const std::string ck = "checkpoint.dir=" + run.folder / "shared",
                      log = "log.dir=" + run.folder / "shared";
    const auto here = [&](const std::string& dir, const std::string& more) {
        Launch launch{1, Run::arguments(1, 1, 2, {more, log})};
        launch.folder = run.folder / dir;
        return launch;
    };
    const Outcome texts = run_ranks({here(".", ck), here("other", ck)}, run.folder.path());
    INFO(texts.err);
    CHECK(texts.status == 2);
    CHECK(count(texts.err, "trivium: ") == 1);
    CHECK(texts.err.find("train.h5: is not the same on rank 1 as on rank 0") != std::string::npos);
    // One rank does not see the folder of checkpoints: found at the start.
    std::filesystem::copy(run.folder / "train.h5", run.folder / "other/train.h5",
                          std::filesystem::copy_options::overwrite_existing);
    const Outcome folders = run_ranks(
        {here(".", "checkpoint.dir=mine"), here("other", "checkpoint.dir=mine")}, run.folder.path());
    CHECK(folders.status == 2);
    CHECK(folders.err.find("mine: is not the folder that rank 0 writes to") != std::string::npos);
    CHECK(folders.err.find("step 1") == std::string::npos);
    // One rank cannot read its data.
    const Outcome missing =
        run_ranks({{1, Run::arguments(1, 1, 2, {})}, {1, Run::arguments(1, 1, 2, {"data.train=nowhere.h5"})}},
                  run.folder.path());
    CHECK(missing.status == 2);
    CHECK(count(missing.err, "trivium: ") == 1);
    // The tokens are damaged, in the part that the second rank verifies.
    std::string store = read_text(run.folder / "train.h5");
    store[store.size() - 8] = static_cast<char>(store[store.size() - 8] ^ 4);
    write_text(run.folder / "bad.h5", store);
    const Outcome damaged = run.train(2, 1, 1, {"data.train=bad.h5"});
    INFO(damaged.err);
    CHECK(damaged.status == 2);
    CHECK(damaged.err.find("bad.h5: its tokens") != std::string::npos);
    CHECK(damaged.err.find("bad.h5: its tokens") == damaged.err.rfind("bad.h5: its tokens")); // reported once
    CHECK_FALSE(std::filesystem::exists(run.folder / "ck/step-00000006"));
}

TEST_CASE("a failed start leaves the checkpoints in place", "[release]")
{
    const Run run;
    REQUIRE(run.train(1, 2, 1, {"checkpoint.every=2"}).status == 0);
    const auto before = list_checkpoints(run.folder / "ck");
    REQUIRE(before.size() == 2);
    const Outcome slip =
        run.train(1, 2, 1, {"checkpoint.resume=never", "train.init_from=ck", "model.layers=4"});
    CHECK(slip.status == 2);
    CHECK(list_checkpoints(run.folder / "ck") == before);
    const Outcome fresh = run.train(
        1, 2, 1, {"checkpoint.resume=never", "train.init_from=ck", "train.steps=1", "train.eval_every=0"});
    INFO(fresh.err);
    CHECK(fresh.status == 0); // they are moved away only when all ranks have read them
    CHECK(list_checkpoints(run.folder / "ck") == std::vector<std::string>{"step-00000001"});
}

TEST_CASE("a killed rank ends the others, and the run resumes from its checkpoint", "[release]")
{
    const Run run;
    const std::vector<std::string> more{"train.steps=100000", "checkpoint.every=2", "train.eval_every=0"};
    std::chrono::steady_clock::time_point killed;
    const Outcome outcome = run_ranks_and(
        {{4, Run::arguments(1, 2, 2, more)}}, run.folder.path(), "saved ck/step-00000004", [&](int launcher) {
            const std::vector<int> ranks = processes_below(launcher, "trivium");
            REQUIRE(ranks.size() == 4);
            killed = std::chrono::steady_clock::now();
            kill(ranks[2], SIGKILL);
        });
    CHECK(outcome.status != 0);
    CHECK(seconds_since(killed) < 10);
    const Outcome again =
        run.train(1, 2, 1, {"train.steps=100000", "train.stop_after=1", "train.eval_every=0"});
    INFO(again.err);
    CHECK(again.status == 0);
    CHECK(again.err.find("resuming from ck/step-") != std::string::npos);
}

TEST_CASE("a signal stops all ranks at one step, with a checkpoint")
{
    const Run run;
    const std::vector<std::string> more{"train.steps=100000", "train.eval_every=0"};
    const Outcome outcome = run_ranks_and({{4, Run::arguments(2, 1, 2, more)}}, run.folder.path(), "step",
                                          [&](int launcher) { kill(launcher, SIGUSR1); });
    INFO(outcome.err);
    CHECK(outcome.status == 75);
    CHECK(outcome.err.find("stopped on signal USR1") != std::string::npos);
    const auto steps = run.metric("log", "loss").size();
    CHECK(CheckpointReader::open(run.folder / ("ck/" + checkpoint_name(static_cast<i64>(steps))))
              .state()
              .step == static_cast<i64>(steps));
}
