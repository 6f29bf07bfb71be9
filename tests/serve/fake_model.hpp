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

/// Completes by best(). No stop strings.
inline TextResult complete(const TextRequest& request)
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
        result.text += static_cast<char>(next.token);
    }
    return result;
}

/// Rows that each make a token per turn.
struct Rows {
    std::size_t count = 4;
    std::atomic<i64> turns = i64{1} << 40; ///< that are left; at 0 it waits for more
    std::atomic<std::size_t> most = 0;     ///< rows at work in one turn

    void run(const TextFlow& flow)
    {
        struct Row {
            TextFlow::Item item;
            TextResult whole;
            std::size_t sent = 0;
        };
        std::vector<Row> rows;
        while (true) {
            for (; turns <= 0; std::this_thread::sleep_for(std::chrono::milliseconds(1)))
                ;
            --turns;
            std::erase_if(rows, [&](Row& row) {
                if (row.sent < row.whole.sampled.size() && !flow.wants(row.item.id))
                    row.whole.finish = "cancelled";
                else if (row.sent < row.whole.sampled.size())
                    return false;
                flow.done(row.item.id, std::move(row.whole));
                return true;
            });
            while (rows.size() < count) {
                const std::optional<TextFlow::Item> item = flow.next();
                if (!item)
                    break;
                rows.push_back({*item, complete(*item->request)});
            }
            if (rows.empty())
                return;
            most = std::max(most.load(), rows.size());
            for (Row& row : rows)
                if (row.sent < row.whole.sampled.size()) {
                    flow.on_token(row.item.id, row.whole.sampled[row.sent],
                                  row.whole.text.substr(row.sent, 1));
                    ++row.sent;
                }
        }
    }
};

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
    Rows rows;
    std::atomic<JobsToRun> which = JobsToRun::all;
    std::thread thread;

    explicit Parts(std::size_t limit = 100, const std::string& token = "") : queue(limit), api(queue, token)
    {
        api.serve(std::make_shared<const ServedModel>(served()));
        thread = std::thread([this] {
            run_jobs(queue,
                     {[this](const TextFlow& flow) { rows.run(flow); },
                      [](const TextRequest&) { return std::string(); }},
                     [this] { return which.load(); });
        });
    }
    void end(JobsToRun still = JobsToRun::begun)
    {
        which = still;
        rows.turns = i64{1} << 40;
        if (thread.joinable())
            thread.join();
        queue.close();
    }
    ~Parts() { end(); }

    HttpReply send(const std::string& method, const std::string& path, const std::string& body = "",
                   const std::string& authorization = "")
    {
        const HttpRequest request{method, path, authorization, body, {}};
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
