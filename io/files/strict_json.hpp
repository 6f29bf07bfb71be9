#pragma once
// Untrusted JSON: refuses duplicate keys and deep nesting. (The library alone silently keeps one of two
// values.)
#include "base/units.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace trivium {

/// An error message of nlohmann::json without its prefix and position.
std::string reason_of(const nlohmann::json::exception& error);

/// UserError about `place` if the text is not valid JSON ("at line 3, column 5"), has a key twice in an
/// object, nests more than `depth` objects and arrays, or is a pointer of Git LFS. Needs at most about ten
/// times the memory of the text. `remedy`: of these errors.
nlohmann::json parse_strict_json(std::string_view text, const std::string& place, int depth = 16,
                                 const char* remedy = "get the file again from where it came from");
/// As parse_strict_json, with the keys of objects in the order of the text. Refuses objects with so many keys
/// that this would take long.
nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& place, int depth = 16,
                                          const char* remedy = "get the file again from where it came from");

/// Untrusted text for a message: quoted, escaped and shortened.
std::string in_quotes(std::string_view text);
/// An untrusted value for a message: a string in quotes, others as JSON, shortened.
std::string shown(const nlohmann::json& value);

} // namespace trivium
