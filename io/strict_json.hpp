#pragma once
// JSON of others: no key twice, no deep nesting. (The library alone would keep one of two values without a word.)
#include "base/units.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace trivium {

/// Why the library refused `text`, without its own names: "unexpected '}', expected a string (column 5)".
struct JsonReason {
    i64 line = 0; ///< of `text`, from 1 on; 0 where the error has no place in it
    std::string reason;
};
JsonReason plain_reason(const nlohmann::json::exception& error, std::string_view text);

/// UserError about `place`, with the line where `text` has several ("FILE:LINE"): not JSON, a key twice in an object, more than
/// `depth` objects and arrays inside each other. Memory is at most some ten times that of the text.
nlohmann::json parse_strict_json(std::string_view text, const std::string& place, int depth = 16);

/// A text of others for a message: in quotes, escaped, and not long.
std::string in_quotes(std::string_view text);

} // namespace trivium
