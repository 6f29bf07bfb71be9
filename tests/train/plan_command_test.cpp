// Commands that need no runtime: plan, explain, --help, and errors in their use.
#include "base/check.hpp"
#include "catch.hpp"
#include "config/model_config.hpp"
#include "program.hpp"

#include <nlohmann/json.hpp>

TEST_CASE("plan prints the arena of published models, and less in bf16 per activation")
{
    const Folder folder;
    for (const char* name : {"gpt2-124m", "llama3-8b", "llama3-405b"}) {
        if (trivium::contracts_on && name == std::string("llama3-405b")) // slow there
            continue;
        const Outcome plan = run_program(
            {"plan", "/dev/null", std::string("model.preset=") + name, "--json", "train.global_batch=1"},
            folder.path());
        INFO(plan.err);
        REQUIRE(plan.status == 0);
        const auto json = nlohmann::json::parse(plan.out);
        trivium::ModelConfig model = trivium::preset(name);
        trivium::resolve(model);
        CHECK(json["parameters"] == trivium::parameter_count(model));
        // f32 training holds at least parameter, gradient and two moments: 16 bytes each.
        CHECK(json["arena_bytes"].get<std::int64_t>() > 16 * trivium::parameter_count(model));
        CHECK(json["kept_bytes"].get<std::int64_t>() + json["transient_bytes"].get<std::int64_t>() ==
              json["arena_bytes"]);
    }
}

TEST_CASE("a limit on memory refuses a plan that exceeds it")
{
    const Folder folder;
    const Outcome plan = run_program(
        {"plan", "/dev/null", "model.preset=gpt2-124m", "parallel.memory_limit=1000000000"}, folder.path());
    CHECK(plan.status == 2);
    CHECK(plan.err.find("parallel.memory_limit") != std::string::npos);
    CHECK(plan.err.find("remedy") != std::string::npos);
}

TEST_CASE("explain prints a graph that it can parse")
{
    const Folder folder;
    const Outcome first =
        run_program({"explain", "/dev/null", "model.preset=toy", "--only", "graph"}, folder.path());
    REQUIRE(first.status == 0);
    const std::string graph = first.out.substr(first.out.find("graph train"));
    write_text(folder / "toy.graph", graph);
    const Outcome second = run_program({"explain", "toy.graph", "--only", "graph"}, folder.path());
    INFO(second.err);
    REQUIRE(second.status == 0);
    CHECK(second.out.substr(second.out.find("graph train")) == graph);
}

TEST_CASE("explain and plan agree on the memory, in JSON too")
{
    const Folder folder;
    const auto plan = nlohmann::json::parse(
        run_program({"plan", "/dev/null", "model.preset=toy", "--json"}, folder.path()).out);
    const auto explained = nlohmann::json::parse(
        run_program({"explain", "/dev/null", "model.preset=toy", "--json"}, folder.path()).out);
    CHECK(explained["memory"]["arena_bytes"] == plan["arena_bytes"]);
    CHECK(explained["graph"].get<std::string>().find("graph train") == 0);
}

TEST_CASE("plan and explain have the resolved config in JSON, and plan prints single values for scripts")
{
    const Folder folder;
    const auto run = [&](std::vector<std::string> words) {
        words.insert(words.end(), {"model.preset=toy", "parallel.tensor=2", "log.dir=my logs",
                                   "model.rope_scaling=llama3", "train.lr=1e-3"});
        return run_program(words, folder.path());
    };
    const auto plan = nlohmann::json::parse(run({"plan", "/dev/null", "--json"}).out);
    const auto explained =
        nlohmann::json::parse(run({"explain", "/dev/null", "--only", "config", "--json"}).out);
    CHECK(plan["config"] == explained["config"]);
    CHECK(plan["config"]["parallel"]["tensor"] == 2);
    CHECK(plan["config"]["parallel"]["schedule"] == "1f1b");
    CHECK(plan["config"]["train"]["lr"] == 1e-3);
    CHECK(plan["config"]["model"]["rope_scaling"] == nlohmann::json{8.0, 1.0, 4.0, 8192.0});
    // One value per key of the TOML.
    const std::string toml = run({"explain", "/dev/null", "--only", "config"}).out;
    std::size_t keys = 0;
    for (const auto& table : plan["config"])
        keys += table.size();
    std::size_t lines = 0;
    for (std::size_t at = toml.find(" = "); at != std::string::npos;
         at = toml.find(" = ", toml.find('\n', at)))
        ++lines; // a table has several
    CHECK(keys == lines);

    const Outcome values = run({"plan", "/dev/null", "--get", "ranks,log.dir,parallel.sequence,train.lr"});
    CHECK(values.out == "2\nmy logs\ntrue\n0.001\n");
    for (const char* none : {"rank", "train.step", "trains.steps", "config.train", "."}) {
        const Outcome unknown = run({"plan", "/dev/null", "--get", none});
        CHECK(unknown.status == 2);
        CHECK(unknown.out.empty());
        CHECK(unknown.err.find(std::string("there is no value '") + none) != std::string::npos);
    }
}

