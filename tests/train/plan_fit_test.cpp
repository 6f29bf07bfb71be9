// Whether a plan fits the machine, on which grid, and how long the run takes.
#include "base/check.hpp"
#include "base/host_memory.hpp"
#include "catch.hpp"
#include "choose/decide.hpp"
#include "choose/least_bytes.hpp"
#include "choose/search.hpp"
#include "compile/compile.hpp"
#include "io/files/config_file.hpp"
#include "plan/cost.hpp"
#include "program.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

using namespace trivium;

namespace {

RunConfig config_of(const std::vector<std::string>& overrides)
{
    RunConfig c = read_config("", overrides);
    if (c.model.vocab == 0)
        c.model.vocab = 258;
    resolve_and_validate(c);
    return c;
}

Outcome plan(const Folder& folder, std::vector<std::string> arguments)
{
    arguments.insert(arguments.begin(), {"plan", "/dev/null"});
    return run_program(arguments, folder.path());
}

nlohmann::json plan_json(const Folder& folder, std::vector<std::string> arguments)
{
    arguments.push_back("--json");
    const Outcome outcome = plan(folder, arguments);
    INFO(outcome.err);
    REQUIRE(outcome.status == 0);
    return nlohmann::json::parse(outcome.out);
}

/// The stages of a plan.
std::vector<Bytes> arenas_of_stages(const RunConfig& c)
{
    CompileConfig options;
    options.machine = machine_called("cpu");
    std::vector<Bytes> all;
    compile_ranks(decide(c, options.machine), options, is_first_of_stage, [&](i64, const Compiled& compiled) {
        all.push_back(compiled.memory.arena);
        return true;
    });
    return all;
}

} // namespace

TEST_CASE("a plan says whether it fits a device")
{
    const Folder folder;
    const std::vector<std::string> large{"model.preset=llama3-8b",
                                         "model.layers=2",
                                         "model.vocab=1500000",
                                         "train.global_batch=2",
                                         "train.micro_batch=1",
                                         "--machine",
                                         "h100"};
    const Outcome text = plan(folder, large);
    CHECK(text.status == 0); // there is a plan, so the result is not an error
    CHECK(has(text.out, "does NOT fit: largest rank needs "));
    CHECK(has(text.out, "remedy: "));
    const auto json = plan_json(folder, large);
    CHECK(json["fits"] == false);
    CHECK(json["memory_bytes_available"] == machine_called("h100").memory);
    CHECK(json["memory_bytes_needed"] ==
          json["arena_bytes"].get<Bytes>() + json["process_bytes"].get<Bytes>());
    for (const auto& [names, printed] :
         {std::pair<std::string, std::string>{"fits", "false\n"},
          {"fits,remedy", str("false\n", json["remedy"].get<std::string>(), "\n")}}) {
        std::vector<std::string> values = large;
        values.insert(values.end(), {"--get", names});
        CHECK(plan(folder, values).out == printed);
    }
    std::vector<std::string> must = large;
    must.push_back("--must-fit");
    CHECK(plan(folder, must).status == 2);
    const std::vector<std::string> small{"model.preset=toy", "--machine", "h100", "--must-fit"};
    const Outcome fits = plan(folder, small);
    CHECK(fits.status == 0);
    CHECK(has(fits.out, "fits: largest rank needs "));
    const auto unknown = plan_json(folder, {"model.preset=toy", "--machine", "gpu"});
    CHECK(unknown["fits"].is_null());
    CHECK(plan(folder, {"model.preset=toy", "--machine", "gpu", "--must-fit"}).status == 2);
}

