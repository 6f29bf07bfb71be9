#pragma once
// A tokenizer.json as a Tokenizer. It yields the same ids as Hugging Face's `tokenizers`, except that text
// that spells a special token stays text. In a byte-level tokenizer, each byte that is not valid UTF-8
// becomes one token.
#include "io/tokens/tokenizer.hpp"

namespace trivium {

/// `file`: the content of a tokenizer.json; Tokenizer::model() returns it. UserError about `place` as
/// parse_tokenizer_json.
std::unique_ptr<Tokenizer> make_json_tokenizer(std::string file, const std::string& place);

} // namespace trivium
