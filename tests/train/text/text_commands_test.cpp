// `generate` and `eval` from outside, on one rank and on several.
#include "catch.hpp"
#include "train/program.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

using nlohmann::json;

namespace {

/// A run with a checkpoint.
class Run {
public:
    Run()
    {
        make_store(folder_, 3000);
        write_text(folder_ / "run.toml", R"([model]
family = "llama"
layers = 2
dim = 32
heads = 4
kv_heads = 2
ffn_dim = 48
seq = 80
[data]
train = "train.h5"
tokenizer = "bytes"
[train]
steps = 30
global_batch = 4
lr = 1e-2
warmup = 2
precision = "f64"
[parallel]
threads = 1
[checkpoint]
dir = "ck"
[log]
dir = "log"
)");
        const Outcome trained = run_program({"train", "run.toml"}, folder_.path());
        INFO(trained.err);
        REQUIRE(trained.status == 0);
    }

    Outcome on(int ranks, std::vector<std::string> arguments) const
    {
        return ranks == 1 ? run_program(arguments, folder_.path())
                          : run_ranks({{ranks, std::move(arguments)}}, folder_.path());
    }
    std::vector<json> lines_on(int ranks, const std::vector<std::string>& arguments) const
    {
        const Outcome outcome = on(ranks, arguments);
        INFO(outcome.err);
        REQUIRE(outcome.status == 0);
        return lines_of(outcome.out);
    }
    static std::vector<json> lines_of(const std::string& text)
    {
        std::vector<json> lines;
        std::istringstream in(text);
        for (std::string line; std::getline(in, line);)
            lines.push_back(json::parse(line));
        return lines;
    }
    void write(const std::string& name, const std::string& text) const { write_text(folder_ / name, text); }
    std::string read(const std::string& name) const { return read_text(folder_ / name); }
    /// A wrong use: its message.
    std::string bad(const std::vector<std::string>& arguments) const
    {
        const Outcome outcome = on(1, arguments);
        INFO(outcome.err);
        CHECK(outcome.status == 2);
        return outcome.err;
    }

private:
    Folder folder_;
};

const Run& trained()
{
    static const Run run;
    return run;
}

std::vector<std::string> with(std::vector<std::string> arguments, const std::vector<std::string>& more)
{
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
}

const std::vector<std::vector<std::string>> grids{
    {"parallel.tensor=2"},
    {"parallel.pipeline=2"},
    {"parallel.data=2", "parallel.zero=3"},
    {"parallel.data=2", "parallel.tensor=2"},
};
int ranks_of(const std::vector<std::string>& grid) { return grid == grids.back() ? 4 : 2; }

} // namespace

TEST_CASE("prompts of a file have the same texts together, alone and on several ranks")
{
    const Run& run = trained();
    run.write("prompts.txt", "the light of\n\nand then\r\nx\n");
    run.write("prompts.jsonl", R"({"prompt": "the light of"})"
                               "\n"
                               R"({"prompt": "and then", "id": 7})"
                               "\n"
                               R"({"prompt": [257, 120]})"
                               "\n");
    const std::vector<std::string> greedy{"generate",      "run.toml", "--tokens",   "12",
                                          "--temperature", "0",        "--logprobs", "2"};
    const std::vector<json> want = run.lines_on(1, with(greedy, {"--prompts", "prompts.txt"}));
    REQUIRE(want.size() == 3);
    const auto same = [&](const std::vector<json>& got) {
        REQUIRE(got.size() == want.size());
        for (std::size_t i = 0; i < want.size(); ++i) {
            CHECK(got[i]["text"] == want[i]["text"]);
            CHECK(got[i]["tokens"] == want[i]["tokens"]);
            REQUIRE(got[i]["logprobs"].size() == want[i]["logprobs"].size());
            for (std::size_t k = 0; k < want[i]["logprobs"].size(); ++k)
                CHECK(got[i]["logprobs"][k]["logprob"].get<double>() ==
                      Approx(want[i]["logprobs"][k]["logprob"].get<double>()).epsilon(1e-9));
        }
    };
    same(run.lines_on(1, with(greedy, {"--prompts", "prompts.jsonl", "--batch", "2"})));
    CHECK(want[2]["prompt"] == "x");
    for (const std::vector<std::string>& grid : grids) {
        INFO(grid[0]);
        same(run.lines_on(ranks_of(grid), with(with(greedy, {"--prompts", "prompts.jsonl"}), grid)));
    }
    const json alone = json::parse(run.on(1, {"generate", "run.toml", "--prompt", "and then", "--tokens",
                                              "12", "--temperature", "0", "--json"})
                                       .out);
    CHECK(alone["tokens"] == want[1]["tokens"]);
    CHECK(alone["finish"] == "length");
    // Printed while it grows: prompt and text.
    CHECK(run.on(1, {"generate", "run.toml", "--prompt", "and then", "--tokens", "12", "--temperature", "0"})
              .out == "and then" + want[1]["text"].get<std::string>() + "\n");
    run.on(1, with(greedy, {"--prompts", "prompts.txt", "-o", "out.jsonl"}));
    same(Run::lines_of(run.read("out.jsonl")));
}

