#pragma once
// Answers requests with the rows of a generator: which row computes what next. What computes the logits is a
// function, so this knows no ranks.
#include "train/generator.hpp"
#include "train/text_model.hpp"

namespace trivium {

/// Runs a call and returns, for each row, the logits of the new tokens in its range of `wanted`, one after
/// the other: [size, vocab]. In the programs `prefill` and `decode` range [0, 1) is the last new token.
using ComputeLogits = std::function<std::vector<std::vector<double>>(const GeneratorCall& call,
                                                                     const std::vector<IndexRange>& wanted)>;

struct TextRowsShape {
    i64 rows = 1;
    i64 chunk = 64;  ///< tokens of a call of `prefill` and of `score`
    i64 vocab = 0;   ///< logits per token
    i64 sampled = 0; ///< ids that may be sampled: the first ones
};

/// The results of the requests, in order. A row takes the next request when its own is done. A call has new
/// tokens either of prompts or of samples, and of prompts either with scores or without, each prompt in
/// chunks from its begin on: so what is computed for a request does not depend on other requests.
std::vector<TextResult> complete_on_rows(const TextRowsShape& shape, const Tokenizer& tokenizer,
                                         const std::vector<TextRequest>& requests,
                                         const ComputeLogits& compute, const OnToken& on_token);

} // namespace trivium
