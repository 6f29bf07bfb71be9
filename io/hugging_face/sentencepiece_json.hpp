#pragma once
// A SentencePiece model as a tokenizer.json of Hugging Face's `tokenizers`.
#include "io/tokens/sentencepiece_model.hpp"

#include <string>

namespace trivium {

/// A tokenizer.json that gives each text the ids that Tokenizer::encode gives it. The vocabulary has spaces
/// where SentencePiece has U+2581, so that nothing but the bytes stands for a U+2581 in a text. (tokenizers
/// 0.20 and later.)
struct SentencePieceJson {
    std::string text;   ///< empty: this model has no such form
    std::string reason; ///< then: why
};

/// `first`: the id of a special token that a text begins with unless its reader says otherwise; below 0:
/// none.
SentencePieceJson print_sentencepiece_json(const SentencePieceModel& model, std::int64_t first = -1);

/// The tokenizer "bytes", as if it were a SentencePiece model.
SentencePieceModel byte_pieces();

} // namespace trivium