TEST_CASE("samples of a prompt differ, and are the same in any company")
{
    const Run& run = trained();
    run.write("two.txt", "the light of\nand then\n");
    const std::vector<std::string> sampled{"generate",      "run.toml", "--tokens", "10",
                                           "--temperature", "1",        "--seed",   "5"};
    const std::vector<json> all = run.lines_on(1, with(sampled, {"--prompts", "two.txt", "--n", "3"}));
    REQUIRE(all.size() == 6);
    CHECK(all[0]["tokens"] != all[1]["tokens"]);
    CHECK(all[4]["sample"] == 1);
    CHECK(all[4]["prompt"] == "and then");
    CHECK(run.lines_on(1, with(sampled, {"--prompts", "two.txt", "--n", "3", "--batch", "1"})) == all);
    const std::vector<json> first = run.lines_on(1, with(sampled, {"--prompts", "two.txt"}));
    CHECK(first[0]["tokens"] == all[0]["tokens"]);
    CHECK(first[1]["tokens"] == all[3]["tokens"]);
    const std::vector<json> other =
        run.lines_on(2, with(sampled, {"--prompt", "the light of", "--n", "2", "parallel.tensor=2"}));
    REQUIRE(other.size() == 2);
    CHECK(other[1]["tokens"] == all[1]["tokens"]);

    const std::string text = first[0]["text"];
    const std::string stop = text.substr(4, 2);
    const std::vector<json> stopped =
        run.lines_on(1, with(sampled, {"--prompts", "two.txt", "--stop", stop, "--stop", "never, ever"}));
    CHECK(stopped[0]["text"] == text.substr(0, text.find(stop)));
    CHECK(stopped[0]["finish"] == "stop");
}

TEST_CASE("scores of texts are those of evaluation, on any grid")
{
    const Run& run = trained();
    run.write("pairs.jsonl", R"({"context": "the light of ", "continuation": "the moon"})"
                             "\n"
                             R"({"context": [257, 1], "continuation": [2, 3, 4]})"
                             "\n"
                             R"({"context": "", "continuation": "a"})"
                             "\n"
                             R"({"context": ")" +
                                 std::string(100, 'y') +
                                 R"(", "continuation": " is"})"
                                 "\n");
    const std::vector<std::string> score{"eval", "run.toml", "--score", "pairs.jsonl"};
    const std::vector<json> want = run.lines_on(1, score);
    REQUIRE(want.size() == 4);
    CHECK(want[0]["tokens"] == 9); // with the space
    CHECK(want[1]["tokens"] == 3);
    CHECK(want[2]["tokens"] == 1);
    CHECK(want[3]["left_out"] == 103 - 81);
    for (const json& line : want)
        CHECK(line["logprob"] < 0);
    for (const std::vector<std::string>& grid : grids) {
        INFO(grid[0]);
        const std::vector<json> got = run.lines_on(ranks_of(grid), with(score, grid));
        REQUIRE(got.size() == want.size());
        for (std::size_t i = 0; i < want.size(); ++i) {
            CHECK(got[i]["logprob"].get<double>() == Approx(want[i]["logprob"].get<double>()).epsilon(1e-9));
            CHECK(got[i]["is_greedy"] == want[i]["is_greedy"]);
        }
    }
    // What is sampled greedily is greedy.
    const json greedy = json::parse(run.on(1, {"generate", "run.toml", "--prompt", "the light of", "--tokens",
                                               "5", "--temperature", "0", "--json", "--logprobs", "1"})
                                        .out);
    json pair{{"context", {257}}, {"continuation", greedy["tokens"]}};
    for (const char c : std::string("the light of"))
        pair["context"].push_back(static_cast<int>(c));
    json other = pair;
    other["continuation"][4] = (greedy["tokens"][4].get<int>() + 1) % 256;
    run.write("greedy.jsonl", pair.dump() + "\n" + other.dump() + "\n");
    const std::vector<json> scores = run.lines_on(1, {"eval", "run.toml", "--score", "greedy.jsonl"});
    CHECK(scores[0]["is_greedy"] == true);
    CHECK(scores[1]["is_greedy"] == false);
    double sum = 0;
    for (const json& token : greedy["logprobs"])
        sum += token["logprob"].get<double>();
    CHECK(scores[0]["logprob"].get<double>() == Approx(sum).epsilon(1e-9));
}

