#pragma once
// A tokenizer.json that states its end-of-text token.
#include <string>

namespace trivium {

/// The member of the file that states it: {"eos_token": "…"}.
inline constexpr const char* eos_statement = "trivium";

/// The file with a statement of its end-of-text token, as its first member: what stores keep of a tokenizer
/// is one text. The package `tokenizers` ignores it.
std::string with_eos(const std::string& file, const std::string& eos);
/// The file as it was before with_eos.
std::string without_eos(const std::string& file);

} // namespace trivium
