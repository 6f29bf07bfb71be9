#pragma once
// Reads the tokenizer.json of Hugging Face's `tokenizers`: byte-level BPE (GPT-2, Llama 3, Qwen), BPE of
// characters with byte fallback (Llama 2, Mistral, Gemma, Phi-3), and unigram models.
// Source: the format of `tokenizers`, "version": "1.0".
#include "io/tokens/tokenizer/bpe_merges.hpp"
#include "io/tokens/tokenizer/normalizer.hpp"

#include <array>
#include <string>
#include <vector>

namespace trivium {

struct TokenizerJson {
    struct Token {
        enum class Kind { absent, plain, special } kind = Kind::absent;
        std::string text;      ///< the bytes that it decodes to; empty for special tokens
        bool is_piece = false; ///< from the model's vocabulary: text may yield it
        std::string piece{};   ///< if not byte_level: as text is searched for it
    };
    /// An added token: encode() searches the text for it before the model.
    struct Added {
        std::string text;
        i32 id = 0;
        bool normalized = false;          ///< searched in the normalized text, after the others
        bool left = false, right = false; ///< takes the white space before or after it
        bool special = false;             ///< encode() leaves its text text
    };
    /// A step before the model: splits text; or replaces spaces by `mark` and puts one in front of a piece
    /// that does not begin with it.
    struct Step {
        enum class Kind { split, mark } kind = Kind::split;
        SplitRule rule{};
        std::string mark{};
        enum class Prefix {
            never,
            first,
            always
        } prefix = Prefix::never; ///< first: only where the text begins
    };

    std::vector<Token> tokens; ///< by id
    /// byte_level: bytes are the symbols of BPE; otherwise characters are, and the bytes of a character
    /// without a token have tokens if all `bytes` have ids.
    bool byte_level = false;
    std::array<i32, 256>
        bytes{};      ///< the ids of single bytes; -1: no token (often for bytes that never occur in UTF-8)
    i32 unknown = -1; ///< of a character without a token; -1: such characters are left out
    bool fuse_unknown = false; ///< one token for adjacent ones
    std::vector<BpeMerges::Merge> merges;
    bool ignore_merges = false; ///< a pre-token that is in the vocabulary becomes that token, without merges
    bool unigram = false;
    std::vector<double> scores; ///< unigram: by id
    std::vector<Added> added;
    std::vector<NormalizerStep> normalizer; ///< after the search for added tokens that are not `normalized`
    std::vector<Step> steps;
    bool strips_space = false; ///< decoding leaves out a space at the begin
    /// eos: the special token that the file states (with_eos), otherwise the one after the text in the
    /// template of the post-processor, one of the usual names, or the only one. bos: the one before the text
    /// in the template, otherwise one of the usual names, or eos.
    i32 bos = 0, eos = 0;
    bool begins_with_bos = false; ///< the template puts bos before a text
};

/// The character that stands for a byte in the tokens of byte-level BPE (GPT-2's alphabet). \pre 0 to 255
const std::string& byte_level_letter(int byte);

/// Whether these bytes look like a tokenizer.json; no SentencePiece model does.
bool looks_like_tokenizer_json(std::string_view bytes);

/// UserError about `place` if the text is damaged or malicious, if the kind of tokenizer is not supported, or
/// if no token ends a document.
TokenizerJson parse_tokenizer_json(const std::string& text, const std::string& place);

} // namespace trivium
