// `trivium serve` from outside.
#include "../train/program.hpp"
#include "catch.hpp"
#include "http_client.hpp"

#include <csignal>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

using nlohmann::json;

namespace {

constexpr const char* config = R"(
model = { family = "llama", layers = 2, dim = 32, heads = 4, kv_heads = 2, ffn_dim = 64, seq = 48 }
data = { train = "train.h5", tokenizer = "bytes" }
train = { steps = 4, global_batch = 4, micro_batch = 2 }
parallel = { threads = 1 }
checkpoint = { every = 2 }
)";

void make_run(const Folder& folder)
{
    write_text(folder / "run.toml", config);
    make_store(folder, 2000);
    REQUIRE(run_program({"train", "run.toml"}, folder.path()).status == 0);
}

/// The logprobs of the prompt's tokens.
std::vector<double> scores(int port, const std::string& prompt)
{
    const json body{{"prompt", prompt}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 1}};
    const std::string got = answer(port, post("/v1/completions", body.dump()));
    REQUIRE(got.starts_with("HTTP/1.1 200 "));
    const json lists = json::parse(content_of(got))["choices"][0]["logprobs"];
    CHECK(lists["token_logprobs"][0].is_null());
    std::vector<double> scores;
    for (std::size_t i = 1; i < lists["token_logprobs"].size(); ++i)
        scores.push_back(lists["token_logprobs"][i].get<double>());
    return scores;
}

/// A stream of many tokens, of which the first has come.
void begin_long_stream(Client& client)
{
    const json body{{"prompt", "a"}, {"max_tokens", 3900}, {"ignore_eos", true}, {"stream", true}};
    client.send(post("/v1/completions", body.dump()));
    REQUIRE(has(client.receive("data: "), "data: "));
}

} // namespace

TEST_CASE("serve answers until a signal, with the scores of eval --score, on one rank and on two")
{
    const Folder folder;
    make_run(folder);
    const std::string prompt = "some text that is scored";
    write_text(folder / "texts.jsonl",
               json{{"context", prompt.substr(0, 1)}, {"continuation", prompt.substr(1)}}.dump() + "\n");
    const Outcome scored = run_program(
        {"eval", "run.toml", "--score", "texts.jsonl", "--checkpoint", "checkpoints/step-00000004"},
        folder.path());
    REQUIRE(scored.status == 0);
    const double expected = json::parse(scored.out)["logprob"].get<double>();

    const int port = free_port();
    const std::vector<std::string> serve{"serve",    "run.toml", "--port",        std::to_string(port),
                                         "--length", "4000",     "--stop-timeout"};
    const auto with = [&](std::vector<std::string> more) {
        more.insert(more.begin(), serve.begin(), serve.end());
        return more;
    };
    std::vector<double> one, two;
    std::optional<Client> client;
    Outcome outcome = run_and_signal(with({"0"}), folder.path(), "serving ", SIGTERM, [&] {
        one = scores(port, prompt);
        begin_long_stream(client.emplace(port));
    });
    CHECK(outcome.status == 0);
    CHECK(has(outcome.err, "stopped by signal TERM"));
    CHECK(has(outcome.err, "1 request ended unfinished: --stop-timeout is over"));
    CHECK(has(client->receive("no such end"), "the server is stopping"));
    double sum = 0;
    for (const double each : one)
        sum += each;
    CHECK(sum == Approx(expected).epsilon(1e-6));

    outcome = run_ranks_and(
        {{2, with({"1000", "parallel.tensor=2"})}}, folder.path(), "serving ", [&](int launcher) {
            begin_long_stream(client.emplace(port));
            two = scores(port, prompt); // while the other runs
            CHECK(!has(client->received(), "[DONE]"));
            kill(launcher, SIGUSR1);
            while (!has(answer(port, get("/health"), "}"), "the server is stopping"))
                std::this_thread::sleep_for(std::chrono::milliseconds(5));
            CHECK(!has(client->received(), "[DONE]"));
            std::this_thread::sleep_for(std::chrono::milliseconds(150)); // else it counts as the same signal
            kill(launcher, SIGUSR1);
        });
    CHECK(outcome.status == 0);
    CHECK(has(outcome.err, "1 request ended unfinished: there was a second signal"));
    CHECK(has(client->receive("no such end"), "the server is stopping"));
    REQUIRE(two.size() == one.size());
    for (std::size_t i = 0; i < one.size(); ++i)
        CHECK(two[i] == Approx(one[i]).epsilon(1e-5));
}

TEST_CASE("serve refuses what would be open to others, and an address in use")
{
    const Folder folder;
    write_text(folder / "run.toml", config);
    make_store(folder, 200);
    Outcome outcome = run_program({"serve", "run.toml", "--host", "0.0.0.0"}, folder.path());
    CHECK(outcome.status == 2);
    CHECK(has(outcome.err, "--token-file: is missing"));
    write_text(folder / "token", "short\n");
    outcome = run_program({"serve", "run.toml", "--token-file", "token"}, folder.path());
    CHECK(outcome.status == 2);
    CHECK(has(outcome.err, "does not contain a token"));
    const Listener listener;
    outcome = run_program({"serve", "run.toml", "--port", std::to_string(listener.port())}, folder.path());
    CHECK(outcome.status == 2);
    CHECK(has(outcome.err, "the address is in use"));
    outcome = run_program({"serve", "run.toml", "--port", "0"}, folder.path());
    CHECK(outcome.status == 2);
    CHECK(has(outcome.err, "contains no checkpoint"));
}

TEST_CASE("serve --follow loads a newer checkpoint")
{
    const Folder folder;
    make_run(folder);
    const int port = free_port();
    std::string before, after;
    const Outcome outcome = run_and_signal(
        {"serve", "run.toml", "--follow", "--port", std::to_string(port)}, folder.path(), "serving ", SIGTERM,
        [&] {
            before = content_of(answer(port, get("/health"), "}"));
            const Folder aside; // run_program() writes its output into the folder
            run_program({"train", folder / "run.toml", "train.steps=6", "data.train=" + (folder / "train.h5"),
                         "checkpoint.dir=" + (folder / "checkpoints"), "log.dir=" + (folder / "logs")},
                        aside.path());
            for (int i = 0; i < 200 && !has(after, "\"step\":6"); ++i) {
                std::this_thread::sleep_for(std::chrono::milliseconds(50));
                after = content_of(answer(port, get("/health"), "}"));
            }
        });
    CHECK(outcome.status == 0);
    CHECK(has(before, "\"step\":4"));
    CHECK(has(after, "\"step\":6"));
}
