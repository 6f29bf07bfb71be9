// Requests on the rows of a generator, whose "model" is a function of the tokens that were written to a row.
#include "catch.hpp"
#include "io/tokens/tokenizer.hpp"
#include "train/text_rows.hpp"

#include <cmath>

using namespace trivium;

namespace {

constexpr i64 vocab = 262, sampled = 258; // of the tokenizer "bytes"

/// The logits after these tokens.
std::vector<double> logits_after(std::span<const i32> tokens)
{
    std::uint64_t key = 7;
    for (const i32 token : tokens)
        key = key * 1000003 + static_cast<std::uint64_t>(token) + 1;
    const RandomStream stream(key, "model");
    std::vector<double> logits;
    for (i64 i = 0; i < vocab; ++i)
        logits.push_back(2 * stream.normal_at(static_cast<std::uint64_t>(i)));
    return logits;
}

/// A generator that keeps what is written to its rows.
class Cache {
public:
    Cache(i64 rows, i64 chunk) : chunk_(chunk), rows_(static_cast<std::size_t>(rows)) {}
    i64 calls = 0;

    std::vector<RowLogits> operator()(const GeneratorCall& call, const std::vector<WantedLogits>& wanted)
    {
        ++calls;
        const i64 queries = call.program == decode_program ? 1 : chunk_;
        std::vector<RowLogits> logits(rows_.size());
        for (std::size_t r = 0; r < rows_.size(); ++r) {
            std::vector<i32>& row = rows_[r];
            const auto start = static_cast<std::size_t>(call.start[r]);
            REQUIRE(row.size() >= start);
            row.resize(start); // what follows was padding
            const auto first = call.tokens.begin() + static_cast<std::ptrdiff_t>(r) * queries;
            row.insert(row.end(), first, first + queries);
            REQUIRE(call.given[r] <= queries);
            const auto after = [&](i64 token) {
                REQUIRE(token < call.given[r]);
                return logits_after(std::span(row).first(start + static_cast<std::size_t>(token) + 1));
            };
            REQUIRE((wanted[r].targets.empty() || call.program == score_program));
            for (std::size_t i = 0; i < wanted[r].targets.size(); ++i)
                logits[r].scores.push_back(score_of(after(wanted[r].first + static_cast<i64>(i)),
                                                    wanted[r].targets[i], wanted[r].top));
            if (wanted[r].last)
                logits[r].last = after(call.given[r] - 1);
        }
        return logits;
    }

private:
    i64 chunk_;
    std::vector<std::vector<i32>> rows_;
};

/// A request, token by token.
TextResult want(const TextRequest& request, const Tokenizer& tokenizer)
{
    TextResult result;
    std::vector<i32> sequence = request.prompt;
    for (std::size_t i = 0; i < sequence.size(); ++i)
        if (request.scored_from >= 0 && static_cast<i64>(i) >= request.scored_from)
            result.prompt.push_back(
                i == 0 ? TokenScore{sequence[0], NAN, {}}
                       : score_of(logits_after(std::span(sequence).first(i)), sequence[i], request.top));
    Sampler sampler(request.sampler);
    for (const i32 token : sequence)
        sampler.saw(token);
    result.finish = "length";
    std::vector<i32> made;
    while (static_cast<i64>(made.size()) < request.tokens && result.finish == "length") {
        const std::vector<double> logits = logits_after(sequence);
        const i32 token = sampler.pick(logits, sampled);
        made.push_back(token);
        sequence.push_back(token);
        result.sampled.push_back(request.top >= 0 ? score_of(logits, token, request.top)
                                                  : TokenScore{token, 0, {}});
        result.text = tokenizer.decode(made);
        std::size_t end = std::string::npos;
        for (const std::string& stop : request.stop)
            end = std::min(end, result.text.find(stop));
        if (end != std::string::npos || (token == tokenizer.eos() && !request.ignores_eos) ||
            std::ranges::find(request.ends, token) != request.ends.end())
            result.finish = "stop";
        result.text = result.text.substr(0, end);
    }
    return result;
}

void require_same(const TextResult& got, const TextResult& want)
{
    const auto same = [](const std::vector<TokenScore>& a, const std::vector<TokenScore>& b) {
        REQUIRE(a.size() == b.size());
        for (std::size_t i = 0; i < a.size(); ++i) {
            INFO("token " << i);
            CHECK(a[i].token == b[i].token);
            CHECK((a[i].logprob == b[i].logprob || (std::isnan(a[i].logprob) && std::isnan(b[i].logprob))));
            CHECK(a[i].top == b[i].top);
        }
    };
    same(got.prompt, want.prompt);
    same(got.sampled, want.sampled);
    CHECK(got.text == want.text);
    CHECK(got.finish == want.finish);
}

std::vector<TextRequest> drawn_requests(i64 count, std::uint64_t seed)
{
    const RandomStream stream(seed, "requests");
    std::vector<TextRequest> requests;
    std::uint64_t at = 0;
    const auto below = [&](i64 n) {
        return static_cast<i64>(stream.uniform_at(at++) * static_cast<double>(n));
    };
    for (i64 i = 0; i < count; ++i) {
        TextRequest r;
        for (i64 n = 1 + below(12); n > 0; --n)
            r.prompt.push_back(static_cast<i32>(below(sampled)));
        r.tokens = below(3) == 0 ? 0 : below(15);
        r.sampler = {.temperature = static_cast<double>(below(2)),
                     .top_p = 1,
                     .repetition_penalty = below(2) == 0 ? 1 : 1.3,
                     .seed = seed,
                     .sample = i};
        r.top = below(4) - 1;
        r.scored_from = below(2) == 0 ? -1 : below(static_cast<i64>(r.prompt.size()) + 1);
        r.ignores_eos = below(2) == 0;
        if (below(2) == 0)
            r.ends.push_back(static_cast<i32>(below(sampled)));
        if (below(2) == 0)
            r.stop = {std::string(1, static_cast<char>('a' + below(26))), "xy"};
        requests.push_back(r);
    }
    return requests;
}

} // namespace

