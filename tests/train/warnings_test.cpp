// Settings without effect, and errors on the command line and in keys.
#include "catch.hpp"
#include "program.hpp"

#include <nlohmann/json.hpp>

TEST_CASE("plan and explain warn on stderr about settings without effect", "[release]")
{
    const Folder folder;
    struct Case {
        std::vector<std::string> overrides;
        std::vector<std::string> said;
    };
    const std::vector<Case> cases{
        {{"train.warmup=200", "train.steps=100"}, {"train.warmup", "200", "100"}},
        {{"train.warmup=100", "train.steps=100", "train.min_lr=1e-5"}, {"train.min_lr", "ignored"}},
        {{"train.eval_every=10"}, {"train.eval_every", "data.valid"}},
        {{"train.eval_batches=10"}, {"train.eval_batches", "data.valid"}},
        {{"parallel.threads=1000"}, {"parallel.threads", "1000", "core"}},
        {{"checkpoint.keep=1"}, {"checkpoint.keep", "2 are kept"}},
        {{"train.stop_after=101", "train.steps=100"}, {"train.stop_after", "101"}},
        {{"log.every=101", "train.steps=100"}, {"log.every", "101"}},
        {{"train.init_from=a", "checkpoint.resume=b"}, {"train.init_from", "checkpoint.resume"}},
        {{"train.spike_window=64"}, {"train.spike_window", "train.spike_z"}},
        {{"train.lr=0"}, {"train.lr"}},
        {{"train.patience=3"}, {"train.patience", "data.valid"}},
        {{"train.patience=3", "data.valid=v.h5"}, {"train.patience", "train.eval_every"}},
        {{"checkpoint.best=valid"}, {"checkpoint.best", "data.valid"}},
        {{"checkpoint.best=valid", "data.valid=v.h5"}, {"checkpoint.best", "train.eval_every"}},
        {{"train.rewind=1"}, {"train.rewind", "checkpoint.every"}},
        {{"train.rewind=1", "checkpoint.every=5", "train.max_skipped=0"}, {"train.rewind", "max_skipped"}},
        {{"log.layer_norms=101", "train.steps=100"}, {"log.layer_norms", "101"}},
        {{"parallel.schedule=zb-v"}, {"parallel.schedule", "zb-v", "parallel.pipeline"}},
        {{"model.preset=toy-gpt2", "model.rope_theta=100"}, {"model.rope_theta", "gpt2"}},
        {{"model.expert_slots=3"}, {"model.expert_slots", "model.experts is 0"}},
        {{"train.lora={rank=4096}", "train.init_from=a"}, {"train.lora", "4096", "lower the rank"}},
        {{"train.freeze=[\"embed.*\"]", "train.lora={rank=2}", "train.init_from=a"},
         {"train.freeze", "frozen anyway"}},
    };
    for (const char* command : {"plan", "explain"})
        for (const Case& c : cases) {
            std::vector<std::string> arguments{command, "/dev/null", "model.preset=toy", "--json"};
            arguments.insert(arguments.end(), c.overrides.begin(), c.overrides.end());
            const Outcome outcome = run_program(arguments, folder.path());
            INFO(command << " " << c.overrides.back() << ": " << outcome.err);
            CHECK(outcome.status == 0);
            CHECK_NOTHROW(nlohmann::json::parse(outcome.out).size());
            CHECK(has(outcome.err, "warning: "));
            for (const std::string& word : c.said)
                CHECK(has(outcome.err, word));
        }
    const std::vector<std::vector<std::string>> silent{
        {"train.warmup=10", "train.min_lr=1e-5"},
        {"model.expert_slots=2", "model.router_normalised=true", "train.balance_loss=0"}, // the defaults
        {"train.lora={rank=2, train=[\"final_norm.*\"]}", "train.freeze=[\"final_norm.*\"]",
         "train.init_from=a"}};
    for (const std::vector<std::string>& overrides : silent) {
        std::vector<std::string> arguments{"plan", "/dev/null", "model.preset=toy"};
        arguments.insert(arguments.end(), overrides.begin(), overrides.end());
        CHECK(run_program(arguments, folder.path()).err == "");
    }
}

TEST_CASE("plan --ranks warns about the strategy that it chose, not about what it may change")
{
    const Folder folder;
    for (const char* data : {"1", "2"}) {
        const std::string shares = std::string("parallel.expert=") + data;
        const Outcome outcome = run_program({"plan", "/dev/null", "model.preset=toy", "model.experts=4",
                                             "--ranks", "2", "parallel.data=2", "parallel.tensor=1",
                                             "parallel.zero=1", "parallel.expert_buffer=1.25", shares},
                                            folder.path());
        INFO(outcome.err);
        CHECK(outcome.status == 0);
        CHECK(has(outcome.err, "parallel.expert_buffer: is ignored") == (data == std::string("1")));
    }
    const Outcome open = run_program({"plan", "/dev/null", "model.preset=toy", "--ranks", "2", "--json",
                                      "train.global_batch=4", "parallel.gather_every=pass"},
                                     folder.path());
    INFO(open.err);
    CHECK(open.status == 0);
    const auto chosen = nlohmann::json::parse(open.out)["strategies"][0]["parallel"];
    CHECK(has(open.err, "parallel.gather_every") == (chosen["zero"] < 3));
}

