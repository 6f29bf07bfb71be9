#pragma once
// Reading JSON that may be anything: conversions of the library would cut fractions and wrap large numbers.
#include "base/check.hpp"
#include "base/units.hpp"

#include <nlohmann/json.hpp>

namespace trivium {

/// What is wrong, to stand behind the file's name: "has …", "lists …".
struct JsonFault {
    std::string text;
};

/// Discarded where the text is none. Lists in lists deeper than any file of ours are none: the library's parser and its
/// values would take the stack for each.
inline nlohmann::ordered_json parse_json(const std::string& text)
{
    constexpr int deepest = 64;
    bool too_deep = false;
    auto json = nlohmann::ordered_json::parse(
        text,
        [&](int depth, nlohmann::ordered_json::parse_event_t, nlohmann::ordered_json&) {
            too_deep = too_deep || depth > deepest;
            return !too_deep;
        },
        false);
    return too_deep ? nlohmann::ordered_json(nlohmann::ordered_json::value_t::discarded) : json;
}

/// \throws JsonFault where it is no whole number
inline i64 json_integer(const nlohmann::ordered_json& value)
{
    if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<u64>() > u64{INT64_MAX}))
        throw JsonFault{"has " + value.dump() + " where a whole number should be"};
    return value.get<i64>();
}

/// A whole number from 0 to 2^62. \throws JsonFault
inline i64 json_count(const nlohmann::ordered_json& value)
{
    const i64 count = json_integer(value);
    if (count < 0 || count > i64{1} << 62)
        throw JsonFault{"has " + value.dump() + " where a count should be"};
    return count;
}

/// Of 16 hexadecimal digits. \throws JsonFault
inline u64 json_hash(const nlohmann::ordered_json& value)
{
    const auto text = value.get<std::string>();
    if (text.size() != 16 || text.find_first_not_of("0123456789abcdef") != std::string::npos)
        throw JsonFault{"has " + value.dump() + " where a hash should be"};
    return std::stoull(text, nullptr, 16);
}

} // namespace trivium
