#include "base/check.hpp"
#include "catch.hpp"
#include "io/files/config_file.hpp"
#include "io/temporary_folder.hpp"

#include <algorithm>

using namespace trivium;

namespace {

std::string config_error(const std::string& text, const std::vector<std::string>& overrides = {})
{
    const std::string message = message_of<UserError>([&] { parse_config(text, "run.toml", overrides); });
    INFO(message);
    CHECK(!message.empty());
    return message;
}

} // namespace

TEST_CASE("a config is read from a file and overrides; absent keys keep their defaults")
{
    const TemporaryFolder folder;
    put(folder / "run.toml",
        "# a run\n[model]\nlayers = 3\nrope_theta = 10000\n[train]\nlr = 1\nsteps = 1e3\n"
        "precision = \"bf16\"\n[parallel]\nbucket = 4096\noverlap = false\n");
    const RunConfig c =
        read_config(folder / "run.toml",
                    {"train.steps=7", "parallel.schedule=gpipe", "data.train=/a/b c.h5", "train.lr=2e-3",
                     "log.dir=2026-01-02", "data.valid=\"quoted\"", "parallel.recompute=auto", "log.trace="});
    CHECK(c.model.layers == 3);
    CHECK(c.model.dim == 64);
    CHECK(c.model.rope_theta == 10000);
    CHECK(c.train.lr == 2e-3);
    CHECK(c.train.steps == 7);
    CHECK(c.train.precision == Precision::bf16);
    CHECK(c.parallel.bucket == "4096");
    CHECK_FALSE(c.parallel.overlap);
    CHECK(c.parallel.schedule == "gpipe");
    CHECK(c.parallel.recompute == Recompute::automatic);
    CHECK(c.data.train == "/a/b c.h5");
    CHECK(c.data.valid == "quoted");
    CHECK(c.log.dir == "2026-01-02");
    CHECK(c.log.trace.empty());
    CHECK(read_config("", {"parallel.schedule=1f1b"}).parallel.schedule == "1f1b");
    CHECK(parse_config("[train]\nsteps = 1e3\n", "t").train.steps == 1000);
}

TEST_CASE("a preset applies first, wherever it is written; other keys override it")
{
    const std::string text = "[model]\nlayers = 5\npreset = \"llama3-8b\"\n";
    const RunConfig of_file = parse_config(text, "t");
    CHECK(of_file.model.dim == 4096);
    CHECK(of_file.model.layers == 5);
    CHECK(of_file.model.preset == "llama3-8b");
    const RunConfig of_override = parse_config(text, "t", {"model.heads=16", "model.preset=gpt2-124m"});
    CHECK(of_override.model.family == Family::gpt2);
    CHECK(of_override.model.dim == 768);
    CHECK(of_override.model.layers == 5);
    CHECK(of_override.model.heads == 16);
    CHECK(
        says(config_error("[model]\npreset = \"llama3-8c\"\n"), "model.preset", "did you mean 'llama3-8b'?"));
}

TEST_CASE("a family applies after the preset and before other keys, wherever it is written")
{
    const ModelConfig written = parse_config("[model]\nqk_norm = \"none\"\nfamily = \"qwen3\"\n", "t").model;
    CHECK(written.family == Family::qwen3);
    CHECK(written.qk_norm == QkNorm::none);
    CHECK(written.norm_eps == 1e-6);
    const ModelConfig changed =
        parse_config("[model]\npreset = \"llama3.1-8b\"\n", "t", {"model.family=gpt2", "model.gated=true"})
            .model;
    CHECK(changed.dim == 4096);
    CHECK(changed.positions == Positions::learned);
    CHECK(changed.rope_scaling == RopeScaling{});
    CHECK(changed.gated);
    // The family of the preset changes none of the preset's options.
    CHECK(parse_config("[model]\npreset = \"gemma3-1b\"\nfamily = \"gemma3\"\n", "t").model.window == 512);
}

TEST_CASE("lists are written in brackets")
{
    const ModelConfig m = parse_config("[model]\nlayer_pattern = [\"sliding\", \"full\"]\n", "t",
                                       {"model.rotary_pattern=[1, 0]"})
                              .model;
    CHECK(m.layer_pattern == std::vector<LayerKind>{LayerKind::sliding, LayerKind::full});
    CHECK(m.rotary_pattern == std::vector<i64>{1, 0});
    CHECK(says(config_error("[model]\nlayer_pattern = \"full\"\n"), "run.toml:2:17", "the string \"full\"",
               "a list of"));
    CHECK(says(config_error("[model]\nlayer_pattern = [\"full\", \"slidng\"]\n"), "model.layer_pattern[1]",
               "did you mean \"sliding\"?"));
    CHECK(says(config_error("[model]\nrotary_pattern = [0.5]\n"), "model.rotary_pattern[0]", "an integer"));
}

