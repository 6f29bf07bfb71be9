// `trivium explain`: totals of communication against formulas, and one clear error for each invalid file.
#include "base/check.hpp"
#include "catch.hpp"
#include "config/model_config.hpp"
#include "program.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <unistd.h>

namespace {

using nlohmann::json;
using trivium::str;

/// The totals that explain prints for a llama model of these layers.
json totals_of(int layers, const std::vector<std::string>& grid)
{
    const Folder folder;
    std::vector<std::string> arguments{
        "explain",      "/dev/null",       str("model.layers=", layers), "model.dim=64", "model.heads=4",
        "model.seq=32", "model.vocab=300", "train.global_batch=16",      "--json",       "--only",
        "communication"};
    arguments.insert(arguments.end() - 3, grid.begin(), grid.end());
    const Outcome outcome = run_program(arguments, folder.path());
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    return json::parse(outcome.out)["communication_totals"];
}

json total(const json& totals, const std::string& axis, const std::string& part)
{
    for (const json& t : totals)
        if (t["axis"] == axis && t["part"] == part)
            return t;
    FAIL("no total of " << axis << ", " << part << " in " << totals.dump(1));
    return {};
}

} // namespace

TEST_CASE("a layer under tensor parallelism has Megatron's collectives and bytes")
{
    // Shoeybi et al. 2019, "Megatron-LM", section 3: two all-reduces a layer forward, two backward, each of b
    // s d numbers, of which a ring sends 2 (t - 1) / t.
    const std::vector<std::string> grid{"parallel.tensor=2", "parallel.sequence=false",
                                        "train.micro_batch=4"};
    const json less = totals_of(2, grid), more = totals_of(3, grid);
    const std::int64_t microbatches = 16 / 4, bytes = 2 * (4 * 32 * 64) * 4 * (2 - 1) / 2;
    const auto grows = [&](const std::string& part, const char* key) {
        return total(more, "tensor", part)[key].get<std::int64_t>() -
               total(less, "tensor", part)[key].get<std::int64_t>();
    };
    for (const char* part : {"forward", "backward"}) {
        CHECK(total(more, "tensor", part)["times"] == microbatches);
        CHECK(grows(part, "collectives") == 2);
        CHECK(grows(part, "bytes_sent") == 2 * bytes);
    }
    CHECK(grows("step", "collectives") == 4 * microbatches);
    CHECK(grows("step", "bytes_sent") == 4 * bytes * microbatches);
}

TEST_CASE("a layer with context ranks sends keys and values, or tokens for heads, and their gradients")
{
    for (const std::int64_t ranks : {2, 4})
        for (const std::string form : {"gather", "ring", "heads"}) {
            INFO(ranks << " ranks, " << form);
            const bool heads = form == "heads";
            const std::vector<std::string> grid{str("parallel.context=", ranks), "model.kv_heads=4",
                                                str("parallel.context_heads=", heads ? ranks : 1),
                                                str("parallel.context_form=", heads ? "gather" : form),
                                                "train.micro_batch=4"};
            const json less = totals_of(2, grid), more = totals_of(3, grid);
            // Numbers of a rank: b s g / ranks of keys and of values, as many of queries and of results.
            const std::int64_t numbers = 4 * (32 / ranks) * 64, bytes = 4;
            const std::int64_t gathered = 2 * numbers * (ranks - 1) * bytes,
                               // Whole blocks from later ranks, the first half from earlier ones.
                around = gathered * 3 / 4, exchanged = 4 * numbers * (ranks - 1) / ranks * bytes;
            const auto grows = [&](const std::string& part) {
                return total(more, "data", part)["bytes_sent"].get<std::int64_t>() -
                       total(less, "data", part)["bytes_sent"].get<std::int64_t>();
            };
            CHECK(grows("forward") == (heads ? exchanged : form == "ring" ? around : gathered));
            CHECK(grows("backward") == (heads ? exchanged : 2 * (form == "ring" ? around : gathered)));
        }
}

TEST_CASE("data parallelism sends each gradient once per step, whatever the number of microbatches")
{
    trivium::ModelConfig model;
    model.layers = 2;
    model.vocab = 300;
    model.seq = 32;
    trivium::resolve(model);
    for (const char* micro : {"train.micro_batch=8", "train.micro_batch=2"}) {
        const json step = total(totals_of(2, {"parallel.data=2", micro}), "data", "step");
        CHECK(step["bytes_sent"] ==
              2 * 4 * trivium::parameter_count(model) * (2 - 1) / 2); // an all-reduce of f32
    }
}

