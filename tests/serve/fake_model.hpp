#pragma once
// A server's parts around a model whose numbers are formulas, in tokens that are bytes.
#include "serve/api.hpp"
#include "serve/model_loop.hpp"

#include <atomic>
#include <cmath>
#include <thread>

namespace trivium::fake {

/// Token `j` of 258 after a sequence whose ids have the sum `sum`: all logprobs differ.
inline double logprob(i64 sum, i64 j) { return -1 - static_cast<double>((j * 7 + sum) % 258) / 64; }

inline TokenScore score(const std::vector<i32>& before, i32 token, i64 top)
{
    TokenScore score{token, std::nan(""), {}};
    if (before.empty())
        return score;
    i64 sum = 0;
    for (const i32 id : before)
        sum += id;
    score.logprob = logprob(sum, token);
    for (i32 j = 0; j < 258; ++j)
        score.top.emplace_back(j, logprob(sum, j));
    std::sort(score.top.begin(), score.top.end(), [](auto& a, auto& b) { return a.second > b.second; });
    score.top.resize(static_cast<std::size_t>(std::max<i64>(top, 0)));
    return score;
}

/// The most probable of the tokens "a" to "z".
inline i32 best(const std::vector<i32>& before)
{
    i64 sum = 0;
    for (const i32 id : before)
        sum += id;
    i32 best = 'a';
    for (i32 j = 'a'; j <= 'z'; ++j)
        if (logprob(sum, j) > logprob(sum, best))
            best = j;
    return best;
}

/// Completes by best(); cancelled by `on_token`. No stop strings.
inline TextResult complete(const TextRequest& request, std::size_t index, const OnToken& on_token)
{
    TextResult result;
    std::vector<i32> ids;
    for (std::size_t i = 0; i < request.prompt.size(); ++i) {
        if (request.scored_from >= 0 && static_cast<i64>(i) >= request.scored_from)
            result.prompt.push_back(score(ids, request.prompt[i], request.top));
        ids.push_back(request.prompt[i]);
    }
    result.finish = "length";
    for (i64 i = 0; i < request.tokens; ++i) {
        const TokenScore next = score(ids, best(ids), request.top);
        ids.push_back(next.token);
        result.sampled.push_back(next);
        const std::string text(1, static_cast<char>(next.token));
        result.text += text;
        if (on_token && !on_token(index, next, text)) {
            result.finish = "cancelled";
            break;
        }
    }
    return result;
}

inline ServedModel served()
{
    ServedModel model;
    model.id = "runs/step-7";
    model.step = 7;
    model.capacity = 64;
    model.vocab = 258;
    model.tokenizer = make_tokenizer("bytes");
    model.texts = std::make_shared<const TokenTexts>(
        *model.tokenizer, std::map<std::string, i32>{{"<s>", 256}, {"</s>", 257}}, -1);
    model.tokenizer_info = {{"eos_token", "</s>"}, {"bos_token", "<s>"}};
    model.chat_ends = {10};
    model.chat = ChatTemplate("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}a:", "test");
    return model;
}

/// The parts of a server, with the model in a thread of its own.
struct Parts {
    TextQueue queue;
    Api api;
    std::atomic<bool> stops = false, waits = false; ///< waits: batches do not begin
    std::vector<std::size_t> batches;               ///< numbers of requests; read it after end()
    std::thread thread;

    explicit Parts(std::size_t limit = 100, const std::string& token = "", std::size_t rows = 4)
        : queue(limit), api(queue, token)
    {
        api.serve(std::make_shared<const ServedModel>(served()));
        const auto complete_all = [this](const std::vector<TextRequest>& requests, const OnToken& on_token) {
            while (waits)
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
            batches.push_back(requests.size());
            std::vector<TextResult> results;
            for (std::size_t i = 0; i < requests.size(); ++i)
                results.push_back(complete(requests[i], i, on_token));
            return results;
        };
        thread = std::thread([this, complete_all, rows] {
            run_jobs(queue, {complete_all, [](const TextRequest&) { return std::string(); }, rows},
                     [this] { return stops.load(); });
        });
    }
    void end()
    {
        waits = false;
        stops = true;
        if (thread.joinable())
            thread.join();
        queue.close();
    }
    ~Parts() { end(); }

    HttpReply send(const std::string& method, const std::string& path, const std::string& body = "",
                   const std::string& authorization = "")
    {
        const HttpRequest request{method, path, authorization, body};
        std::optional<HttpReply> refused = api.refuse(request);
        return refused ? *refused : api.answer(request);
    }
    /// Answer to a POST, which must have this status.
    nlohmann::json post(const std::string& path, const nlohmann::json& body, int status = 200)
    {
        const HttpReply reply = send("POST", path, body.dump());
        if (reply.status != status)
            throw std::runtime_error("status " + std::to_string(reply.status) + ": " + reply.body);
        return nlohmann::json::parse(reply.body);
    }
    /// The message of an error.
    std::string refused(const nlohmann::json& body, int status = 400,
                        const std::string& path = "/v1/completions")
    {
        return post(path, body, status)["error"]["message"].get<std::string>();
    }
};

} // namespace trivium::fake