TEST_CASE("errors on the command line name the nearest valid word and exit with 2")
{
    const Folder folder;
    struct Case {
        std::vector<std::string> arguments;
        std::vector<std::string> said;
    };
    const std::vector<Case> cases{
        {{"trian", "x.toml"}, {"trian", "train"}},
        {{"plan", "missing.toml"}, {"missing.toml", "remedy"}},
        {{"plan", "/dev/null", "model.layer=3"}, {"layer", "layers"}},
        {{"plan", "/dev/null", "modle.layers=3"}, {"modle", "model"}},
        {{"plan", "/dev/null", "model.preset=lama3-8b"}, {"lama3-8b", "llama3-8b"}},
        {{"plan", "/dev/null", "model.layers=many"}, {"model.layers", "many"}},
        {{"plan", "/dev/null", "model.dim=65"}, {"model.heads", "65"}},
        {{"plan", "/dev/null", "model.heads=3", "model.dim=66", "model.kv_heads=2"}, {"model.kv_heads"}},
        {{"plan", "/dev/null", "train.global_batch=6", "train.micro_batch=4"}, {"micro_batch"}},
        {{"plan", "/dev/null", "parallel.chunks=2"}, {"parallel.chunks"}},
        {{"plan", "/dev/null", "parallel.data=2", "train.global_batch=4", "parallel.zero=4"},
         {"parallel.zero"}},
        {{"plan", "/dev/null", "model.preset=toy", "parallel.tensor=4"},
         {"parallel.tensor", "key-value heads"}},
        {{"plan", "/dev/null", "model.preset=toy", "parallel.pipeline=9"}, {"parallel.pipeline", "4 blocks"}},
        {{"explain", "/dev/null", "model.preset=toy", "parallel.tensor=2", "--rank", "2"},
         {"--rank", "no rank 2"}},
        {{"plan", "/dev/null", "--jsn"}, {"jsn"}},
        {{"explain", "missing.graph"}, {"missing.graph"}},
        {{"plan"}, {"config"}},
        {{"plan", "/dev/null", "parallel.threads=4294967296"}, {"parallel.threads"}},
        {{"plan", "/dev/null", "train.global_batch=400000000000000000"}, {"train.global_batch"}},
    };
    for (const Case& c : cases) {
        const Outcome outcome = run_program(c.arguments, folder.path());
        INFO(c.arguments.back() << ": " << outcome.err);
        CHECK(outcome.status == 2);
        for (const std::string& word : c.said)
            CHECK(outcome.err.find(word) != std::string::npos);
        CHECK(outcome.err.find("internal") == std::string::npos);
    }
}

TEST_CASE("--help and --version work for the program and each sub-command")
{
    const Folder folder;
    CHECK(run_program({"--help"}, folder.path()).status == 0);
    CHECK(run_program({"--version"}, folder.path()).out.find("trivium ") == 0);
    for (const char* command : {"train", "plan", "explain", "data", "eval", "generate"}) {
        const Outcome help = run_program({command, "--help"}, folder.path());
        INFO(command);
        CHECK(help.status == 0);
        CHECK(help.out.size() > 40);
    }
}

TEST_CASE("the reference pages in docs/ are those that the program prints")
{
    const Folder folder;
    for (const auto& [what, page] : {std::pair{"keys", "config.md"}, {"ops", "ops.md"}}) {
        const Outcome printed = run_program({"explain", "--reference", what}, folder.path());
        REQUIRE(printed.status == 0);
        INFO("docs/" << page << ": write it anew with `trivium explain --reference " << what << " > docs/"
                     << page << "`");
        CHECK((read_text(std::string(TRIVIUM_SOURCE) + "/docs/" + page) == printed.out));
    }
}

TEST_CASE("plan for a GPU on a machine without one")
{
    const Folder folder;
    const auto plan = [&](const std::string& machine) {
        const Outcome outcome = run_program(
            {"plan", "/dev/null", "model.preset=gpt2-124m", "--json", "--machine", machine}, folder.path());
        INFO(outcome.err);
        REQUIRE(outcome.status == 0);
        return nlohmann::json::parse(outcome.out);
    };
    const auto cpu = plan("cpu"), h100 = plan("h100"), h200 = plan("h200");
    CHECK(h100["arena_bytes"] == h200["arena_bytes"]);
    CHECK(h200["machine"] == "h200");
    CHECK(h200["estimated_step_seconds"].get<double>() < 0.1 * cpu["estimated_step_seconds"].get<double>());
    const Outcome wrong =
        run_program({"plan", "/dev/null", "model.preset=toy", "--machine", "h300"}, folder.path());
    CHECK(wrong.status == 2);
    CHECK(wrong.err.find("h200") != std::string::npos);
}

TEST_CASE("a machine from a file")
{
    const Folder folder;
    const auto plan = [&](const std::string& machine) {
        return run_program({"plan", "/dev/null", "model.preset=gpt2-124m", "parallel.threads=1", "--json",
                            "--machine", machine},
                           folder.path());
    };
    write_text(folder / "slow.toml",
               "# measured\nname = \"an old one\"\nflops_f32 = 1.5e9\nbytes_per_second = 2e8\n");
    const Outcome slow = plan("slow.toml"), cpu = plan("cpu");
    INFO(slow.err);
    REQUIRE(slow.status == 0);
    const auto a = nlohmann::json::parse(slow.out), b = nlohmann::json::parse(cpu.out);
    CHECK(a["machine"] == "an old one");
    CHECK(a["arena_bytes"] == b["arena_bytes"]);
    CHECK(a["estimated_step_seconds"].get<double>() >
          50 * b["estimated_step_seconds"].get<double>()); // a hundredth of the throughput
    const auto refuses = [&](const std::string& content, const std::string& words) {
        write_text(folder / "bad.toml", content);
        const Outcome outcome = plan("bad.toml");
        INFO(outcome.err);
        CHECK(outcome.status == 2);
        CHECK(outcome.err.find(words) != std::string::npos);
    };
    refuses("flops_32 = 1e9\n", "did you mean 'flops_f32'?");
    refuses("flops_f32 = 0\n", "it must be a finite number from 1 to");
    refuses("link_latency = -1.0\n", "it must be 0 or a finite number");
    refuses("scratch_product = -5\n", "a finite number from 1 to");
    refuses("launch = nan\n", "finite");
    CHECK(plan("nowhere.toml").status == 2);
}
