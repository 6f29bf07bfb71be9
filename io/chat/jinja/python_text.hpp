#pragma once
// Values as texts: as Python's str, repr, json.dumps, % and format write them.
#include "io/chat/jinja/value.hpp"

namespace trivium::jinja {

/// How a value is written as a text: as Python's repr, or as json.dumps with its options.
struct TextStyle {
    bool json = false;
    bool ascii = false;
    std::optional<std::string> indent; ///< of one level
    std::string item_separator = ", ", key_separator = ": ";
    bool sort_keys = false;
};
/// \throws Failure if it cannot be written so
MarkedText written(const Value& value, const TextStyle& style);
/// str(value); of a text its own marks. \throws Failure
MarkedText to_text(const Value& value);
std::string repr(const Value& value);

/// `format % values`, with %s and %d. \throws Failure
Value percent_format(const Value& format, const Value& values);
/// format.format(…), with {}. \throws Failure
Value brace_format(const Value& format, const Arguments& arguments);

/// The number that a text spells as Python's int(text) or float(text). \throws Failure for forms that are not
/// supported
std::optional<i64> parsed_int(std::string_view text);
std::optional<double> parsed_float(std::string_view text);

} // namespace trivium::jinja