TEST_CASE("on a CPU the memory is that of this machine, or the machine file's, and ranks share it",
          "[release]")
{
    const Folder folder;
    const auto here = plan_json(folder, {"model.preset=toy", "--machine", "cpu"});
    CHECK(here["fits"] == true);
    CHECK(here["memory_bytes_available"].get<double>() ==
          Approx(static_cast<double>(available_host_memory())).epsilon(0.5));
    const std::vector<std::string> grid{"model.preset=toy", "parallel.data=2", "parallel.pipeline=2",
                                        "--machine", "node.toml"};
    write_text(folder / "node.toml", "memory = 1e12\n");
    const auto roomy = plan_json(folder, grid);
    CHECK(roomy["fits"] == true);
    CHECK(roomy["memory_bytes_available"] == 1000000000000);
    CHECK(roomy["ranks_sharing_memory"] == 4);
    Bytes sum = 0;
    for (const auto& rank : roomy["per_rank"])
        sum += rank["arena_bytes"].get<Bytes>() + roomy["process_bytes"].get<Bytes>();
    CHECK(roomy["memory_bytes_needed"] == sum);
    const auto verdict = [&](Bytes memory, i64 ranks_per_node) {
        write_text(folder / "node.toml",
                   str("memory = ", memory, "\nranks_per_node = ", ranks_per_node, "\n"));
        return plan_json(folder, grid)["fits"].get<bool>();
    };
    CHECK(verdict(sum, 0));
    CHECK_FALSE(verdict(sum - 1, 0));
    CHECK(verdict(sum / 2 + 1000000, 2)); // two nodes
    CHECK_FALSE(verdict(sum / 4, 2));
}

TEST_CASE("suggested settings fit", "[release]")
{
    const Folder folder;
    const std::vector<std::string> given{"model.preset=llama-10m", "train.global_batch=16", "parallel.data=2",
                                         "--machine", "small.toml"};
    write_text(folder / "small.toml", "is_device = true\nname = \"small\"\nmemory = 3e8\nprocess = 1\n");
    std::vector<std::string> next = given;
    const auto json = plan_json(folder, given);
    REQUIRE(json["fits"] == false);
    const std::string remedy = json["remedy"];
    INFO(remedy);
    REQUIRE(remedy.ends_with(" fits"));
    std::istringstream words(remedy.substr(0, remedy.size() - 5));
    for (std::string word; words >> word;)
        next.push_back(word);
    CHECK(plan_json(folder, next)["fits"] == true);
    // "auto" recomputes nothing without a limit, so more recomputation is among the suggestions.
    next = given;
    next[2] = "parallel.recompute=none";
    const auto none = plan_json(folder, next)["remedy"];
    next[2] = "parallel.recompute=auto";
    CHECK(none.get<std::string>().starts_with("parallel.recompute="));
    CHECK(plan_json(folder, next)["remedy"] == none);
}

TEST_CASE("a limit within which only a ring fits gives the plan and the remedy of the ring", "[release]")
{
    const Folder folder;
    write_text(folder / "small.toml", "is_device = true\nname = \"small\"\nmemory = 37e6\nprocess = 1\n");
    const auto in_form = [&](const std::string& form, const std::string& limit) {
        return plan_json(folder, {"model.preset=toy", "model.vocab=64", "model.layers=1", "model.seq=4096",
                                  "train.global_batch=1", "parallel.context=8", "parallel.recompute=none",
                                  "parallel.context_form=" + form, "parallel.memory_limit=" + limit,
                                  "--machine", "small.toml"});
    };
    const auto ring = in_form("ring", "38000000"), chosen = in_form("auto", "38000000");
    CHECK(ring["fits"] == false);
    CHECK(has(ring["remedy"].get<std::string>(), " fits"));
    for (const char* key : {"fits", "remedy", "memory_bytes_needed"})
        CHECK(chosen[key] == ring[key]);
    // Without the limit the form is the faster one, which needs more.
    CHECK(in_form("auto", "0")["memory_bytes_needed"] > ring["memory_bytes_needed"]);
}

