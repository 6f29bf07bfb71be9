#pragma once
// Converts a SentencePiece model to a tokenizer.json for Hugging Face's `tokenizers`.
#include "io/tokens/sentencepiece_model.hpp"

#include <string>

namespace trivium {

struct SentencePieceJson {
    std::string text;   ///< empty: the model cannot be converted
    std::string reason; ///< why it cannot; empty: it can
};

/// A tokenizer.json (tokenizers 0.20 and later) that yields the same ids as Tokenizer::encode. Its vocabulary
/// has spaces instead of SentencePiece's U+2581, so a literal U+2581 in a text is encoded as bytes. `first`:
/// the id of a special token that `tokenizers` adds in front of each text by default; negative: none.
SentencePieceJson print_sentencepiece_json(const SentencePieceModel& model, std::int64_t first = -1);

/// The tokenizer "bytes" as a SentencePiece model.
SentencePieceModel byte_pieces();

} // namespace trivium