TEST_CASE("rope_scaling can be written in six ways")
{
    const auto scaling = [](const std::string& value) {
        return parse_config("[model]\nrope_scaling = " + value + "\n", "t").model.rope_scaling;
    };
    CHECK(scaling("\"none\"") == RopeScaling{});
    CHECK(scaling("\"llama3\"") == llama3_scaling(8, 1, 4, 8192));
    CHECK(scaling("32") == llama3_scaling(32, 1, 4, 8192));
    CHECK(scaling("[2.5, 1, 3, 4096]") == llama3_scaling(2.5, 1, 3, 4096));
    CHECK(scaling("{factor = 16, original_max_position_embeddings = 1024}") ==
          llama3_scaling(16, 1, 4, 1024));
    CHECK(scaling("{factor = 16, low_freq_factor = 2, high_freq_factor = 8, original_seq = 512}") ==
          llama3_scaling(16, 2, 8, 512));
    CHECK(parse_config("", "t", {"model.rope_scaling=llama3"}).model.rope_scaling.factor == 8);
    const RopeScaling yarn = scaling("{kind = \"yarn\", factor = 8, truncate = false, original_seq = 4096}");
    CHECK(yarn.kind == RopeKind::yarn);
    CHECK(yarn.factor == 8);
    CHECK(!yarn.truncate);
    CHECK(yarn.low_freq_factor == 1);
    CHECK(scaling("{kind = \"longrope\", factor = 2, short_factors = [1, 1.5], long_factors = [2, 3]}")
              .long_factors == std::vector<double>{2, 3});
    CHECK(says(config_error("[model]\nrope_scaling = {kind = \"yarm\"}\n"), "rope_scaling.kind",
               "did you mean \"yarn\"?"));
    CHECK(says(config_error("[model]\nrope_scaling = \"yarn\"\n"), "run.toml:2:16", "yarn", "\"llama3\"",
               "{kind = \"yarn\", factor = ...}"));
    CHECK(says(config_error("[model]\nrope_scaling = [1, 2]\n"), "run.toml:2:16", "an array"));
    CHECK(says(config_error("[model]\nrope_scaling = {facto = 2}\n"), "run.toml:2:16",
               "did you mean 'factor'?"));
    CHECK(
        says(config_error("[model]\nrope_scaling = [1, 2, 3, \"x\"]\n"), "original_seq", "the string \"x\""));
}

TEST_CASE("unknown tables and keys are errors that name the nearest known one")
{
    CHECK(says(config_error("[train]\nlr = 1\nstesp = 3\n"), "run.toml:3:9", "'train.stesp'",
               "did you mean 'steps'?"));
    CHECK(says(config_error("[model]\nlr = 1\n"), "run.toml:2:6", "'lr' belongs to [train]"));
    CHECK(says(config_error("[modle]\ndim = 1\n"), "run.toml:1:1", "unknown table 'modle'",
               "did you mean [model]?"));
    CHECK(says(config_error("lr = 1\n"), "run.toml:1:6", "belongs to [train]", "train.lr"));
    CHECK(says(config_error("train = 1\n"), "run.toml:1:9", "[train]"));
    CHECK(says(config_error("", {"train.sed=1"}), "override 'train.sed=1'", "did you mean 'train.seed'?"));
    CHECK(says(config_error("", {"model.zero=1"}), "override 'model.zero=1'", "belongs to [parallel]",
               "did you mean 'parallel.zero'?"));
    CHECK(says(config_error("", {"lr=1"}), "override 'lr=1'", "train.lr"));
    CHECK(says(config_error("", {"stesp=1"}), "override 'stesp=1'", "did you mean 'train.steps'?"));
    CHECK(says(config_error("", {"evry=1"}), "did you mean 'checkpoint.every' or 'log.every'?"));
    CHECK_FALSE(has(config_error("", {"train.x=1"}), "did you mean")); // nothing is similar
    CHECK(says(config_error("", {"trian.lr=1"}), "did you mean [train]?"));
    CHECK(says(config_error("", {"train.lr"}), "override 'train.lr'", "has no '='"));
    CHECK(says(config_error("[train]\nqqqqqqqqqqqqqqq = 1\n"), "the keys of [train] are"));
    CHECK(says(config_error("[data.train]\nx = 1\n"), "a table", "a string"));
}