TEST_CASE("where no setting is enough, shorter sequences are suggested only if they help", "[release]")
{
    const Folder folder;
    const auto remedy = [&](std::vector<std::string> arguments) {
        arguments.insert(arguments.end(), {"--machine", "node.toml"});
        const auto json = plan_json(folder, arguments);
        REQUIRE(json["fits"] == false);
        return json["remedy"].get<std::string>();
    };
    write_text(folder / "node.toml", "memory = 3e10\n");
    const std::string large = remedy({"model.preset=llama3-70b", "train.precision=bf16"});
    INFO(large);
    CHECK(!has(large, "model.seq"));
    CHECK(has(large, "ranks_per_node"));
    CHECK(has(large, "788.50 GiB per rank are parameters"));

    // The same of a limit.
    const Outcome limited = plan(folder, {"model.preset=toy", "parallel.memory_limit=1000"});
    CHECK(limited.status == 2);
    CHECK(has(limited.err, "parallel.tensor"));
    CHECK(!has(limited.err, "model.seq"));

    write_text(folder / "node.toml", "memory = 1e9\n");
    std::vector<std::string> longest{"model.preset=toy", "model.seq=1048576", "train.global_batch=1"};
    const std::string shorter = remedy(longest);
    INFO(shorter);
    REQUIRE(shorter.starts_with("model.seq="));
    REQUIRE(shorter.ends_with(" fits"));
    std::istringstream words(shorter.substr(0, shorter.size() - 5));
    for (std::string word; words >> word;)
        longest.push_back(word);
    longest.insert(longest.end(), {"--machine", "node.toml"});
    CHECK(plan_json(folder, longest)["fits"] == true);
}

TEST_CASE("--ranks chooses among the grids that fit the machine, and reports if none does", "[release]")
{
    const Folder folder;
    const std::vector<std::string> model{"model.preset=toy",
                                         "model.layers=6",
                                         "model.dim=512",
                                         "train.global_batch=16",
                                         "train.micro_batch=1",
                                         "--ranks",
                                         "8",
                                         "--machine",
                                         "small.toml",
                                         "--write",
                                         "found.toml"};
    const auto with = [&](double memory) {
        write_text(folder / "small.toml",
                   str("is_device = true\nname = \"small\"\nprocess = 1\nranks_per_node = 4\nmemory = ",
                       static_cast<Bytes>(memory), "\n"));
        return plan_json(folder, model);
    };
    const auto roomy = with(1e12);
    CHECK(roomy["fits"] == true);
    CHECK(roomy["strategies"][0]["step_seconds"] == roomy["estimated_step_seconds"]);
    const auto tight = with(0.6 * roomy["memory_bytes_needed"].get<double>());
    CHECK(tight["fits"] == true);
    CHECK(tight["estimated_step_seconds"] >= roomy["estimated_step_seconds"]);
    // The search does not compile its choice again for the report; planned by itself, it is the same.
    const Outcome outcome =
        run_program({"plan", "found.toml", "--machine", "small.toml", "--json"}, folder.path());
    REQUIRE(outcome.status == 0);
    const auto alone = nlohmann::json::parse(outcome.out);
    for (const char* key : {"arena_bytes", "kept_bytes", "lower_bound_bytes", "memory_bytes_needed",
                            "estimated_step_seconds", "live_at_peak"})
        CHECK(tight[key] == alone[key]);
    CHECK(alone["strategies"][0]["parallel"]["bucket"] == "auto"); // as the config has it
    const auto none = with(1e7);
    CHECK(none["fits"] == false);
    CHECK(none["ranks"] == 8);
    CHECK_FALSE(none["remedy"].get<std::string>().empty());
}

TEST_CASE(
    "--ranks chooses smaller microbatches if the config leaves their size open and no grid fits otherwise")
{
    const Folder folder;
    const auto with = [&](double memory, std::vector<std::string> more) {
        write_text(folder / "small.toml",
                   str("is_device = true\nname = \"small\"\nprocess = 1\nranks_per_node = 4\nmemory = ",
                       static_cast<Bytes>(memory), "\n"));
        more.insert(more.end(), {"model.preset=toy", "model.seq=1024", "train.global_batch=64", "--ranks",
                                 "2", "--machine", "small.toml"});
        return plan_json(folder, more);
    };
    const double least = with(1e12, {"train.micro_batch=1"})["memory_bytes_needed"].get<double>();
    const double most = with(1e12, {})["memory_bytes_needed"].get<double>();
    REQUIRE(most > 4 * least);
    const auto open = with(1.1 * least, {});
    CHECK(open["fits"] == true);
    CHECK(with(1.1 * least, {"train.micro_batch=8"})["fits"] == false);
}

