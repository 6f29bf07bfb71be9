#pragma once
// Untrusted JSON: refuses duplicate keys and deep nesting. (The library alone silently keeps one of two
// values.)
#include "base/units.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace trivium {

/// The library's error message, split up and without its prefix.
struct JsonProblem {
    std::string at{}; ///< "line 3, column 5"; empty if unknown
    std::string reason{};
};
JsonProblem problem_of(const nlohmann::json::exception& error);

/// UserError about `place`: "is not valid JSON at line 3, column 5", a duplicate key in an object, or more
/// than `depth` nested objects and arrays. Needs at most about ten times the memory of the text.
nlohmann::json parse_strict_json(std::string_view text, const std::string& place, int depth = 16);

/// Untrusted text for a message: quoted, escaped and shortened.
std::string in_quotes(std::string_view text);
/// An untrusted value for a message: a string in quotes, others as JSON, shortened.
std::string shown(const nlohmann::json& value);

} // namespace trivium
