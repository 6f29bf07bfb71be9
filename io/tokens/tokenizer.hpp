#pragma once
// Text <-> token ids.
#include "io/tokens/text_files.hpp"

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trivium {

using i32 = std::int32_t;

class Tokenizer {
public:
    virtual ~Tokenizer() = default;
    /// Ids are 0 … vocab_size() - 1.
    virtual i64 vocab_size() const = 0;
    /// Ids of UTF-8 text, without bos and eos. Text that spells a control word stays text.
    virtual std::vector<i32> encode(std::string_view text) const = 0;
    /// Text of any ids; bos and eos give nothing, ids outside the vocabulary U+FFFD.
    /// decode(encode(text)) == text for "bytes", for tokenizers that train_tokenizer made, and for byte-level
    /// BPE whose normalizer and pre-tokenizer neither change nor drop text, nor put a space in front. An id
    /// alone may give a part of a character.
    virtual std::string decode(std::span<const i32> ids) const = 0;
    virtual i32 bos() const = 0;
    virtual i32 eos() const = 0;
    /// For people: "bytes", "sentencepiece, 4096 words", "byte-level BPE, 50257 words".
    virtual std::string name() const = 0;
    /// Equal exactly where the ids mean the same: "bytes", "sentencepiece:<hash of the model>" or "bpe:<hash
    /// of the file>".
    virtual std::string fingerprint() const = 0;
    /// What tokenizer_from_model takes: the bytes of the SentencePiece model or the tokenizer.json, or
    /// "bytes".
    virtual const std::string& model() const = 0;
};

/// `spec`: "bytes" (ids 0-255 are bytes, 256 bos, 257 eos), or the path of a SentencePiece model or
/// of a tokenizer.json (byte-level BPE, see byte_bpe.hpp). The content tells which. UserError if the file
/// is missing or no such model.
std::unique_ptr<Tokenizer> make_tokenizer(const std::string& spec);

/// From Tokenizer::model(); `place` stands for the file in messages.
std::unique_ptr<Tokenizer> tokenizer_from_model(const std::string& model, const std::string& place);

struct TokenizerTraining {
    TextSelection text;
    i64 vocab = 0; ///< tokens in all, 259 of them unknown, bos, eos and the 256 bytes; 300 or more
    Bytes sample = Bytes{64} << 20; ///< at most about this much text is looked at, spread over the inputs
    CorpusReport* report = nullptr; ///< where given, gets what was read
};

/// Trains a byte-pair encoding with byte fallback; returns the model's bytes. Deterministic and quiet.
/// UserError if the corpus is empty or not UTF-8, or `vocab` does not fit it.
std::string train_tokenizer(const TokenizerTraining& training);

} // namespace trivium