TEST_CASE("a search orders the axes that a program's mesh has")
{
    const Folder folder;
    const nlohmann::json made = plan_json(
        folder, {"model.family=graph", str("model.file=", TRIVIUM_SOURCE, "/docs/examples/decoder.graph"),
                 "train.global_batch=16", "parallel.data=8", "parallel.pipeline=2", "--machine", "h100",
                 "--ranks", "16"});
    bool ordered = false;
    for (const nlohmann::json& strategy : made.at("strategies"))
        for (const nlohmann::json& axis : strategy.at("parallel").value("order", nlohmann::json::array())) {
            ordered = true;
            CHECK(axis != "tensor");
        }
    CHECK(ordered);
}

TEST_CASE("the lower bound is below every stage's arena, and close to it for many layers", "[release]")
{
    for (const char* preset : {"toy", "toy-gpt2"})
        for (const char* precision : {"f32", "bf16"})
            for (const i64 zero : {0, 1})
                for (const auto& [pipeline, tensor, micro] : {std::tuple{1, 1, 8}, {3, 2, 1}}) {
                    const RunConfig c = config_of(
                        {str("model.preset=", preset), "model.layers=4", str("train.precision=", precision),
                         str("parallel.zero=", zero), "parallel.data=2", "train.global_batch=16",
                         str("parallel.pipeline=", pipeline), str("parallel.tensor=", tensor),
                         str("train.micro_batch=", micro)});
                    INFO(preset << " " << precision << " zero " << zero << " " << pipeline << "x" << tensor
                                << " micro " << micro);
                    RunConfig offload = c;
                    offload.parallel.offload = Offload::optimizer;
                    for (const RunConfig& each : {c, offload}) {
                        const std::vector<Bytes> least = least_bytes_of_stages(each),
                                                 real = arenas_of_stages(each);
                        REQUIRE(least.size() == real.size());
                        for (std::size_t s = 0; s < real.size(); ++s)
                            CHECK(least[s] <= real[s]);
                    }
                }
    const RunConfig large =
        config_of({"model.preset=llama3-8b", "model.layers=3", "model.vocab=1000", "train.global_batch=1"});
    CHECK(static_cast<double>(least_bytes_of_stages(large)[0]) >
          0.8 * static_cast<double>(arenas_of_stages(large)[0]));
    // The search of a schedule chooses the microbatch, too.
    const RunConfig searched = config_of({"model.preset=toy", "model.layers=4", "train.global_batch=64",
                                          "parallel.pipeline=2", "parallel.schedule=auto"});
    const std::vector<Bytes> real = arenas_of_stages(searched);
    CHECK(*std::max_element(real.begin(), real.end()) >= least_bytes_of_stages(searched)[0]);
}

TEST_CASE("the stage of each block is known before compiling", "[release]")
{
    for (const char* preset : {"toy", "toy-gpt2"})
        for (const i64 pipeline : {1, 3, 5}) {
            const RunConfig c = config_of({str("model.preset=", preset), "model.layers=7",
                                           str("parallel.pipeline=", pipeline), "parallel.data=2"});
            CHECK(ranks_of_blocks(c) == compile_training(c, {machine_called("cpu"), {}, 0}).rank_of_block);
        }
    const RunConfig given = config_of(
        {"model.preset=toy", "model.layers=7", "parallel.pipeline=3", "parallel.stage_layers=[1,4,2]"});
    CHECK(ranks_of_blocks(given) == std::vector<int>{0, 0, 1, 1, 1, 1, 2, 2, 2});
    CHECK(ranks_of_blocks(given) == compile_training(given, {machine_called("cpu"), {}, 0}).rank_of_block);
}

TEST_CASE("a large model on many ranks is planned quickly, on a grid that fits if there is one", "[release]")
{
    const Folder folder;
    const auto json =
        plan_json(folder, {"model.preset=llama3-70b", "train.global_batch=16", "train.micro_batch=1",
                           "train.precision=bf16", "parallel.zero=1", "--ranks", "128", "--machine", "h100"});
    CHECK(json["fits"] == true);
    CHECK(json["ranks"].get<i64>() > 64);
    const i64 tensor = json["grid"]["tensor"];
    CHECK(8 % tensor == 0);
}

