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

/// What a part of the vocabulary says about the score of a token.
struct ScorePart {
    double most = 0, sum = 0; ///< the largest logit, and the sum of exp(logit - most)
    double picked = 0;        ///< the token's logit; -inf if the token is not in the part
    std::vector<std::pair<i32, double>>
        top{}; ///< the largest logits with their ids, ordered as in TokenScore
};
/// Of the tokens from `first` on, with at most `top` alternatives. \pre logits is not empty
ScorePart score_part(std::span<const double> logits, i32 first, i32 token, i64 top);
/// Of parts that are all of the vocabulary.
TokenScore score_of(std::span<const ScorePart> parts, i32 token, i64 top);
/// Of the whole vocabulary.
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
