#pragma once
// Text <-> token ids.
#include "io/tokens/text_files.hpp"

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trivium {

struct TextSpan; // io/chat/conversation.hpp

/// Several threads may call encode and decode concurrently.
class Tokenizer {
public:
    virtual ~Tokenizer() = default;
    /// Ids are 0 … vocab_size() - 1.
    virtual i64 vocab_size() const = 0;
    /// Ids of UTF-8 text, without bos and eos. Text that spells a special token stays text. UserError if
    /// `text` has a byte for which there is no token, or takes too long to match the pattern of a
    /// tokenizer.json.
    std::vector<i32> encode(std::string_view text) const
    {
        std::vector<i32> ids;
        encode_part(text, true, ids);
        return ids;
    }
    /// Appends the ids of a part of a text. A part that is not the `first` begins at a place of cut(). Errors
    /// as encode().
    virtual void encode_part(std::string_view text, bool first, std::vector<i32>& ids) const = 0;
    /// Appends the ids of a text in which special tokens are spelled out, as chat templates do: it becomes
    /// these tokens. For each id, `inside` gets whether a part of its text is in one of the spans, which are
    /// in ascending order. Errors as encode(). \pre `text` is valid UTF-8
    virtual void encode_chat(std::string_view text, std::span<const TextSpan> spans, std::vector<i32>& ids,
                             std::vector<bool>& inside) const = 0;
    /// What encode_chat() reads as this special token; empty for all others.
    virtual std::string special_text(i32 id) const = 0;
    /// A place at or after `from` where the text may be cut: the ids of its two parts are those of the text.
    /// npos if there is none, or none is known.
    virtual std::size_t cut(std::string_view text, std::size_t from) const = 0;
    /// Text of any ids. Special tokens become "", ids outside the vocabulary U+FFFD. A single id may be an
    /// incomplete character. decode(encode(text)) == text for "bytes", for tokenizers that train_tokenizer
    /// made, and for byte-level BPE whose normalizer and pre-tokenizer neither change nor drop text nor add a
    /// space in front.
    virtual std::string decode(std::span<const i32> ids) const = 0;
    virtual i32 bos() const = 0;
    virtual i32 eos() const = 0;
    /// A description: "bytes", "sentencepiece, 4096 tokens", "byte-level BPE, 50257 tokens".
    virtual std::string name() const = 0;
    /// Identifies the meaning of the ids: "bytes", "sentencepiece:<hash of the model>", "bpe:<hash of the
    /// file>" or "unigram:<hash of the file>".
    virtual std::string fingerprint() const = 0;
    /// The argument for tokenizer_from_model: the content of the SentencePiece model or the tokenizer.json,
    /// or "bytes".
    virtual const std::string& model() const = 0;
};

/// Whether a token of the text [begin, end) is one of the spans, at least in part; for an empty text whether
/// it is at a place in one.
bool is_inside(std::span<const TextSpan> spans, std::size_t begin, std::size_t end);

/// `spec`: "bytes" (ids 0-255 are bytes, 256 bos, 257 eos), or the path of a SentencePiece model or of a
/// tokenizer.json (see tokenizer_json.hpp), which the content distinguishes. `eod`: the special
/// token of a tokenizer.json that ends a document; by default the eos_token of a tokenizer_config.json in the
/// same folder, otherwise TokenizerJson::eos. UserError if the file is missing or neither kind, if it has no
/// such token, or if `eod` is set for another kind of tokenizer.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& spec, const std::string& eod = "");

/// As Tokenizer::decode(), but with special tokens as encode_chat() reads them, and with the space at the
/// begin that some tokenizers put there.
std::string spelled_out(const Tokenizer& tokenizer, std::span<const i32> ids);

/// From the result of Tokenizer::model(); `place` names the file in messages.
std::unique_ptr<Tokenizer> tokenizer_from_model(const std::string& model, const std::string& place);

struct TokenizerTraining {
    TextSelection text;
    i64 vocab = 0; ///< vocabulary size, 300 to 1 000 000: unknown, bos, eos and the 256 bytes included
    Bytes sample = Bytes{64} << 20; ///< trains on at most about this much text, sampled from all inputs
    CorpusReport* report = nullptr; ///< if set, receives which files were read
};

/// Trains a SentencePiece BPE model with byte fallback and returns it serialised. Deterministic; prints
/// nothing. UserError if the corpus is empty or not UTF-8, or too small for `vocab`.
std::string train_tokenizer(const TokenizerTraining& training);

} // namespace trivium