TEST_CASE("a limit of memory names the largest rank, with its stage")
{
    const Folder folder;
    const std::vector<std::string> run{"model.preset=toy",    "model.layers=3",      "model.vocab=20000",
                                       "parallel.pipeline=3", "train.micro_batch=4", "train.global_batch=4"};
    const auto json = plan_json(folder, run);
    i64 largest = 0;
    Bytes most = 0;
    for (const auto& rank : json["per_rank"])
        if (rank["arena_bytes"].get<Bytes>() > most) {
            most = rank["arena_bytes"];
            largest = rank["rank"];
        }
    REQUIRE(largest != 0); // the head's stage
    std::vector<std::string> limited = run;
    limited.push_back("parallel.memory_limit=1000000");
    const Outcome outcome = plan(folder, limited);
    INFO(outcome.err);
    CHECK(outcome.status == 2);
    CHECK(has(outcome.err, str("rank ", largest, " of stage ", largest)));
    CHECK(has(outcome.err, str(most, " bytes")));
}

TEST_CASE("equal ranks are listed as ranges, and a shortened list is marked", "[release]")
{
    const Folder folder;
    const Outcome many = plan(folder, {"model.preset=toy", "parallel.data=32", "train.global_batch=32"});
    INFO(many.out);
    CHECK((has(many.out, "ranks 0-31") || has(many.out, "ranks 1-31")));
    const Outcome striped =
        plan(folder, {"model.preset=toy", "parallel.data=20", "parallel.tensor=2", "train.global_batch=20"});
    INFO(striped.out);
    CHECK((has(striped.out, "…") || has(striped.out, "-39")));
    CHECK_FALSE(has(striped.out, "rank(s)"));
    CHECK(has(plan(folder, {"model.preset=toy", "train.steps=1", "train.global_batch=1"}).out,
              "1 microbatch of 1"));
}

TEST_CASE("one of something is not printed in the plural")
{
    const Folder folder;
    const auto said = [&](const std::vector<std::string>& arguments) {
        const Outcome outcome = plan(folder, arguments);
        return outcome.out + outcome.err;
    };
    const std::string one = said({"model.preset=toy", "model.layers=1", "model.heads=1", "model.kv_heads=1",
                                  "train.steps=1", "train.global_batch=1", "log.every=2"});
    INFO(one);
    CHECK(has(one, "1 layer, dim 64, 1 head (1 key-value)"));
    CHECK(has(one, "more than the run's 1 step:"));
    CHECK(has(said({"model.preset=toy", "train.global_batch=1", "parallel.data=2"}),
              "1 sequence does not divide"));
    for (const char* word :
         {" ranks", " layers", " heads", " steps", " sequences", " microbatches", " threads"})
        CHECK_FALSE(has(one, std::string(" 1") + word));
}

TEST_CASE("the run's length, its device-hours, MFU and a checkpoint's size follow from the step", "[release]")
{
    const Folder folder;
    const auto json = plan_json(folder, {"model.preset=llama-10m", "train.steps=5000", "train.precision=bf16",
                                         "parallel.data=4", "train.global_batch=16", "--machine", "h100"});
    const double step = json["estimated_step_seconds"];
    CHECK(json["estimated_run_seconds"].get<double>() == Approx(5000 * step));
    CHECK(json["estimated_device_hours"].get<double>() == Approx(5000 * step * 4 / 3600));
    CHECK(json["estimated_mfu"].get<double>() ==
          Approx(json["model_flops_per_step"].get<double>() / (step * 4 * 989e12)));
    CHECK(json["estimated_mfu"].get<double>() < 1);
    CHECK(json["checkpoint_bytes"] == 12 * json["parameters"].get<Bytes>());
    // Muon's matrices have one state: a layer's four of attention and three of the feed-forward part.
    const auto muon = plan_json(folder, {"model.preset=llama-10m", "train.optimizer=muon", "parallel.data=4",
                                         "train.global_batch=16"});
    const ModelConfig m = preset("llama-10m");
    const i64 kv = m.kv_heads > 0 ? m.kv_heads : m.heads, head = m.dim / m.heads;
    const i64 matrices = m.layers * (2 * m.dim * m.dim + 2 * m.dim * kv * head + 3 * m.dim * m.ffn_dim);
    CHECK(muon["checkpoint_bytes"] == 12 * muon["parameters"].get<Bytes>() - 4 * matrices);
    const Outcome text = plan(folder, {"model.preset=toy", "train.steps=1", "--machine", "h100"});
    CHECK(has(text.out, "MFU "));
    CHECK(has(text.out, "run        1 step in "));
    CHECK(has(text.out, "device-hours"));
}