TEST_CASE("evaluation has the same loss on one rank and on several")
{
    const Run& run = trained();
    const std::vector<std::string> eval{"eval", "run.toml", "--json"};
    const json want = json::parse(run.on(1, eval).out);
    for (const std::vector<std::string>& grid : grids) {
        const Outcome outcome = run.on(ranks_of(grid), with(eval, grid));
        INFO(outcome.err);
        REQUIRE(outcome.status == 0);
        const json got = json::parse(outcome.out);
        CHECK(got["tokens"] == want["tokens"]);
        CHECK(got["loss"].get<double>() == Approx(want["loss"].get<double>()).epsilon(1e-9));
        CHECK(got["arena_bytes"] < want["arena_bytes"].get<double>() * 1.3);
    }
    const Outcome other = run.on(3, eval); // data 3
    INFO(other.err);
    REQUIRE(other.status == 0);
    CHECK(json::parse(other.out)["loss"].get<double>() == Approx(want["loss"].get<double>()).epsilon(1e-9));
    CHECK(has(other.err, "on 3 ranks: data 3 x pipeline 1 x tensor 1"));
}

TEST_CASE("wrong prompts and texts are refused with their line, on one rank and on several")
{
    const Run& run = trained();
    run.write("empty.txt", "\n  \n");
    run.write("no.jsonl", "{\"prompt\": \"a\"}\n{\"text\": \"b\"}\n");
    run.write("ids.jsonl", "{\"prompt\": [1, 258]}\n");
    run.write("half.jsonl", "{\"context\": \"a\", \"continuation\": \"b\"}\n{\"context\": \"a\"\n");
    run.write("mixed.jsonl", "{\"context\": \"a\", \"continuation\": [1]}\n");
    run.write("none.jsonl", "{\"context\": \"a\", \"continuation\": \"\"}\n");
    run.write("long.jsonl", "{\"context\": \"a\", \"continuation\": \"" + std::string(81, 'b') + "\"}\n");
    const auto generate = [&](const std::string& file) {
        return run.bad({"generate", "run.toml", "--prompts", file});
    };
    const auto score = [&](const std::string& file) {
        return run.bad({"eval", "run.toml", "--score", file});
    };
    CHECK(has(generate("empty.txt"), "empty.txt: has no prompts"));
    CHECK(has(generate("missing.txt"), "missing.txt"));
    CHECK(has(generate("no.jsonl"), "no.jsonl:2: has no `prompt`"));
    CHECK(has(generate("ids.jsonl"), "ids.jsonl:1"));
    CHECK(has(run.bad({"generate", "run.toml", "--prompts", "no.jsonl", "--prompt", "x"}), "--prompts"));
    CHECK(has(run.bad({"generate", "run.toml", "--stop", ""}), "--stop"));
    CHECK(has(score("empty.txt"), "empty.txt: has no lines"));
    CHECK(has(score("half.jsonl"), "half.jsonl:2"));
    CHECK(has(score("mixed.jsonl"), "a text and a list of ids"));
    CHECK(has(score("none.jsonl"), "no tokens"));
    CHECK(has(score("long.jsonl"), "81 tokens"));
    CHECK(has(run.bad({"eval", "run.toml", "--score", "half.jsonl", "--batches", "1"}), "--score"));
    const Outcome together = run.on(2, {"generate", "run.toml", "--prompts", "no.jsonl"});
    CHECK(together.status == 2);
    CHECK(has(together.err, "no.jsonl:2: has no `prompt`"));
    const Outcome heads = run.on(2, {"generate", "run.toml", "parallel.tensor=8"}); // of which 2 are started
    CHECK(heads.status == 0);
    const Outcome limit = run.on(2, {"generate", "run.toml", "parallel.memory_limit=\"10KB\""});
    INFO(limit.err);
    CHECK(limit.status == 2);
    CHECK(has(limit.err, "memory_limit"));
}