TEST_CASE("pipeline stages send one activation forward and one gradient back per microbatch")
{
    const json totals = totals_of(2, {"parallel.pipeline=2", "train.micro_batch=2"});
    const std::int64_t bytes = 2 * 32 * 64 * 4;
    CHECK(total(totals, "pipeline", "forward")["sends"] == 1);
    CHECK(total(totals, "pipeline", "forward")["bytes_sent"] == bytes);
    CHECK(total(totals, "pipeline", "backward")["receives"] == 1);
    CHECK(total(totals, "pipeline", "backward")["bytes_sent"] == 0);
    const json shared = totals_of(2, {"parallel.pipeline=2", "parallel.context=2", "train.micro_batch=2"});
    CHECK(total(shared, "pipeline", "forward")["sends"] == 1);
    CHECK(total(shared, "pipeline", "forward")["bytes_sent"] == bytes / 2);
}

TEST_CASE("a split backward pass sends the same bytes for gradients as a whole one")
{
    std::vector<std::string> grid{"parallel.pipeline=2", "parallel.data=2", "parallel.zero=2",
                                  "train.micro_batch=2", "parallel.schedule=1f1b"};
    const json whole = total(totals_of(2, grid), "data", "step");
    grid.back() = "parallel.schedule=zb-h1";
    const json totals = totals_of(2, grid);
    CHECK(total(totals, "data", "weights")["collectives"] > 0);
    CHECK(total(totals, "data", "step")["bytes_sent"] == whole["bytes_sent"]);
}

TEST_CASE("the report has totals and a legend, and its graph still parses")
{
    const Folder folder;
    const Outcome text =
        run_program({"explain", "/dev/null", "model.preset=toy", "parallel.tensor=2"}, folder.path());
    INFO(text.err);
    REQUIRE(text.status == 0);
    for (const char* words :
         {"# totals of rank 0 per axis", "= an optimizer step", "# sharding: <data,tensor+data,-|tensor:sum>",
          "# letters in rules: b sequences"})
        CHECK(text.out.find(words) != std::string::npos);
    const Outcome graph = run_program(
        {"explain", "/dev/null", "model.preset=toy", "parallel.tensor=2", "--only", "graph"}, folder.path());
    write_text(folder / "toy.graph", graph.out); // legend and all
    CHECK(run_program({"explain", "toy.graph"}, folder.path()).status == 0);
}

TEST_CASE("the passes of a graph file are listed, skipped and dumped as those of a training")
{
    const Folder folder;
    write_text(folder / "f.graph", "graph f\nmesh x=2\ninput %a : f32[4,8] <x,->\nparameter %w : f32[8,8]\n"
                                   "parameter %b : f32[8]\n"
                                   "%c = matmul(%a, %w) {rule=\"m k, k n -> m n\"} : f32[4,8]\n"
                                   "%d = bias_add(%c, %b) {rule=\"m n, n -> m n\"} : f32[4,8]\n"
                                   "output %d\n");
    const auto explain = [&](std::vector<std::string> more) {
        more.insert(more.begin(), {"explain", "f.graph"});
        const Outcome outcome = run_program(more, folder.path());
        INFO(outcome.err);
        REQUIRE(outcome.status == 0);
        return outcome.out;
    };
    CHECK(explain({"--only", "graph"}).find("matmul_bias(") != std::string::npos);
    CHECK(explain({"--only", "graph", "--skip", "fuse"}).find("bias_add(") != std::string::npos);
    const json passes =
        json::parse(explain({"--only", "passes", "--skip", "fuse", "--dump", "dumps", "--json"}))["passes"];
    std::vector<std::string> names;
    for (const json& pass : passes)
        names.push_back(pass["name"]);
    CHECK(names == std::vector<std::string>{"propagate", "look-ahead", "partition", "simplify-local",
                                            "join-reductions", "bucket", "fuse"});
    CHECK(passes.back()["skipped"] == true);
    CHECK(std::filesystem::exists(folder.path() + "/dumps/00-propagate.graph"));
    const Outcome wrong = run_program({"explain", "f.graph", "--skip", "fusion"}, folder.path());
    CHECK(wrong.status == 2);
    CHECK(wrong.err.find("there is no pass 'fusion'") != std::string::npos);
    CHECK(wrong.out.empty());
    const Outcome needed = run_program({"explain", "f.graph", "--skip", "propagate"}, folder.path());
    CHECK(needed.status == 2);
    CHECK(needed.err.find("--skip propagate: later passes require it") != std::string::npos);
}

