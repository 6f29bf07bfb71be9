#pragma once
// tokenizer.json of Hugging Face's `tokenizers`, as far as it is a byte-level BPE (GPT-2, Llama 3 and their
// like). Source: its serialised form, "version": "1.0".
#include "io/tokens/bpe_merges.hpp"
#include "io/tokens/text_split.hpp"

#include <array>
#include <string>
#include <vector>

namespace trivium {

struct TokenizerJson {
    using i32 = std::int32_t;

    /// By id.
    struct Word {
        enum class Kind { absent, plain, control } kind = Kind::absent;
        std::string text; ///< the bytes that it stands for; none for control words, which no text makes
        bool is_piece =
            false; ///< of the model's vocabulary, and in its letters: a whole piece may be this word
    };
    /// A word that is found in text before anything else is done to it.
    struct Added {
        std::string text;
        i32 id = 0;              ///< -1: a control word, whose text stays text
        bool normalized = false; ///< these are looked for behind the others
    };

    std::vector<Word> words;
    std::array<i32, 256> bytes{}; ///< the ids of single bytes
    std::vector<BpeMerges::Merge> merges;
    bool ignore_merges = false; ///< a piece that is a word is that word, whatever the merges make of it
    std::vector<Added> added;
    bool nfc = false; ///< text is normalized to form C, but for the added words that are found before
    std::vector<SplitRule> splits;
    i64 prefix_space_at =
        -1; ///< before this split (or behind the last) a piece without a space at its front gets one
    i32 bos = 0,
        eos = 0; ///< control words by the names that models give them; the same where there is one only
};

/// Whether these bytes are to be read as a tokenizer.json; no SentencePiece model looks like one.
bool looks_like_tokenizer_json(std::string_view bytes);

/// UserError about `place` where the text is damaged or hostile, or the tokenizer of a kind that is not
/// supported.
TokenizerJson parse_tokenizer_json(const std::string& text, const std::string& place);

} // namespace trivium
