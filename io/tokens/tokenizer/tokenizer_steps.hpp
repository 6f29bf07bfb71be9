#pragma once
// The steps of a tokenizer.json around its model: normalizer, pre-tokenizer and decoder.
#include "io/tokens/tokenizer/tokenizer_json.hpp"

#include <nlohmann/json_fwd.hpp>
#include <utility>

namespace trivium {

/// How ByteLevel splits text, as GPT-2 does.
inline constexpr const char* gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

/// How a decoder changes tokens.
struct TokenDecoding {
    std::vector<std::pair<std::string, std::string>> replaced; ///< what by what, in order
    bool bytes = false;                                        ///< <0x0A> is a byte
};

/// Sets normalizer, steps, byte_level and strips_space of `out`; its `unigram` is set already. UserError
/// about `place` if a step is damaged or not supported.
TokenDecoding read_tokenizer_steps(const nlohmann::json& file, const std::string& place, TokenizerJson& out);

} // namespace trivium
