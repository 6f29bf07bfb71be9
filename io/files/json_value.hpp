#pragma once
// Checked access to untrusted JSON. The library's own conversions truncate fractions and wrap large numbers.
#include "base/check.hpp"
#include "base/units.hpp"
#include "io/files/strict_json.hpp"

#include <nlohmann/json.hpp>

namespace trivium {

/// A problem, worded to follow the file's name: "has …", "lists …".
struct JsonFault {
    std::string text;
};

/// A discarded value if parse_strict_json refuses the text.
inline nlohmann::json parse_json(const std::string& text)
{
    try {
        return parse_strict_json(text, "");
    } catch (const UserError&) {
        return nlohmann::json(nlohmann::json::value_t::discarded);
    }
}

/// A value as a text of at most 60 bytes, for a message.
inline std::string short_text(const nlohmann::json& value)
{
    if (value.is_structured()) // may be large
        return value.is_object() ? "an object" : "a list";
    const std::string text = value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
    return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

/// object[key]. \throws JsonFault if `object` is not an object or lacks the key
inline const nlohmann::json& json_member(const nlohmann::json& object, const char* key)
{
    if (!object.is_object())
        throw JsonFault{"has " + short_text(object) + " where an object with '" + key + "' should be"};
    const auto at = object.find(key);
    if (at == object.end())
        throw JsonFault{str("has no '", key, "'")};
    return *at;
}

[[noreturn]] inline void throw_wrong_json(const nlohmann::json& value, const std::string& key,
                                          const char* expected)
{
    throw JsonFault{str("has ", key.empty() ? "" : "'" + key + "' = ", short_text(value), " where ", expected,
                        " should be")};
}

/// object[key]. \throws JsonFault if it is not a whole number of the range of i64
inline i64 integer_at(const nlohmann::json& object, const char* key)
{
    const nlohmann::json& value = json_member(object, key);
    if (!value.is_number_integer() || (value.is_number_unsigned() && value.get<u64>() > u64{INT64_MAX}))
        throw_wrong_json(value, key, "a whole number");
    return value.get<i64>();
}

/// object[key], a whole number from 0 to 2^62. \throws JsonFault
inline i64 count_at(const nlohmann::json& object, const char* key)
{
    const i64 count = integer_at(object, key);
    if (count < 0 || count > i64{1} << 62)
        throw_wrong_json(object[key], key, "a count");
    return count;
}

/// \throws JsonFault
inline const std::string& json_text(const nlohmann::json& value, const std::string& key = "")
{
    if (!value.is_string())
        throw_wrong_json(value, key, "text");
    return value.get_ref<const std::string&>();
}

/// A hash of 16 hexadecimal digits. \throws JsonFault
inline u64 json_hash(const nlohmann::json& value, const std::string& key = "")
{
    const std::string& text = json_text(value, key);
    if (text.size() != 16 || text.find_first_not_of("0123456789abcdef") != std::string::npos)
        throw_wrong_json(value, key, "a hash");
    return std::stoull(text, nullptr, 16);
}

// As json_text and json_hash, for object[key].
inline const std::string& text_at(const nlohmann::json& object, const char* key)
{
    return json_text(json_member(object, key), key);
}
inline u64 hash_at(const nlohmann::json& object, const char* key)
{
    return json_hash(json_member(object, key), key);
}

/// object[key], a list. \throws JsonFault
inline const nlohmann::json::array_t& list_at(const nlohmann::json& object, const char* key)
{
    const nlohmann::json& value = json_member(object, key);
    if (!value.is_array())
        throw_wrong_json(value, key, "a list");
    return value.get_ref<const nlohmann::json::array_t&>();
}

} // namespace trivium
