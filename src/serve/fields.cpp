#include "serve/fields.hpp"

#include "base/check.hpp"
#include "io/files/strict_json.hpp"

#include <cmath>

namespace trivium {

namespace {

[[noreturn]] void refuse(const char* name, const std::string& what, const nlohmann::ordered_json& value)
{
    throw ApiError(400, str(name, " must be ", what, ", is ", shown(value)), name);
}

bool is_whole(const nlohmann::ordered_json& value)
{
    return value.is_number_integer() ||
           (value.is_number_float() && std::trunc(value.get<double>()) == value.get<double>());
}

} // namespace

JsonFields::JsonFields(const nlohmann::ordered_json& body) : body_(body)
{
    if (!body.is_object())
        throw ApiError(400, str("the body must be a JSON object, is ", shown(body)));
}

const nlohmann::ordered_json* JsonFields::find(const char* name) const
{
    const auto at = body_.find(name);
    return at == body_.end() || at->is_null() ? nullptr : &*at;
}

i64 JsonFields::integer(const char* name, i64 fallback, i64 low, i64 high) const
{
    const nlohmann::ordered_json* value = find(name);
    if (!value)
        return fallback;
    // As a number first: a larger one than i64 holds is out of range, too.
    if (!is_whole(*value) || value->get<double>() < static_cast<double>(low) ||
        value->get<double>() > static_cast<double>(high))
        refuse(name, str("an integer from ", low, " to ", high), *value);
    return value->is_number_float() ? static_cast<i64>(value->get<double>()) : value->get<i64>();
}

double JsonFields::number(const char* name, double fallback, double low, double high) const
{
    const nlohmann::ordered_json* value = find(name);
    if (!value)
        return fallback;
    if (!value->is_number() || !(value->get<double>() >= low && value->get<double>() <= high))
        refuse(name, str("a number from ", low, " to ", high), *value);
    return value->get<double>();
}

bool JsonFields::flag(const char* name, bool fallback) const
{
    const nlohmann::ordered_json* value = find(name);
    if (value && !value->is_boolean())
        refuse(name, "true or false", *value);
    return value ? value->get<bool>() : fallback;
}

std::string JsonFields::text(const char* name, const std::string& fallback) const
{
    const nlohmann::ordered_json* value = find(name);
    if (value && !value->is_string())
        throw ApiError(400, str(name, " is not supported as ", shown(*value), ": it must be a string"), name);
    return value ? value->get<std::string>() : fallback;
}

std::vector<std::string> JsonFields::texts(const char* name) const
{
    const nlohmann::ordered_json* value = find(name);
    if (!value)
        return {};
    if (value->is_string())
        return {value->get<std::string>()};
    if (!value->is_array())
        refuse(name, "a string or a list of strings", *value);
    std::vector<std::string> texts;
    for (const nlohmann::ordered_json& each : *value) {
        if (!each.is_string())
            refuse(name, "a string or a list of strings", *value);
        texts.push_back(each.get<std::string>());
    }
    return texts;
}

std::vector<i32> JsonFields::ids(const char* name, i64 vocab) const
{
    const nlohmann::ordered_json* value = find(name);
    return value ? token_ids(*value, name, vocab) : std::vector<i32>{};
}

void JsonFields::refuse_unless(const char* name, const nlohmann::ordered_json& neutral) const
{
    const nlohmann::ordered_json* value = find(name);
    if (value && *value != neutral && !(value->is_structured() && value->empty()))
        throw ApiError(400,
                       neutral == "" || neutral == 0
                           ? str(name, " is not supported: leave it out")
                           : str(name, " is supported only as ", neutral.dump(), ": leave it out"),
                       name);
}

std::vector<i32> token_ids(const nlohmann::ordered_json& list, const char* field, i64 vocab)
{
    if (!list.is_array())
        refuse(field, "a list of token ids", list);
    std::vector<i32> ids;
    ids.reserve(list.size());
    for (const nlohmann::ordered_json& each : list) {
        if (!each.is_number_integer() || each.get<double>() < 0 ||
            each.get<double>() >= static_cast<double>(vocab))
            throw ApiError(
                400, str(field, " contains ", shown(each), ": token ids are from 0 to ", vocab - 1), field);
        ids.push_back(each.get<i32>());
    }
    return ids;
}

} // namespace trivium
