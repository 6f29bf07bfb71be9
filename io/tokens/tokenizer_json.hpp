#pragma once
// Reads the tokenizer.json of Hugging Face's `tokenizers` if it is a byte-level BPE (GPT-2, Llama 3, Qwen).
// Source: the format of `tokenizers`, "version": "1.0".
#include "io/tokens/bpe_merges.hpp"
#include "io/tokens/text_split.hpp"

#include <array>
#include <string>
#include <vector>

namespace trivium {

struct TokenizerJson {
    using i32 = std::int32_t;

    struct Token {
        enum class Kind { absent, plain, special } kind = Kind::absent;
        std::string text;      ///< the bytes that it decodes to; empty for special tokens
        bool is_piece = false; ///< from the model's vocabulary, in the byte-level alphabet: BPE may yield it
    };
    /// An added token: encode() searches the text for it before BPE.
    struct Added {
        std::string text;
        i32 id = 0;              ///< -1: a special token; its text stays text
        bool normalized = false; ///< searched in the normalized text, after the others
    };

    std::vector<Token> tokens; ///< by id
    std::array<i32, 256>
        bytes{}; ///< the ids of single bytes; -1: no token (often for bytes that never occur in UTF-8)
    std::vector<BpeMerges::Merge> merges;
    bool ignore_merges = false; ///< a pre-token that is in the vocabulary becomes that token, without merges
    std::vector<Added> added;
    bool nfc =
        false; ///< normalizes text to form C, after the search for added tokens that are not `normalized`
    std::vector<SplitRule> splits;
    /// Before the split of this index, each pre-token without a leading space gets one; splits.size(): after
    /// all splits; -1: never.
    i64 prefix_space_at = -1;
    /// eos: the special token that the file states (with_eos), otherwise the one after the text in the
    /// template of the post-processor, one of the usual names, or the only one. bos: the one before the text
    /// in the template, otherwise one of the usual names, or eos.
    i32 bos = 0, eos = 0;
};

/// Whether these bytes look like a tokenizer.json; no SentencePiece model does.
bool looks_like_tokenizer_json(std::string_view bytes);

/// UserError about `place` if the text is damaged or malicious, if the kind of tokenizer is not supported, or
/// if no token ends a document.
TokenizerJson parse_tokenizer_json(const std::string& text, const std::string& place);

} // namespace trivium
