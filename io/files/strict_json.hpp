#pragma once
// JSON of others: no key twice, no deep nesting. (The library alone would keep one of two values without a
// word.)
#include "base/units.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace trivium {

/// What the library found, without the library's names.
struct JsonProblem {
    std::string at{}; ///< "line 3, column 5"; empty where there is none
    std::string reason{};
};
JsonProblem problem_of(const nlohmann::json::exception& error);

/// UserError about `place`, "is not valid JSON at line 3, column 5" or: a key twice in an object, more than
/// `depth` objects and arrays inside each other. Memory is at most some ten times that of the text.
nlohmann::json parse_strict_json(std::string_view text, const std::string& place, int depth = 16);

/// A text of others for a message: in quotes, escaped, and not long.
std::string in_quotes(std::string_view text);

} // namespace trivium
