// The sampler, the scores of tokens and the text of samples against simple computations.
#include "catch.hpp"
#include "train/sampler.hpp"
#include "train/token_score.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>

using namespace trivium;

namespace {

using Logits = std::vector<double>;

Logits random_logits(std::size_t count, std::uint64_t seed)
{
    const RandomStream stream(seed, "logits");
    Logits logits;
    for (std::size_t i = 0; i < count; ++i)
        logits.push_back(3 * stream.normal_at(i));
    return logits;
}

/// Probabilities of the tokens after penalty, temperature and truncations, by their definitions: what
/// top-k keeps, of that the smallest set that reaches top-p, of that what min-p keeps.
Logits probabilities(Logits logits, const SamplerConfig& c, const std::vector<std::int32_t>& seen)
{
    const std::size_t count = logits.size();
    for (const std::int32_t token : std::vector<std::int32_t>(seen)) {
        double& logit = logits[static_cast<std::size_t>(token)];
        logit = logit > 0 ? logit / c.repetition_penalty : logit * c.repetition_penalty;
    }
    std::vector<std::size_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return logits[a] > logits[b]; });
    Logits p(count);
    if (c.temperature == 0) {
        p[order[0]] = 1;
        return p;
    }
    std::size_t kept = c.top_k > 0 ? std::min(count, static_cast<std::size_t>(c.top_k)) : count;
    double sum = 0;
    for (std::size_t i = 0; i < kept; ++i)
        sum += std::exp(logits[order[i]] / c.temperature);
    double reached = 0;
    for (std::size_t i = 0; i < kept; ++i) {
        const double own = std::exp(logits[order[i]] / c.temperature) / sum;
        if (i > 0 &&
            (reached >= c.top_p || std::exp((logits[order[i]] - logits[order[0]]) / c.temperature) < c.min_p))
            break;
        reached += own;
        p[order[i]] = own;
    }
    for (double& x : p)
        x /= reached;
    return p;
}

class LetterTokenizer final : public Tokenizer { // one id per byte
public:
    i64 vocab_size() const override { return 256; }
    void encode_part(std::string_view text, bool, std::vector<i32>& ids) const override
    {
        for (const char c : text)
            ids.push_back(static_cast<unsigned char>(c));
    }
    void encode_chat(std::string_view text, std::span<const TextSpan>, std::vector<i32>& ids,
                     std::vector<bool>& inside) const override
    {
        encode_part(text, true, ids);
        inside.resize(ids.size());
    }
    std::string special_text(i32) const override { return {}; }
    std::size_t cut(std::string_view, std::size_t from) const override { return from; }
    std::string decode(std::span<const i32> ids) const override { return {ids.begin(), ids.end()}; }
    i32 bos() const override { return 0; }
    i32 eos() const override { return 0; }
    std::string name() const override { return "letters"; }
    std::string fingerprint() const override { return "letters"; }
    const std::string& model() const override { return model_; }

private:
    std::string model_;
};

/// What is shown of a text whose tokens arrive one by one, and the whole.
struct Shown {
    std::vector<std::string> pieces;
    std::string text;
    bool stopped = false;
};
Shown shown(const std::string& bytes, const std::vector<std::string>& stop)
{
    const LetterTokenizer tokenizer;
    SampleText text(tokenizer, stop);
    Shown all;
    for (std::size_t i = 0; i < bytes.size() && !all.stopped; ++i) {
        all.stopped = text.append(static_cast<unsigned char>(bytes[i]));
        all.pieces.emplace_back(text.take(all.stopped || i + 1 == bytes.size()));
    }
    all.text = text.text();
    return all;
}

} // namespace

TEST_CASE("sampling follows the tempered, truncated distribution")
{
    const int draws = 20000;
    const std::vector<std::int32_t> seen{1, 4, 7};
    int number = 0;
    for (const SamplerConfig& config :
         std::vector<SamplerConfig>{{.temperature = 1, .top_p = 1},
                                    {.temperature = 0.5, .top_p = 1},
                                    {.temperature = 2, .top_k = 3, .top_p = 1},
                                    {.temperature = 1, .top_p = 0.7},
                                    {.temperature = 1.5, .top_p = 1, .min_p = 0.2},
                                    {.temperature = 1, .top_k = 6, .top_p = 0.9, .min_p = 0.05},
                                    {.temperature = 1, .top_p = 1, .repetition_penalty = 1.7},
                                    {.temperature = 0, .repetition_penalty = 3}}) {
        const Logits logits = random_logits(12, static_cast<std::uint64_t>(++number));
        Logits tokens(logits.begin(), logits.begin() + 10); // the others are no tokens
        const Logits want = probabilities(tokens, config, seen);
        std::vector<int> counts(10);
        for (int i = 0; i < draws; ++i) {
            SamplerConfig own = config;
            own.sample = i;
            Sampler sampler(own);
            for (const std::int32_t token : seen)
                sampler.saw(token);
            ++counts[static_cast<std::size_t>(sampler.pick(logits, 10))];
        }
        for (std::size_t i = 0; i < want.size(); ++i) {
            INFO("config " << number << ", token " << i << ", probability " << want[i]);
            CHECK(std::abs(counts[i] / double(draws) - want[i]) <=
                  4.5 * std::sqrt(want[i] * (1 - want[i]) / draws));
        }
    }
}

