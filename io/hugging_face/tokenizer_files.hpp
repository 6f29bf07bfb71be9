#pragma once
// Writes a tokenizer as files that Hugging Face's transformers loads.
#include "io/tokens/tokenizer.hpp"

#include <map>

namespace trivium {

/// Contents of files by name.
using TextFiles = std::map<std::string, std::string>;

struct TokenizerFiles {
    TextFiles files;     ///< tokenizer.json, tokenizer.model, tokenizer_config.json
    std::string problem; ///< why `files` has no tokenizer.json; empty: it has one
};

/// With these files, transformers' `AutoTokenizer` yields the same ids as `tokenizer`. `imported`: the
/// content of the tokenizer_config.json with which the tokenizer was imported; its settings are kept, except
/// the class of a SentencePiece model. If it is empty, the tokenizer was not imported, and text that spells a
/// special token stays text. `seq`: the maximum sequence length in tokens, for tokenizers that were not
/// imported.
TokenizerFiles tokenizer_files(const Tokenizer& tokenizer, const std::string& imported, i64 seq);

/// Whether a SentencePiece tokenizer with these imported settings adds bos in front of each text.
bool begins_with_bos(const std::string& imported);

/// Whether `text` is the tokenizer.json of the tokenizer "bytes".
bool is_bytes_json(const std::string& text);

/// Whether `text` is the tokenizer.json that tokenizer_files makes of a SentencePiece model. UserError if
/// `model` is none.
bool is_converted_json(const std::string& text, const std::string& model);

} // namespace trivium