TEST_CASE("a file that is not a graph is refused with one clear error")
{
    const Folder folder;
    const auto refuses = [&](const std::string& file, const std::string& words, int status = 2) {
        const Outcome outcome = run_program({"explain", file}, folder.path());
        INFO(file << ": " << outcome.err);
        CHECK(outcome.status == status);
        CHECK(outcome.out.empty());
        CHECK(outcome.err.find(words) != std::string::npos);
        CHECK(outcome.err.find("remedy: ") != std::string::npos);
        CHECK(outcome.err.find("internal") == std::string::npos);
    };
    write_text(folder / "run.json", "{\"model\": {}}");
    refuses("run.json", "run.json: is neither a config nor a graph");
    write_text(folder / "graph.txt", "graph g\n");
    refuses("graph.txt", "name a CONFIG.toml or a FILE.graph");
    std::filesystem::create_directory(folder / "folder.graph");
    refuses("folder.graph", "is a folder, not a graph file");
    std::filesystem::create_directory(folder / "folder");
    refuses("folder", "is a folder, not a config file");
    write_text(folder / "empty.graph", "");
    refuses("empty.graph", "empty.graph:1: is empty");
    write_text(folder / "binary.graph", std::string("graph g\n\x7f"
                                                    "ELF\0\1\2",
                                                    15));
    refuses("binary.graph", "binary.graph:2: byte 127 is not part of a graph's text");
    write_text(folder / "binary.toml", std::string("\x7f"
                                                   "ELF\0\1\2",
                                                   7));
    refuses("binary.toml", "is not valid TOML");
    write_text(folder / "secret.graph", "graph g\n");
    std::filesystem::permissions(folder / "secret.graph", std::filesystem::perms::none);
    if (::access((folder / "secret.graph").c_str(), R_OK) != 0) // root can read it
        refuses("secret.graph", "may not be read");
    std::filesystem::create_symlink("/dev/zero", folder / "endless.graph");
    refuses("endless.graph", "at most 64.00 MiB");
    std::filesystem::create_symlink("/dev/zero", folder / "endless.toml");
    refuses("endless.toml", "at most 4.00 MiB");
}

TEST_CASE("excessive numbers are refused by name, at once")
{
    const Folder folder;
    const auto refuses = [&](std::vector<std::string> overrides, const std::string& words) {
        for (const char* command : {"plan", "explain"}) {
            std::vector<std::string> arguments{command, "/dev/null"};
            arguments.insert(arguments.end(), overrides.begin(), overrides.end());
            const Outcome outcome = run_program(arguments, folder.path());
            INFO(command << " " << overrides[0] << ": " << outcome.err);
            CHECK(outcome.status == 2);
            CHECK(outcome.err.find(words) != std::string::npos);
            CHECK(outcome.err.find("remedy: ") != std::string::npos);
            CHECK(outcome.err.find("internal") == std::string::npos);
        }
    };
    refuses({"model.layers=1000000000"}, "model.layers: is too large");
    for (const char* key : {"dim", "heads", "kv_heads", "ffn_dim", "vocab", "seq", "layers"})
        for (const char* value : {"1099511627776", "9223372036854775807", "-9223372036854775808"})
            refuses({str("model.", key, "=", value)}, str("model.", key));
    refuses({"model.dim=1048576", "model.heads=1048576", "model.family=gpt2", "model.seq=16777216"},
            "train.micro_batch");
    refuses({"parallel.data=2147483648", "parallel.tensor=2147483648", "parallel.pipeline=2147483648"},
            "parallel: data");
    refuses({"train.global_batch=16777216", "train.micro_batch=1"}, "train.micro_batch");
    refuses({"model.norm_eps=inf"}, "model.norm_eps");
    refuses({"model.dropout=1"}, "model.dropout");
    refuses({"train.label_smoothing=1"}, "train.label_smoothing");
    refuses({"train.z_loss=-1e-4"}, "train.z_loss");
    refuses({"model.rope_theta=inf"}, "model.rope_theta");
    refuses({"model.rope_scaling=[1e308, 1.0, inf, 8192]"}, "model.rope_scaling");
    for (const char* line : {"scratch_exchange = 9223372036854775807", "process = 4000000000000000000",
                             "flops_f32 = 1e-300", "launch = 1e300"}) {
        write_text(folder / "bad.toml", line);
        refuses({"--machine", "bad.toml"}, "a finite number from");
    }
}

TEST_CASE("the order that explain writes is the one that runs")
{
    const Folder folder;
    const auto explain = [&](const std::string& schedule, const std::vector<std::string>& more) {
        std::vector<std::string> arguments{"explain",
                                           "/dev/null",
                                           "model.layers=6",
                                           "model.dim=16",
                                           "model.heads=4",
                                           "model.seq=32",
                                           "model.vocab=300",
                                           "train.global_batch=6",
                                           "train.micro_batch=1",
                                           "--rank",
                                           "1",
                                           "parallel.pipeline=2",
                                           "parallel.schedule=" + schedule};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const Outcome outcome = run_program(arguments, folder.path());
        INFO(outcome.err);
        REQUIRE(outcome.status == 0);
        return outcome.out;
    };
    for (const char* schedule : {"zb-v", "interleaved", "auto"}) {
        const std::string steps = explain(schedule, {"--only", "steps", "--csv", "order.csv"});
        CHECK(explain("order.csv", {"--only", "steps"}) == steps);
    }
}
