#pragma once
// Answers requests with the rows of a generator: which row computes what next. What computes the logits is a
// function, so this knows no ranks.
#include "train/generator.hpp"
#include "train/text_model.hpp"

namespace trivium {

/// What a request wants of the logits of a call.
struct WantedLogits {
    i64 first = 0;              ///< new token of the call, whose logits score the token after it
    std::vector<i32> targets{}; ///< the tokens after it and after those that follow it
    i64 top = 0;                ///< alternatives of a score
    bool last = false;          ///< the logits after the last new token
};
struct RowLogits {
    std::vector<TokenScore> scores{}; ///< of the targets
    std::vector<double> last{};
};
/// Runs a call. Scores are only wanted of the program `score`.
using ComputeLogits =
    std::function<std::vector<RowLogits>(const GeneratorCall& call, const std::vector<WantedLogits>& wanted)>;

struct TextRowsShape {
    i64 rows = 1;
    i64 chunk = 64;  ///< tokens of a call of `prefill` and of `score`
    i64 sampled = 0; ///< ids that may be sampled: the first ones
};

/// Computes the requests of `flow` until none is there. A row takes the next request when its own is done, so
/// requests join those that are computed at the next call. A call has new tokens either of prompts or of
/// samples, and of prompts either with scores or without, each prompt in chunks from its begin on: so what is
/// computed for a request does not depend on other requests.
void complete_on_rows(const TextRowsShape& shape, const Tokenizer& tokenizer, const TextFlow& flow,
                      const ComputeLogits& compute);

/// The results of requests that are all there, in order, by `complete`; `on_token` gets their indices.
std::vector<TextResult> complete_all(const std::vector<TextRequest>& requests, const OnToken& on_token,
                                     const std::function<void(const TextFlow&)>& complete);

} // namespace trivium
