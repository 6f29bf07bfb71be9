#pragma once
// A tokenizer as the files that Hugging Face's transformers loads.
#include "io/tokens/tokenizer.hpp"

#include <map>

namespace trivium {

/// Files of a folder, by name.
using TextFiles = std::map<std::string, std::string>;

struct TokenizerFiles {
    TextFiles files;     ///< tokenizer.json, tokenizer.model, tokenizer_config.json
    std::string problem; ///< why there is no tokenizer.json; empty: there is one
};

/// `AutoTokenizer` gives texts the same ids as `tokenizer` does. `imported`: the tokenizer_config.json of the
/// folder that the tokenizer came from, which is kept apart from what names its class; empty where the
/// tokenizer was made here, and then special tokens that a text spells stay text. `seq`: the longest
/// sequence.
TokenizerFiles tokenizer_files(const Tokenizer& tokenizer, const std::string& imported, i64 seq);

/// Whether a tokenizer.json is the one that stands for "bytes".
bool is_bytes_json(const std::string& text);

} // namespace trivium
