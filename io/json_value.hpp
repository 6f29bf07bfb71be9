#pragma once
// Reading JSON that may be anything: conversions of the library would cut fractions and wrap large numbers.
#include "base/check.hpp"
#include "base/units.hpp"
#include "io/strict_json.hpp"

#include <nlohmann/json.hpp>

namespace trivium {

/// What is wrong, to stand behind the file's name: "has …", "lists …".
struct JsonFault {
    std::string text;
};

/// Discarded where the text is none.
inline nlohmann::json parse_json(const std::string& text)
{
    try {
        return parse_strict_json(text, "");
    } catch (const UserError&) {
        return nlohmann::json(nlohmann::json::value_t::discarded);
    }
}

/// A value for a message, not long.
inline std::string shown(const nlohmann::json& value)
{
    const std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

/// \throws JsonFault where it is no whole number
inline i64 json_integer(const nlohmann::json& value)
{
    if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<u64>() > u64{INT64_MAX}))
        throw JsonFault{"has " + shown(value) + " where a whole number should be"};
    return value.get<i64>();
}

/// A whole number from 0 to 2^62. \throws JsonFault
inline i64 json_count(const nlohmann::json& value)
{
    const i64 count = json_integer(value);
    if (count < 0 || count > i64{1} << 62)
        throw JsonFault{"has " + shown(value) + " where a count should be"};
    return count;
}

/// Of 16 hexadecimal digits. \throws JsonFault
inline u64 json_hash(const nlohmann::json& value)
{
    const auto text = value.get<std::string>();
    if (text.size() != 16 || text.find_first_not_of("0123456789abcdef") != std::string::npos)
        throw JsonFault{"has " + shown(value) + " where a hash should be"};
    return std::stoull(text, nullptr, 16);
}

} // namespace trivium