TEST_CASE("chunks that a schedule cannot have are refused on any grid")
{
    const Folder folder;
    for (const char* command : {"plan", "explain"})
        for (const char* data : {"1", "2"}) {
            const Outcome outcome = run_program({command, "/dev/null", "model.preset=toy",
                                                 std::string("parallel.data=") + data, "parallel.chunks=2"},
                                                folder.path());
            INFO(command << " data " << data << ": " << outcome.err);
            CHECK(outcome.status == 2);
            CHECK(has(outcome.err, "parallel.chunks: is 2, but schedule \"1f1b\" has 1 stage per rank"));
            CHECK(has(outcome.err, "remedy: "));
        }
}

TEST_CASE("misspelt options, keys and values name the right ones")
{
    const Folder folder;
    write_text(folder / "bare.toml", "[train]\nprecision = bf16\n");
    write_text(folder / "twice.toml", "[train]\nlr = 1\n[train]\nsteps = 2\n");
    write_text(folder / "top.toml", "\n\nstpes = 5\n");
    write_text(folder / "list.toml", "[[train]]\nlr = 1\n");
    struct Case {
        std::vector<std::string> arguments;
        std::vector<std::string> said;
    };
    const std::vector<Case> cases{
        {{"plan", "--machin", "h100", "/dev/null"}, {"--machin", "did you mean '--machine'?"}},
        {{"plan", "--rnaks=4", "/dev/null"}, {"'--rnaks'", "did you mean '--ranks'?"}},
        {{"explain", "/dev/null", "--onyl", "graph"}, {"did you mean '--only'?"}},
        {{"metrics", "curve", "--titel", "x"}, {"trivium metrics curve", "did you mean '--title'?"}},
        {{"metrics", "cruve"}, {"did you mean 'curve'?"}},
        {{"plan", "/dev/null", "--train.lr=1"}, {"without dashes", "write 'train.lr=VALUE'"}},
        {{"plan", "--machine", "H100", "/dev/null"}, {"the nearest is 'h100'"}},
        {{"plan", "/dev/null", "train.precision=fp8"}, {"train.fp8 = true", "bf16"}},
        {{"plan", "/dev/null", "train.lrr=1"}, {"did you mean 'train.lr'?"}},
        {{"plan", "/dev/null", "train.zreo=1"}, {"did you mean 'parallel.zero'?"}},
        {{"plan", "/dev/null", "parallel.data=4", "parallel.zero=1", "parallel.shard=3"},
         {"parallel.shard: groups of 3 do not divide 4 data ranks"}},
        {{"plan", "/dev/null", "parallel.pipeline=2", "parallel.stage_layers=[1,1,1]"},
         {"parallel.stage_layers: has 3 numbers for 2 stages"}},
        {{"plan", "/dev/null", "parallel.order=[\"data\",\"pipeline\",\"data\",\"tensor\"]"},
         {"parallel.order: names 'data' twice"}},
        {{"plan", "/dev/null", "parallel.order=[\"data\",\"tensor\"]"},
         {"parallel.order: does not name 'pipeline'", "[\"data\", \"pipeline\", \"tensor\"]"}},
        {{"plan", "/dev/null", "parallel.order=[\"data\",\"pipeline\",\"context\",\"tensor\"]"},
         {"parallel.order: names 'context'", "part of 'data'"}},
        {{"plan", "/dev/null", "model.layers=4", "parallel.pipeline=2", "parallel.stage_layers=[1,2]"},
         {"parallel.stage_layers: has 3 layers of 4"}},
        {{"plan", "/dev/null", "model.lr=1"}, {"did you mean 'train.lr'?"}},
        {{"plan", "/dev/null", "lr=1"}, {"train.lr=…"}},
        {{"plan", "/dev/null", "stesp=1"}, {"did you mean 'train.steps'?"}},
        {{"plan", "bare.toml"}, {"bare.toml:2:", "double quotes"}},
        {{"plan", "twice.toml"}, {"twice.toml:3:", "[train] is in the file twice"}},
        {{"plan", "top.toml"}, {"top.toml:3:", "did you mean 'train.steps'?"}},
        {{"plan", "list.toml"}, {"list.toml:1:", "one table"}},
    };
    for (const Case& c : cases) {
        const Outcome outcome = run_program(c.arguments, folder.path());
        INFO(c.arguments.back() << ": " << outcome.err);
        CHECK(outcome.status == 2);
        CHECK_FALSE(has(outcome.err, "while parsing"));
        for (const std::string& word : c.said)
            CHECK(has(outcome.err, word));
    }
}

TEST_CASE("a curve is SVG: a name with another picture's ending is refused, and nothing is written")
{
    const Folder folder;
    write_text(folder / "metrics.jsonl", "{\"step\":1,\"loss\":2.0}\n{\"step\":2,\"loss\":1.5}\n");
    for (const char* name : {"x.png", "x.JPG", "x.pdf", "x.html"}) {
        const Outcome outcome = run_program({"metrics", "curve", "metrics.jsonl", "-o", name}, folder.path());
        INFO(outcome.err);
        CHECK(outcome.status == 2);
        CHECK(has(outcome.err, name));
        CHECK(has(outcome.err, ".svg"));
        CHECK(read_text(folder / name).empty());
    }
    const Outcome drawn = run_program({"metrics", "curve", "metrics.jsonl", "-o", "x.svg"}, folder.path());
    INFO(drawn.err);
    CHECK(drawn.status == 0);
    CHECK(has(read_text(folder / "x.svg"), "<svg"));
}