TEST_CASE("a transfer uses the links between nodes if its axis leaves a node, otherwise those within")
{
    // Ranks 0 to 7, tensor fastest, then pipeline, then data.
    const RunConfig c = config_of({"model.preset=toy", "parallel.data=2", "parallel.pipeline=2",
                                   "parallel.tensor=2", "train.global_batch=4", "train.micro_batch=1"});
    const Compiled compiled = compile_training(c, {machine_called("h100"), {}, 0});
    const Program& program = compiled.programs[train_program];
    const std::string both = "data+tensor"; // gradients of norms
    const auto slow_axes = [&](i64 ranks_per_node) {
        Machine machine = machine_called("h100");
        machine.launch = machine.collective_latency = 0;
        machine.ranks_per_node = ranks_per_node;
        machine.node_link_bytes_per_second = machine.link_bytes_per_second / 1000;
        machine.node_link_latency = 1000 * machine.link_latency;
        Machine flat = machine;
        flat.ranks_per_node = 0;
        const std::vector<Seconds> by_nodes = op_seconds(program.graph, machine, 1),
                                   by_one = op_seconds(program.graph, flat, 1);
        std::set<std::string> slow;
        for (std::size_t i = 0; i < by_one.size(); ++i)
            if (by_nodes[i] != by_one[i]) {
                const std::string& axis = *program.graph.ops[i].attrs->axis;
                CHECK(by_nodes[i] > 10 * by_one[i]);
                if (axis != world_axis && axis != both) { // which have some peers on the same node
                    CHECK(by_nodes[i] > 500 * by_one[i]); // NCCL may take another protocol
                    CHECK(by_nodes[i] <= 1000 * by_one[i] * (1 + 1e-9));
                }
                slow.insert(axis);
            }
        return slow;
    };
    CHECK(slow_axes(0).empty());
    CHECK(slow_axes(8).empty());
    CHECK(slow_axes(4) == std::set<std::string>{"data", both, "world"});
    CHECK(slow_axes(2) == std::set<std::string>{"data", both, "pipeline", "world"});
    CHECK(slow_axes(1) == std::set<std::string>{"data", both, "pipeline", "tensor", "world"});
    CHECK(slow_axes(3).count("tensor") == 1); // ranks 2 and 3
}

TEST_CASE("a machine file has the links between nodes and the memory; an older file without them is accepted")
{
    const Folder folder;
    const std::vector<std::string> run{"model.preset=toy", "parallel.data=4", "train.global_batch=4",
                                       "--machine", "m.toml"};
    // Between nodes no core copies: here copies within a node take no time either.
    const std::string links = "link_bytes_per_second = 1e9\nlink_latency = 0\ncopy_bytes_per_second = 1e18\n"
                              "cache = 1000000000000\n";
    const auto step_with = [&](const std::string& more) {
        write_text(folder / "m.toml", links + more);
        return plan_json(folder, run)["estimated_step_seconds"].get<double>();
    };
    const double old = step_with("");
    CHECK(step_with("ranks_per_node = 2\n") == Approx(old).epsilon(1e-9)); // links between nodes as within
    CHECK(step_with("ranks_per_node = 2\nnode_link_bytes_per_second = 1e3\nnode_link_latency = 1\n") >
          old + 1);
    write_text(folder / "m.toml", "name = \"h100\"\n");
    CHECK(plan_json(folder, {"model.preset=toy", "--machine", "m.toml"})["estimated_step_seconds"] ==
          plan_json(folder, {"model.preset=toy", "--machine", "h100"})["estimated_step_seconds"]);
    write_text(folder / "m.toml", "memory = -1\n");
    CHECK(plan(folder, run).status == 2);
}