TEST_CASE("the error for a wrong type names what was found and what is expected")
{
    CHECK(says(config_error("[train]\nsteps = \"10\"\n"), "run.toml:2:9", "the string \"10\"", "an integer",
               "without quotes"));
    CHECK(says(config_error("[train]\nsteps = 1.5\n"), "the number 1.5", "an integer"));
    CHECK(says(config_error("[train]\nlr = true\n"), "true", "a number"));
    CHECK(says(config_error("[train]\nlr = \"1\"\n"), "the string \"1\"", "a number"));
    CHECK(says(config_error("[parallel]\noverlap = 1\n"), "the integer 1", "true or false"));
    CHECK(says(config_error("[data]\ntrain = 5\n"), "the integer 5", "double quotes"));
    CHECK(says(config_error("[train]\nprecision = \"bf17\"\n"), "bf17", "did you mean \"bf16\"?"));
    CHECK(says(config_error("[train]\nprecision = \"fp8\"\n"), "run.toml:2:13", "train.fp8 = true", "bf16"));
    CHECK(says(config_error("[train]\nprecision = 16\n"), "the integer 16", "\"f32\""));
    CHECK(says(config_error("[train]\nsteps = 2026-01-01\n"), "a date"));
    CHECK(says(config_error("", {"train.steps=ten"}), "override 'train.steps=ten'", "the string \"ten\""));
    CHECK(says(config_error("", {"train.steps=1\ntrain=2"}), "override"));
}

TEST_CASE("every key of bytes takes units, and no other key does")
{
    CHECK(parse_config("[parallel]\nmemory_limit = \"20GB\"\ntile = \"1.5 MiB\"\n", "t")
              .parallel.memory_limit == 20000000000);
    const ParallelConfig p =
        parse_config("", "t",
                     {"parallel.memory_limit=20GiB", "parallel.tile=1.5 mib", "parallel.bucket=64kB"})
            .parallel;
    CHECK(p.memory_limit == 21474836480);
    CHECK(p.tile == 1572864);
    CHECK(p.bucket == "64000");
    // The keys whose description says so.
    const RunConfig config;
    RunConfig::tables(config, [&](const char* table, const auto& keys) {
        keys.keys(keys, [&](const char* key, const auto& value, KeyKind, const char* meaning) {
            const std::string text = str(table, ".", key, "=1kB");
            const bool bytes = has(meaning, "bytes") && !has(meaning, "per second");
            const bool is_number = std::is_arithmetic_v<std::decay_t<decltype(value)>>;
            INFO(text);
            if (bytes)
                CHECK_NOTHROW(parse_config("", "t", {text}));
            else if (is_number)
                CHECK_THROWS_AS(parse_config("", "t", {text}), UserError);
        });
    });
    CHECK(says(config_error("", {"train.steps=1kB"}), "takes no unit"));
    CHECK(says(config_error("", {"parallel.memory_limit=20G"}), "'g' is not a unit of bytes"));
    CHECK(says(config_error("", {"parallel.memory_limit=1e9TB"}), "too large"));
    CHECK(says(config_error("", {"parallel.tile=much"}), "an integer or a size"));
}

TEST_CASE("syntax errors have line and column; a missing file is a UserError")
{
    CHECK(says(config_error("[train]\nlr = \n"), "run.toml:2:", "TOML"));
    CHECK(says(config_error("[train]\nlr = 1\nlr = 2\n"), "run.toml:3:", "TOML"));
    CHECK(says(config_error("[train]\nprecision = bf16\n"), "run.toml:2:", "TOML", "in double quotes"));
    CHECK(says(config_error("[train]\nlr = 1\n[train]\nsteps = 2\n"),
               "run.toml:3:", "[train] is in the file twice"));
    CHECK(says(config_error("[data]\ntrain = \"abc\n"), "run.toml:2:", "does not end on its line"));
    CHECK_FALSE(has(config_error("[train\nlr = 1\n"), "while parsing")); // the parser's message
    const TemporaryFolder folder;
    CHECK(says(message_of<UserError>([&] { read_config(folder / "none.toml"); }), "none.toml",
               "no such config file"));
    CHECK(says(message_of<UserError>([&] { read_config(folder.path()); }), "is a folder"));
}

