#pragma once
// How probable a model finds a token, and the text of sampled tokens.
#include "io/tokens/tokenizer.hpp"

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace trivium {

/// A token, and how probable the model found it: log-softmax in f64 of the logits of the model's vocabulary,
/// before temperature and penalties.
struct TokenScore {
    i32 token = 0;
    double logprob = 0; ///< NaN for the first token of a sequence
    /// The most probable tokens and their logprobs, most probable first, ties by id; the token itself need
    /// not be among them. It is greedy if and only if top[0].second == logprob.
    std::vector<std::pair<i32, double>> top{};
};

/// \pre 0 <= token < logits.size(), which is >= `top` alternatives
TokenScore score_of(std::span<const double> logits, i32 token, i64 top);

/// The text of a sample while it grows.
class SampleText {
public:
    /// `stop`: strings that end it. \pre none is empty; the tokenizer outlives this
    SampleText(const Tokenizer& tokenizer, std::vector<std::string> stop)
        : tokenizer_(&tokenizer), stop_(std::move(stop))
    {
    }

    /// Appends a token. Returns whether the text now has stop strings; then it ends before them: each in its
    /// turn, as lm-evaluation-harness does it. (A token may complete several, of which one contains another.)
    bool append(i32 token);
    /// What is final and was not taken yet: whole characters, nothing that may become a stop string. `all`:
    /// the sample has ended, so everything is final.
    std::string_view take(bool all);
    const std::string& text() const { return text_; }

private:
    std::size_t final_end() const;

    const Tokenizer* tokenizer_;
    std::vector<std::string> stop_;
    std::vector<i32> tokens_;
    std::string text_;
    std::size_t taken_ = 0;
};

} // namespace trivium
