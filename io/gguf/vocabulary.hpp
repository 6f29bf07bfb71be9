#pragma once
// A tokenizer in the terms of llama.cpp, which has its own code for each kind and for each pattern that
// splits text.
#include "io/tokens/tokenizer.hpp"

namespace trivium {

struct GgufVocabulary {
    /// By the numbers of SentencePieceModel::Kind, too. Text yields neither unknown, control nor unused ones.
    enum Kind : i32 { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };

    std::string model;               ///< "gpt2": BPE of bytes; "llama": SentencePiece's BPE; "no_vocab"
    std::string pre;                 ///< how text is split
    std::vector<std::string> tokens; ///< by id
    std::vector<i32> kinds;          ///< by id
    std::vector<float> scores;       ///< "llama": tokens with higher ones are merged first
    std::vector<std::string> merges; ///< "gpt2": "left right"
    i64 unknown_id = -1;
    bool add_space_prefix = false;
    bool begins_with_bos = false; ///< its post-processor adds bos; no other kind of tokenizer says so

    i64 find(std::string_view token) const; ///< its id; -1: there is none
};

/// UserError if llama.cpp has no such tokenizer.
GgufVocabulary gguf_vocabulary(const Tokenizer& tokenizer);

/// Makes it as large as the model's, with tokens that text does not yield. UserError if it is larger.
void pad_vocabulary(GgufVocabulary& vocabulary, i64 size);

} // namespace trivium