TEST_CASE("parsing the output of to_toml yields the same config")
{
    RunConfig c = parse_config("[model]\npreset = \"llama3.1-8b\"\n", "t");
    c.train.lr = 0.1 + 0.2;
    c.train.eps = 1e-300;
    c.train.weight_decay = 3;
    c.train.seed = -5;
    c.model.rope_scaling = llama3_scaling(3.3, 1.1, 7, 11);
    c.data.train = "a \"quoted\"\\ path\n\twith \x01 \xc3\xa9";
    c.parallel.recompute = Recompute::selective;
    resolve_and_validate(c);
    const std::string text = to_toml(c);
    const RunConfig again = parse_config(text, "t");
    CHECK(to_toml(again) == text);
    CHECK(again.train.lr == c.train.lr);
    CHECK(again.train.eps == c.train.eps);
    CHECK(again.train.seed == -5);
    CHECK(again.data.train == c.data.train);
    CHECK(again.model.rope_scaling == c.model.rope_scaling);
    CHECK(again.model.preset == c.model.preset);
    CHECK(to_toml(parse_config(to_toml(RunConfig{}), "t")) == to_toml(RunConfig{}));
}

TEST_CASE("lists of stores, named validation sets and batch ramps are read and printed")
{
    const std::string text =
        "[data]\ntrain = [{path = \"a.h5\", weight = 0.7}, {path = \"b c.h5\", weight = 1, epochs "
        "= 2}, \"c.h5\"]\nvalid = {web = \"w.h5\", code = \"c.h5\"}\n[train]\nbatch_ramp = [[8, "
        "100], [16, 50]]\nschedule = \"inverse-sqrt\"\n";
    const RunConfig c = parse_config(text, "t");
    REQUIRE(c.data.train.list.size() == 3);
    CHECK(c.data.train.list[1] == DataSource{"b c.h5", 1.0, 2, false});
    CHECK(c.data.train.list[2] == DataSource{"c.h5", {}, 0, false});
    REQUIRE(c.data.valid.list.size() == 2);
    CHECK(c.data.valid.list[0] == ValidationStore{"code", "c.h5"});
    CHECK(c.train.batch_ramp.stages == std::vector<BatchRamp::Stage>{{8, 100}, {16, 50}});
    const RunConfig again = parse_config(to_toml(c), "t");
    CHECK(again.data.train == c.data.train);
    CHECK(again.data.valid == c.data.valid);
    CHECK(again.train.batch_ramp == c.train.batch_ramp);
    CHECK(parse_config("", "t", {"data.train=[{path=\"x.h5\"}]"}).data.train.list[0] ==
          DataSource{"x.h5", {}, 0, false});
    CHECK(parse_config("[data.valid]\nx = \"y.h5\"\n", "t").data.valid.list[0] ==
          ValidationStore{"x", "y.h5"});
    CHECK(says(config_error("[data]\ntrain = [{path = \"a\", wieght = 1}]\n"), "run.toml:2:9",
               "unknown key 'data.train.wieght'", "did you mean 'weight'?"));
    CHECK(says(config_error("[data]\ntrain = [{weight = 1}]\n"), "without a path"));
    CHECK(says(config_error("[data]\ntrain = [3]\n"), "the integer 3", "a table such as"));
    CHECK(says(config_error("[data]\ntrain = [{path = \"a\", epochs = 0}]\n"), "'data.train.epochs' is 0"));
    CHECK(says(config_error("[data]\nvalid = {a = 1}\n"), "'data.valid.a'", "a string"));
    CHECK(says(config_error("[train]\nbatch_ramp = [8, 100]\n"), "the integer 8", "[sequences, steps]"));
    CHECK(says(config_error("[train]\nbatch_ramp = [[8, \"x\"]]\n"), "an integer"));
}

TEST_CASE("the options of every preset are written so that they are read again")
{
    for (const std::string& name : preset_names()) {
        RunConfig c;
        c.model = preset(name);
        const std::string text = to_toml(c);
        INFO(name << "\n" << text);
        const RunConfig again = parse_config(text, "t");
        CHECK(to_toml(again) == text);
        CHECK(again.model.rope_scaling == c.model.rope_scaling);
        CHECK(again.model.layer_pattern == c.model.layer_pattern);
    }
}

TEST_CASE("the reference lists every key once")
{
    const std::string text = config_reference();
    CHECK(has(text, "## [parallel]"));
    CHECK(has(text, "| `zero` | integer | `0` |"));
    CHECK(has(text, "| `precision` | \"f32\", \"bf16\" or \"f64\" | `\"f32\"` |"));
    int keys = 0;
    const RunConfig config;
    RunConfig::tables(config, [&](const char*, const auto& table) {
        table.keys(table, [&](const char*, const auto&, KeyKind, const char*) { ++keys; });
    });
    CHECK(std::count(text.begin(), text.end(), '\n') == keys + 7 * 4 + 6);
}
