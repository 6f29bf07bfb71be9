#pragma once
// A tokenizer.json that states its end-of-text token.
#include <string>

namespace trivium {

/// The member of tokenizer.json that states it: {"eos_token": "…"}.
inline constexpr const char* eos_statement = "trivium";

/// `file`, a tokenizer.json, with the statement of `eos` as its first member. A token store keeps a tokenizer
/// as one text, so the text must contain the statement. The package `tokenizers` ignores this member.
std::string with_eos(const std::string& file, const std::string& eos);
/// Undoes with_eos; returns a file without a statement unchanged.
std::string without_eos(const std::string& file);

} // namespace trivium
