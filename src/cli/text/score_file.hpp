#pragma once
// `eval --score`: how probable a model finds given texts.
#include "config/run_config.hpp"
#include "io/tokens/tokenizer.hpp"
#include "mpi/comm.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace trivium {

/// A context with its continuation, as tokens.
struct ScoredTokens {
    std::vector<i32> tokens;
    i64 continuation = 0; ///< index of its first token, at least 1
    i64 left_out = 0;     ///< tokens of the context's begin that did not fit
};

/// Tokens of two texts as lm-evaluation-harness makes them: together, with the white space at the context's
/// end as part of the continuation, which begins after as many tokens as the context alone has. An empty
/// context becomes the token that separates documents.
ScoredTokens tokens_of_pair(std::string context, std::string continuation, const Tokenizer& tokenizer);

/// Reads lines {"context": …, "continuation": …}, both texts or both lists of ids. A model of `most` tokens
/// reads all but the last: what is before that is left out of the context. `place`: the file. UserError if
/// there are no lines, or a line is no such object, has an empty continuation, or one of more than `most`
/// tokens.
std::vector<ScoredTokens> parse_pairs(std::string_view text, const std::string& place,
                                      const Tokenizer& tokenizer, i64 most);

struct ScoreFile {
    std::string input;      ///< "-": stdin
    std::string output;     ///< empty: stdout
    std::string checkpoint; ///< as open_checkpoint()
    i64 batch = 8;          ///< sequences that a data rank computes together
    bool average = false;   ///< averages of parameters (train.ema)
};

/// Collective. Writes {"logprob", "is_greedy", "tokens"} for each line: the sum over the tokens of the
/// continuation, whether each of them is the most probable one, and their number; and "left_out" if it is not
/// 0. Throws, on all ranks, as TextModel and parse_pairs().
void score_file(Comm& world, const RunConfig& config, const ScoreFile& file);

} // namespace trivium