TEST_CASE("a sampler draws by its seed and the index of the sample, and remembers what it drew")
{
    const Logits flat(50, 0);
    const auto draw = [&](std::uint64_t seed, i64 sample) {
        Sampler sampler({.temperature = 1, .top_p = 1, .seed = seed, .sample = sample});
        std::vector<std::int32_t> drawn;
        for (int i = 0; i < 20; ++i)
            drawn.push_back(sampler.pick(flat, 50));
        return drawn;
    };
    CHECK(draw(1, 0) == draw(1, 0));
    CHECK(draw(1, 0) != draw(2, 0));
    CHECK(draw(1, 0) != draw(1, 1));
    Sampler once({.temperature = 0, .repetition_penalty = 2}); // no token twice while others are left
    const Logits positive{8, 7, 6, 5};
    std::vector<std::int32_t> drawn;
    for (int i = 0; i < 4; ++i)
        drawn.push_back(once.pick(positive, 4));
    CHECK(drawn == std::vector<std::int32_t>{0, 1, 2, 3});
}

TEST_CASE("the score of a token is the logarithm of its softmax")
{
    const Logits logits = random_logits(40, 5);
    double sum = 0;
    for (const double logit : logits)
        sum += std::exp(logit);
    const TokenScore score = score_of(logits, 7, 40);
    CHECK(score.logprob == Approx(logits[7] - std::log(sum)).epsilon(1e-12));
    REQUIRE(score.top.size() == 40);
    for (std::size_t i = 0; i < 40; ++i) {
        const auto [token, logprob] = score.top[i];
        CHECK(logprob == score_of(logits, token, 0).logprob); // the same number
        if (i > 0)
            CHECK(score.top[i - 1].second >= logprob);
    }
    CHECK(score.top[0].first == std::max_element(logits.begin(), logits.end()) - logits.begin());
    CHECK(score_of(logits, 0, 3).top.size() == 3);
    CHECK(score_of(logits, 0, 1000).top.size() == 40);
    const Logits large{1000, 1001, -1000};
    CHECK(score_of(large, 1, 1).logprob == Approx(-std::log1p(std::exp(-1.0))));
    std::vector<ScorePart> parts; // of ranks that share the vocabulary
    for (const auto& [first, count] :
         std::vector<std::pair<std::size_t, std::size_t>>{{0, 3}, {3, 20}, {23, 17}})
        parts.push_back(score_part(std::span(logits).subspan(first, count), static_cast<i32>(first), 7, 5));
    const TokenScore merged = score_of(parts, 7, 5);
    CHECK(merged.logprob == Approx(score.logprob).epsilon(1e-14));
    REQUIRE(merged.top.size() == 5);
    for (std::size_t i = 0; i < 5; ++i) {
        CHECK(merged.top[i].first == score.top[i].first);
        CHECK(merged.top[i].second == Approx(score.top[i].second).epsilon(1e-14));
    }
    const TokenScore tie = score_of(Logits{2, 2, 2}, 1, 2);
    CHECK(tie.top[0].first == 0); // ties by id
    CHECK(tie.top[1].first == 1);
    CHECK(tie.top[0].second == tie.logprob);
}

TEST_CASE("the text of a sample ends before the first stop string")
{
    const Shown plain = shown("one two", {});
    CHECK(plain.text == "one two");
    CHECK(plain.pieces == std::vector<std::string>{"o", "n", "e", " ", "t", "w", "o"});
    const Shown stopped = shown("one. Two. Three", {". Th", "zzz"});
    CHECK(stopped.stopped);
    CHECK(stopped.text == "one. Two");
    std::string all;
    for (const std::string& piece : stopped.pieces) {
        all += piece;
        CHECK(std::string("one. Two").starts_with(all)); // never part of the stop string
    }
    CHECK(all == "one. Two");
    CHECK(shown("abab", {"abab"}).text.empty());
    CHECK(shown("aaab", {"aab"}).text == "a");
    CHECK(shown("xyz", {"z", "yz"}).text == "xy"); // each in its turn, as a harness cuts them
    CHECK(shown("xyz", {"yz", "z"}).text == "x");
    const Shown open = shown("ab", {"bc"}); // ends within what might have become a stop string
    CHECK_FALSE(open.stopped);
    CHECK(open.pieces == std::vector<std::string>{"a", "b"});
    const Shown characters = shown("a\xc3\xa9\xe2\x82\xac", {}); // é, €
    CHECK(characters.pieces == std::vector<std::string>{"a", "", "\xc3\xa9", "", "", "\xe2\x82\xac"});
}
