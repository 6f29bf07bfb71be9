#pragma once
// Byte-level BPE from a tokenizer.json: the ids that Hugging Face's `tokenizers` gives, but that text which
// spells a control word stays text. Bytes that are no UTF-8 are kept, each as a word of its own.
#include "io/tokens/tokenizer.hpp"

namespace trivium {

/// `file`: the bytes of a tokenizer.json, which model() gives back. UserError about `place`, see
/// tokenizer_json.hpp.
std::unique_ptr<Tokenizer> make_byte_bpe(std::string file, const std::string& place);

} // namespace trivium