TEST_CASE("requests on rows have the results of each alone, token by token")
{
    const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer("bytes");
    for (const auto& [rows, chunk] : std::vector<std::pair<i64, i64>>{{1, 1}, {1, 4}, {3, 5}, {4, 64}}) {
        const std::vector<TextRequest> requests =
            drawn_requests(20, static_cast<std::uint64_t>(rows + chunk));
        Cache cache(rows, chunk);
        std::vector<std::string> texts(requests.size());
        const std::vector<TextResult> got = complete_all(
            requests, [&](std::size_t i, const TokenScore&, std::string_view text) { texts[i] += text; },
            [&, rows = rows, chunk = chunk](const TextFlow& flow) {
                complete_on_rows({rows, chunk, sampled}, *tokenizer, flow, std::ref(cache));
            });
        REQUIRE(got.size() == requests.size());
        for (std::size_t i = 0; i < requests.size(); ++i) {
            INFO(rows << " rows, chunks of " << chunk << ", request " << i);
            require_same(got[i], want(requests[i], *tokenizer));
            CHECK(texts[i] == got[i].text);
        }
    }
}

TEST_CASE("rows compute together, and a request may be cancelled")
{
    const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer("bytes");
    std::vector<TextRequest> requests(6);
    for (TextRequest& r : requests) {
        r.prompt = {1, 2, 3, 4, 5};
        r.tokens = 9;
        r.ignores_eos = true;
    }
    Cache cache(6, 5);
    std::size_t tokens_of_2 = 0;
    const auto on_token = [&](std::size_t id, const TokenScore&, std::string_view) {
        tokens_of_2 += id == 2 ? 1 : 0;
    };
    const auto completed = [&](const std::function<bool(std::size_t)>& wants) {
        return complete_all(requests, on_token, [&](TextFlow flow) {
            flow.wants = wants;
            complete_on_rows({6, 5, sampled}, *tokenizer, flow, std::ref(cache));
        });
    };
    completed({});
    CHECK(cache.calls == 9); // one for the prompts, which gives the first tokens
    tokens_of_2 = 0;
    const std::vector<TextResult> got = completed([&](std::size_t id) { return id != 2 || tokens_of_2 < 4; });
    CHECK(got[2].finish == "cancelled");
    CHECK(got[2].sampled.size() == 4);
    CHECK(got[2].text ==
          tokenizer->decode(std::vector<i32>{got[2].sampled[0].token, got[2].sampled[1].token,
                                             got[2].sampled[2].token, got[2].sampled[3].token}));
    CHECK(got[3].finish == "length");
    requests.clear();
    CHECK(completed({}).empty());
}

TEST_CASE(
    "a request joins those that run at the next call, and neither prompts nor samples wait for the other")
{
    const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer("bytes");
    TextRequest sample{.prompt = {1}, .tokens = 40, .ignores_eos = true}, prompt, scored;
    prompt.prompt.assign(100, 2); // 20 calls
    prompt.tokens = 1;
    scored = prompt;
    scored.scored_from = 0;
    const std::vector<const TextRequest*> requests{&sample, &prompt, &scored};
    Cache cache(3, 5);
    std::size_t next = 0, samples = 0;
    std::vector<std::size_t> ended;
    std::vector<TextResult> results(3);
    TextFlow flow;
    flow.next = [&]() -> std::optional<TextFlow::Item> { // the others come after five tokens
        if (next == 3 || (next == 1 && samples < 5))
            return {};
        const std::size_t id = next++;
        return TextFlow::Item{id, requests[id]};
    };
    flow.on_token = [&](std::size_t id, const TokenScore&, std::string_view) { samples += id == 0 ? 1 : 0; };
    flow.done = [&](std::size_t id, TextResult result) {
        if (id == 0)
            CHECK(ended.size() == 2); // of 60 calls, each kind had a third
        ended.push_back(id);
        results[id] = std::move(result);
    };
    complete_on_rows({3, 5, sampled}, *tokenizer, flow, std::ref(cache));
    CHECK(ended.size() == 3);
    CHECK(cache.calls == 40 + 20 + 20);
    for (std::size_t i = 0; i < 3; ++i)
        require_same(results[i], want(*requests[i], *tokenizer));
}
