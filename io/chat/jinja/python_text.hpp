#pragma once
// Values as texts: as Python's str, repr, json.dumps, % and format print them.
#include "io/chat/jinja/value.hpp"

namespace trivium::jinja {

/// str(value); of a text its own marks.
MarkedText to_text(const Value& value);
std::string repr(const Value& value);
std::string float_text(double value);

struct JsonStyle {
    bool ascii = false;
    std::optional<std::string> indent; ///< of one level
    std::string item_separator = ", ", key_separator = ": ";
    bool sort_keys = false;
};
/// json.dumps(value). \throws Failure if JSON cannot express it
MarkedText to_json(const Value& value, const JsonStyle& style);

/// `format % values`. \throws Failure
Value percent_format(const Value& format, const Value& values);
/// format.format(…). \throws Failure
Value brace_format(const Value& format, const Arguments& arguments);

/// The number that a text spells as Python's int(text, base) or float(text).
std::optional<i64> parsed_int(std::string_view text, int base = 10);
std::optional<double> parsed_float(std::string_view text);

} // namespace trivium::jinja
