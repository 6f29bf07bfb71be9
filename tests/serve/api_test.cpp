// Endpoints without a network.
#include "catch.hpp"
#include "fake_model.hpp"
#include "has.hpp"

using namespace trivium;
using nlohmann::json;

namespace {

std::vector<i32> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

/// Events of a stream, without the last, which must be [DONE].
std::vector<json> events_of(const HttpReply& reply)
{
    REQUIRE(reply.stream);
    std::string all;
    reply.stream([&](std::string_view text) {
        all += text;
        return true;
    });
    std::vector<json> events;
    std::size_t at = 0;
    for (std::size_t end; (end = all.find("\n\n", at)) != std::string::npos; at = end + 2) {
        REQUIRE(all.substr(at, 6) == "data: ");
        const std::string data = all.substr(at + 6, end - at - 6);
        if (data != "[DONE]")
            events.push_back(json::parse(data));
        else
            CHECK(end + 2 == all.size());
    }
    CHECK(all.ends_with("data: [DONE]\n\n"));
    return events;
}

} // namespace

TEST_CASE("a completion has OpenAI's form")
{
    fake::Parts parts;
    const json answer =
        parts.post("/v1/completions", {{"model", "any"}, {"prompt", "ab"}, {"max_tokens", 3}});
    CHECK(answer["object"] == "text_completion");
    CHECK(answer["id"].get<std::string>().starts_with("cmpl-"));
    CHECK(answer["created"].get<i64>() > 1'700'000'000);
    CHECK(answer["model"] == "runs/step-7");
    REQUIRE(answer["choices"].size() == 1);
    const json& choice = answer["choices"][0];
    const std::string expected = fake::complete({bytes_of("ab"), 3}).text;
    CHECK(choice ==
          json{{"index", 0}, {"text", expected}, {"logprobs", nullptr}, {"finish_reason", "length"}});
    CHECK(answer["usage"] == json{{"prompt_tokens", 2}, {"completion_tokens", 3}, {"total_tokens", 5}});
    CHECK(parts.post("/v1/completions", {{"prompt", "ab"}})["usage"]["completion_tokens"] ==
          16); // OpenAI's default
}

TEST_CASE("echo has the logprobs of prompt and completion, as a harness reads them")
{
    fake::Parts parts;
    const std::vector<std::vector<i32>> prompts{{'x', 200, 257, 'y'}, {'q', fake::best({'q'})}};
    const json answer = parts.post("/v1/completions", {{"prompt", prompts},
                                                       {"max_tokens", 1},
                                                       {"temperature", 0},
                                                       {"logprobs", 1},
                                                       {"echo", true},
                                                       {"seed", 1234}});
    REQUIRE(answer["choices"].size() == 2);
    for (std::size_t i = 0; i < prompts.size(); ++i) {
        const json& choice = answer["choices"][i];
        const json& lists = choice["logprobs"];
        CHECK(choice["index"] == i);
        std::vector<i32> ids = prompts[i];
        ids.push_back(fake::best(ids));
        for (const char* name : {"tokens", "token_logprobs", "top_logprobs", "text_offset"})
            CHECK(lists[name].size() == ids.size());
        CHECK(lists["token_logprobs"][0].is_null());
        CHECK(lists["top_logprobs"][0].is_null());
        for (std::size_t t = 1; t < ids.size(); ++t) {
            const TokenScore expected =
                fake::score({ids.begin(), ids.begin() + static_cast<i64>(t)}, ids[t], 1);
            CHECK(lists["token_logprobs"][t].get<double>() == expected.logprob);
            double best = -1e9;
            for (const json& value : lists["top_logprobs"][t])
                best = std::max(best, value.get<double>());
            CHECK((lists["token_logprobs"][t].get<double>() == best) == (expected.top[0].first == ids[t]));
        }
    }
    const json& lists = answer["choices"][0]["logprobs"];
    CHECK(lists["tokens"][1] == "bytes:\\xc8");
    CHECK(lists["tokens"][2] == "</s>");
    CHECK(lists["text_offset"] == json({0, 1, 2, 2, 3}));
    // As JSON has no single bytes, the text has a replacement character there.
    CHECK(answer["choices"][0]["text"].get<std::string>().starts_with("x\xef\xbf\xbdy"));
}

TEST_CASE("a prompt alone can be scored, and completions without their prompt")
{
    fake::Parts parts;
    json answer = parts.post("/v1/completions",
                             {{"prompt", "abc"}, {"max_tokens", 0}, {"logprobs", 2}, {"echo", true}});
    CHECK(answer["choices"][0]["text"] == "abc");
    CHECK(answer["choices"][0]["logprobs"]["tokens"] == json({"a", "b", "c"}));
    CHECK(answer["choices"][0]["logprobs"]["top_logprobs"][1].size() == 3); // two alternatives and "b"
    answer = parts.post("/v1/completions", {{"prompt", "abc"}, {"max_tokens", 2}, {"logprobs", 0}});
    const json& lists = answer["choices"][0]["logprobs"];
    CHECK(lists["tokens"].size() == 2);
    CHECK(lists["top_logprobs"][0].size() == 1);
    CHECK(lists["text_offset"] == json({0, 1}));
}

TEST_CASE("prompts have four forms, and n completions each")
{
    fake::Parts parts;
    const auto completed = [&](const json& prompt, i64 n) {
        json texts = json::array();
        const json answer = parts.post("/v1/completions", {{"prompt", prompt}, {"max_tokens", 1}, {"n", n}});
        for (const json& choice : answer["choices"])
            texts.push_back(choice["text"]);
        return texts;
    };
    const std::string a(1, static_cast<char>(fake::best({'a'}))), b(1, static_cast<char>(fake::best({'b'})));
    CHECK(completed("a", 1) == json({a}));
    CHECK(completed({"a", "b"}, 1) == json({a, b}));
    CHECK(completed({97}, 2) == json({a, a}));
    CHECK(completed(json({{97}, {98}}), 2) == json({a, a, b, b}));
    // What spells a special token is one; an empty text begins as a document does.
    const auto tokens = [&](const char* prompt) {
        return parts.post("/v1/completions",
                          {{"prompt", prompt}, {"max_tokens", 0}})["usage"]["prompt_tokens"];
    };
    CHECK(tokens("a</s>b") == 3);
    CHECK(tokens("") == 1);
}

TEST_CASE("a stream has the same text in parts")
{
    fake::Parts parts;
    const json body{{"prompt", "st"}, {"max_tokens", 4}, {"logprobs", 1}};
    const json whole = parts.post("/v1/completions", body);
    json streamed = body;
    streamed.update({{"stream", true}, {"stream_options", {{"include_usage", true}}}});
    const HttpReply reply = parts.send("POST", "/v1/completions", streamed.dump());
    CHECK(reply.type == "text/event-stream");
    const std::vector<json> events = events_of(reply);
    REQUIRE(events.size() == 6); // tokens, end, usage
    std::string text;
    json lists{{"tokens", json::array()}, {"token_logprobs", json::array()}, {"text_offset", json::array()}};
    for (std::size_t i = 0; i < 4; ++i) {
        const json& choice = events[i]["choices"][0];
        text += choice["text"].get<std::string>();
        CHECK(choice["finish_reason"].is_null());
        for (auto& [name, list] : lists.items())
            list.push_back(choice["logprobs"][name][0]);
    }
    CHECK(text == whole["choices"][0]["text"]);
    for (auto& [name, list] : lists.items())
        CHECK(list == whole["choices"][0]["logprobs"][name]);
    CHECK(events[4]["choices"][0]["finish_reason"] == "length");
    CHECK(events[5]["choices"].empty());
    CHECK(events[5]["usage"] == whole["usage"]);
    // With echo, the prompt comes first.
    const std::vector<json> echoed = events_of(
        parts.send("POST", "/v1/completions", R"({"prompt":"st","max_tokens":1,"stream":true,"echo":true})"));
    CHECK(echoed.at(0)["choices"][0]["text"] == "st");
}

TEST_CASE("a client that leaves a stream ends the work for it")
{
    fake::Parts parts;
    const auto job = std::make_shared<TextJob>(std::vector<TextRequest>(1), true);
    CHECK(job->is_wanted());
    job->leave();
    CHECK(!job->is_wanted());
    int sent = 0;
    const HttpReply reply =
        parts.send("POST", "/v1/completions", R"({"prompt":"a","max_tokens":60,"stream":true})");
    reply.stream([&](std::string_view) { return ++sent < 3; });
    CHECK(sent == 3);
}

TEST_CASE("chats are rendered with the model's template")
{
    fake::Parts parts;
    const json body{{"messages", json::array({{{"role", "user"}, {"content", "Hi"}}})},
                    {"max_completion_tokens", 3},
                    {"logprobs", true},
                    {"top_logprobs", 2}};
    const json answer = parts.post("/v1/chat/completions", body);
    const std::string rendered = "user: Hi\na:", text = fake::complete({bytes_of(rendered), 3}).text;
    CHECK(answer["object"] == "chat.completion");
    CHECK(answer["choices"][0]["message"] == json{{"role", "assistant"}, {"content", text}});
    CHECK(answer["usage"]["prompt_tokens"] == rendered.size());
    const json& first = answer["choices"][0]["logprobs"]["content"][0];
    CHECK(first["token"] == text.substr(0, 1));
    CHECK(first["bytes"] == json({text[0]}));
    CHECK(first["top_logprobs"].size() == 2);
    CHECK(parts.post("/tokenize", {{"messages", body["messages"]}})["count"] == rendered.size());

    json streamed = body;
    streamed["stream"] = true;
    const std::vector<json> events = events_of(parts.send("POST", "/v1/chat/completions", streamed.dump()));
    CHECK(events.at(0)["object"] == "chat.completion.chunk");
    CHECK(events.at(0)["choices"][0]["delta"]["role"] == "assistant");
    std::string joined;
    for (const json& event : events)
        joined += event["choices"][0]["delta"].value("content", "");
    CHECK(joined == text);
    CHECK(events.back()["choices"][0]["finish_reason"] == "length");

    const std::string chats = "/v1/chat/completions";
    CHECK(has(parts.refused({{"messages", json::array()}}, 400, chats), "messages must be a list"));
    CHECK(has(parts.refused({{"messages", {{{"content", "x"}}}}}, 400, chats), "which has no role"));
    CHECK(has(
        parts.refused({{"messages", {{{"role", "user"}, {"content", std::string(80, 'x')}}}}}, 400, chats),
        "tokens, but the context has 64"));
}

TEST_CASE("chats end with the template's end of a turn, too")
{
    const ServedModel model = fake::served();
    const json chat{{"messages", {{{"role", "user"}, {"content", "x"}}}}};
    CHECK(parse_chat(chat, model, 0).common.ends == std::vector<i32>{10});
    CHECK(parse_completion({{"prompt", "x"}}, model, 0).common.ends.empty());
    json on = chat;
    on["ignore_eos"] = true;
    CHECK(parse_chat(on, model, 0).common.ends.empty());
}

TEST_CASE("chats with wrong or unsupported fields are refused by name")
{
    fake::Parts parts;
    const json messages = json::array({{{"role", "user"}, {"content", "Hi"}}});
    for (const auto& [name, value] :
         std::vector<std::pair<std::string, json>>{{"tools", "x"},
                                                   {"tools", {3}},
                                                   {"tool_choice", "required"},
                                                   {"tool_choice", {{"type", "function"}}},
                                                   {"chat_template_kwargs", 3},
                                                   {"chat_template_kwargs", {{"messages", json::array()}}},
                                                   {"continue_final_message", true},
                                                   {"top_logprobs", 2},
                                                   {"documents", "x"},
                                                   {"messages", {{{"role", "user"}}}},
                                                   {"messages", {{{"role", "user"}, {"content", 3}}}}}) {
        json body{{"messages", messages}, {"max_tokens", 1}};
        body[name] = value;
        INFO(body.dump());
        const std::string problem = parts.refused(body, 400, "/v1/chat/completions");
        CHECK(has(problem, name == "tools" || name == "messages" ? "" : name));
        CHECK(!has(problem, "\n"));
        CHECK(!has(problem, "chat template refuses"));
    }
    parts.post("/v1/chat/completions", {{"messages", messages},
                                        {"max_tokens", 1},
                                        {"tools", json::array()},
                                        {"tool_choice", "auto"},
                                        {"continue_final_message", false},
                                        {"chat_template_kwargs", json::object()}});
}

TEST_CASE("requests that cannot be answered are refused with the reason")
{
    fake::Parts parts;
    CHECK(has(parts.refused({{"max_tokens", 1}}), "prompt is missing"));
    CHECK(has(parts.refused({{"prompt", json::array()}}), "prompt must be a string, a list of strings"));
    CHECK(has(parts.refused({{"prompt", {"a", {1}}}}), "prompt must be a string, a list of strings"));
    CHECK(has(parts.refused({{"prompt", {1, 258}}}), "prompt contains 258: token ids are from 0 to 257"));
    CHECK(has(parts.refused({{"prompt", {1, 2.5}}}), "prompt contains 2.5"));
    CHECK(has(parts.refused({{"prompt", {{1}, json::array()}}}), "empty list of token ids"));
    CHECK(has(parts.refused({{"prompt", "a"}, {"max_tokens", 64}}),
              "the prompt has 1 token and max_tokens is 64, but the context has 64 tokens"));
    CHECK(has(parts.refused({{"prompt", std::string(65, 'a')}}),
              "the prompt has 65 tokens, but the context has 64"));
    CHECK(has(parts.refused({{"prompt", "a"}, {"max_tokens", -1}}), "max_tokens must be an integer from 0"));
    CHECK(
        has(parts.refused({{"prompt", "a"}, {"temperature", "hot"}}), "temperature must be a number from 0"));
    CHECK(
        has(parts.refused({{"prompt", "a"}, {"top_p", 1.5}}), "top_p must be a number from 0 to 1, is 1.5"));
    CHECK(has(parts.refused({{"prompt", "a"}, {"logprobs", 1000}}),
              "logprobs must be an integer from 0 to 100"));
    CHECK(has(parts.refused({{"prompt", "a"}, {"echo", 1}}), "echo must be true or false, is 1"));
    CHECK(has(parts.refused({{"prompt", "a"}, {"stop", {"x", ""}}}), "stop contains an empty string"));
    CHECK(has(parts.refused({{"prompt", "a"}, {"stop", 3}}), "stop must be a string or a list of strings"));
    CHECK(has(parts.refused({{"prompt", "a"}, {"seed", 0.5}}), "seed must be an integer"));
    CHECK(
        has(parts.refused({{"prompt", "a"}, {"presence_penalty", 1}}), "presence_penalty is not supported"));
    CHECK(has(parts.refused({{"prompt", "a"}, {"logit_bias", {{"5", 1}}}}), "logit_bias is not supported"));
    CHECK(has(parts.refused({{"prompt", "a"}, {"n", 2000}}), "n must be an integer from 1 to 1024"));
    CHECK(has(parts.refused({{"prompt", {"a", "b"}}, {"n", 1000}}), "more than 1024 sequences"));
    CHECK(has(parts.refused(json::array()), "the body must be a JSON object"));
    CHECK(parts.post("/v1/completions", {{"prompt", "a"}, {"top_p", 2}}, 400)["error"]["param"] == "top_p");
    const HttpReply broken = parts.send("POST", "/v1/completions", "{\"prompt\": \"a\",}");
    CHECK(broken.status == 400);
    CHECK(has(broken.body, "is not valid JSON"));
    CHECK(parts.send("POST", "/v1/completions", R"({"prompt":"a","prompt":"b"})").status == 400);
    // Neutral values and unknown fields change nothing.
    parts.post("/v1/completions", {{"prompt", "a"},
                                   {"suffix", nullptr},
                                   {"presence_penalty", 0},
                                   {"frequency_penalty", 0.0},
                                   {"logit_bias", json::object()},
                                   {"best_of", 1},
                                   {"user", "me"},
                                   {"top_k", -1},
                                   {"seed", nullptr},
                                   {"max_tokens", 2.0}});
}

TEST_CASE("errors name what there is")
{
    fake::Parts parts(100, "secret-secret-secret");
    CHECK(parts.send("GET", "/health").status == 200); // without a token
    CHECK(parts.send("GET", "/v1/models").status == 401);
    CHECK(has(parts.send("GET", "/nothing").body, "a token is required"));
    for (const char* wrong :
         {"Bearer secret-secret-secreT", "Bearer ", "secret-secret-secret", "Bearer secret"})
        CHECK(parts.send("GET", "/v1/models", "", wrong).status == 401);
    const std::string right = "Bearer secret-secret-secret";
    const json models = json::parse(parts.send("GET", "/v1/models", "", right).body);
    CHECK(models["data"][0]["id"] == "runs/step-7");
    CHECK(models["data"][0]["max_model_len"] == 64);
    const HttpReply unknown = parts.send("GET", "/v1/engines", "", right);
    CHECK(unknown.status == 404);
    CHECK(has(unknown.body, "there is no endpoint \\\"/v1/engines\\\""));
    CHECK(has(unknown.body, "/v1/completions"));
    const HttpReply method = parts.send("GET", "/v1/completions", "", right);
    CHECK(method.status == 405);
    CHECK(has(method.body, "takes the method POST"));
    TextQueue queue(1);
    Api loading(queue, "");
    CHECK(loading.refuse({"GET", "/health", "", ""})->status == 503);
}

TEST_CASE("texts are tokenized and tokens are spelled as for a harness")
{
    fake::Parts parts;
    CHECK(parts.post("/tokenize", {{"prompt", "ab</s>"}, {"add_special_tokens", false}}) ==
          json{{"count", 3}, {"max_model_len", 64}, {"tokens", {97, 98, 257}}, {"token_strs", nullptr}});
    CHECK(parts.post("/tokenize", {{"prompt", "a<s>"}, {"return_token_strs", true}})["token_strs"] ==
          json({"a", "<s>"}));
    CHECK(parts.post("/detokenize", {{"tokens", {97, 257, 98}}}) == json{{"prompt", "a</s>b"}});
    CHECK(has(parts.refused({{"tokens", {300}}}, 400, "/detokenize"), "token ids are from 0 to 257"));
    CHECK(has(parts.refused({{"prompt", 3}}, 400, "/tokenize"), "prompt must be a string"));
    CHECK(json::parse(parts.send("GET", "/tokenizer_info").body)["eos_token"] == "</s>");
}

TEST_CASE("what waits is computed together, and too much is refused")
{
    fake::Parts parts(6);
    parts.rows.turns = 0;
    std::vector<std::thread> clients;
    std::vector<json> answers(6);
    const auto client = [&](std::size_t i) {
        answers[i] = parts.post("/v1/completions",
                                {{"prompt", std::string(1, static_cast<char>('a' + i))}, {"max_tokens", 2}});
    };
    for (std::size_t i = 0; i < 6; ++i)
        clients.emplace_back(client, i);
    while (parts.queue.size() < 6)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    CHECK(has(parts.refused({{"prompt", "a"}}, 429), "the server has 6 requests already"));
    parts.rows.turns = 100;
    for (std::thread& thread : clients)
        thread.join();
    for (std::size_t i = 0; i < 6; ++i)
        CHECK(answers[i]["choices"][0]["text"] ==
              fake::complete({{static_cast<i32>('a' + i)}, 2}).text); // its own, in whatever order
    CHECK(parts.rows.most == 4);
}

namespace {

/// A request in a thread of its own.
struct Asked {
    std::atomic<bool> is_answered = false;
    HttpReply reply;
    std::thread thread;

    Asked(fake::Parts& parts, const json& body, std::function<bool()> is_open = {})
    {
        const std::size_t before = parts.queue.size();
        thread = std::thread([this, &parts, body, is_open] {
            reply = parts.api.answer({"POST", "/v1/completions", "", body.dump(), is_open});
            is_answered = true;
        });
        while (parts.queue.size() == before && !is_answered)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const HttpReply& wait()
    {
        if (thread.joinable())
            thread.join();
        return reply;
    }
    ~Asked() { wait(); }
};

void let_turn(fake::Parts& parts, i64 turns)
{
    for (parts.rows.turns = turns; parts.rows.turns > 0;)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

} // namespace

TEST_CASE(
    "a short request that comes during a long one, or during one of many sequences, does not wait for it")
{
    for (const json& big :
         {json{{"prompt", "a"}, {"max_tokens", 60}}, json{{"prompt", "a"}, {"max_tokens", 10}, {"n", 30}}}) {
        fake::Parts parts;
        parts.rows.turns = 0;
        Asked large(parts, big);
        let_turn(parts, 3);
        Asked small(parts, {{"prompt", "b"}, {"max_tokens", 2}});
        let_turn(parts, 20);
        CHECK(json::parse(small.wait().body)["choices"][0]["text"] == fake::complete({{'b'}, 2}).text);
        CHECK(!large.is_answered);
        parts.rows.turns = 1000;
        const json answer = json::parse(large.wait().body);
        for (const json& choice : answer["choices"])
            CHECK(choice["text"] == fake::complete({{'a'}, big["max_tokens"]}).text);
    }
}

TEST_CASE("a client that goes ends its request, whether it runs or waits")
{
    fake::Parts parts;
    parts.rows.turns = 0;
    std::atomic<bool> is_open = true;
    const json body{{"prompt", "a"}, {"max_tokens", 60}, {"n", 5}}; // one waits
    Asked gone(parts, body, [&] { return is_open.load(); }), stays(parts, body, [] { return true; });
    let_turn(parts, 2);
    is_open = false;
    gone.wait();
    let_turn(parts, 2);
    CHECK(parts.queue.size() == 1);
    CHECK(!stays.is_answered);
    parts.rows.turns = 1000;
    CHECK(stays.wait().status == 200);
}

TEST_CASE("a stop refuses what waits, lets run what has begun, and ends that when it must")
{
    for (const bool is_patient : {true, false}) {
        fake::Parts parts;
        parts.rows.turns = 0;
        Asked runs(parts, {{"prompt", "a"}, {"max_tokens", 8}, {"n", 6}}); // two wait
        let_turn(parts, 2);
        Asked waits(parts, {{"prompt", "b"}, {"max_tokens", 2}});
        parts.queue.close();
        CHECK(waits.wait().status == 503);
        CHECK(parts.refused({{"prompt", "b"}}, 503) == "the server is stopping");
        CHECK(parts.queue.size() == 1);
        parts.end(is_patient ? JobsToRun::begun : JobsToRun::none);
        CHECK(runs.wait().status == (is_patient ? 200 : 503));
        CHECK(parts.queue.size() == 0);
    }
}

TEST_CASE("a failure of the model is told to those who wait")
{
    TextQueue queue(10);
    const auto failing = std::make_shared<TextJob>(std::vector<TextRequest>(1));
    const auto refused = std::make_shared<TextJob>(std::vector<TextRequest>(2));
    queue.submit(refused);
    queue.submit(failing);
    const ModelCalls model{[](const TextFlow& flow) {
                               flow.next();
                               throw std::runtime_error("broken");
                           },
                           [&](const TextRequest& request) {
                               return &request == &refused->requests()[1] ? std::string("is wrong") : "";
                           }};
    CHECK_THROWS_WITH(run_jobs(queue, model, [] { return JobsToRun::all; }), "broken");
    CHECK_THROWS_WITH(refused->results(), "the request is wrong");
    CHECK_THROWS_WITH(failing->results(), "the model failed; the server's log has the reason");
    CHECK(queue.size() == 0);
    queue.close();
    CHECK_THROWS_AS(queue.submit(failing), ApiError);
}
