#pragma once
// JSON of others: no key twice, no deep nesting. (The library alone would keep one of two values without a word.)
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace trivium {

/// UserError about `place`, with line and column where there is one: no JSON, a key twice in an object, more than
/// `depth` objects and arrays inside each other. Memory is at most some ten times that of the text.
nlohmann::json parse_strict_json(std::string_view text, const std::string& place, int depth = 16);

/// A text of others for a message: in quotes, escaped, and not long.
std::string in_quotes(std::string_view text);

} // namespace trivium
