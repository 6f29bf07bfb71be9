#pragma once
// Reads the keys of a config.json.
#include "base/check.hpp"
#include "io/files/strict_json.hpp"

#include <cmath>
#include <optional>
#include <vector>

namespace trivium {

/// The keys of one object, by their names in the file. null counts as a missing key, but where a default
/// stands for a missing key, null is no value.
struct ConfigKeys {
    const nlohmann::json& json;
    const nlohmann::json& defaults; ///< values of missing keys, by name in the file
    const std::string& place;

    [[noreturn]] void refuse(const std::string& problem, const std::string& reason = "") const
    {
        throw UserError({place, problem, reason, "get the file again from where it came from"});
    }
    /// Throws: `what` is valid, but no model that Trivium can train has it.
    [[noreturn]] void unsupported(const std::string& what, const std::string& reason) const
    {
        throw UserError({place, "this model cannot be imported: " + what, reason,
                         "docs/hugging-face.md lists what can be"});
    }
    [[noreturn]] void wrong(const std::string& key, const nlohmann::json& value, const char* expected) const
    {
        refuse(str("has ", key, " = ", shown(value)), str("it must be ", expected));
    }

    const nlohmann::json* find(const std::string& key) const
    {
        auto at = json.find(key);
        if (at == json.end() && (at = defaults.find(key)) == defaults.end())
            return nullptr;
        return at->is_null() ? nullptr : &*at;
    }
    i64 whole(const std::string& key, std::optional<i64> otherwise = {}) const
    {
        const nlohmann::json* value = find(key);
        if (!value) {
            if (!otherwise)
                refuse(str("has no ", key));
            return *otherwise;
        }
        if (!value->is_number_integer() || *value < 0 || *value > (i64{1} << 31) - 1)
            wrong(key, *value, "a whole number below 2^31");
        return value->get<i64>();
    }
    double number(const std::string& key, std::optional<double> otherwise = {}) const
    {
        const nlohmann::json* value = find(key);
        if (!value) {
            if (!otherwise)
                refuse(str("has no ", key));
            return *otherwise;
        }
        if (!value->is_number())
            wrong(key, *value, "a number");
        return value->get<double>();
    }
    /// A number above 0; `otherwise` if there is none.
    double positive(const std::string& key, std::optional<double> otherwise = {}) const
    {
        const double value = number(key, otherwise);
        if (find(key) && !(value > 0 && std::isfinite(value)))
            wrong(key, *find(key), "positive");
        return value;
    }
    bool flag(const std::string& key, bool otherwise = false) const
    {
        const nlohmann::json* value = find(key);
        if (value && !value->is_boolean())
            wrong(key, *value, "true or false");
        return value ? value->get<bool>() : otherwise;
    }
    std::string text(const std::string& key) const
    {
        const nlohmann::json* value = find(key);
        if (value && !value->is_string())
            wrong(key, *value, "text");
        return value ? value->get<std::string>() : "";
    }
    std::vector<double> numbers(const std::string& key) const
    {
        const nlohmann::json* value = find(key);
        if (!value || !value->is_array() || value->size() > 65536)
            refuse(str("has no list ", key));
        std::vector<double> list;
        for (const nlohmann::json& entry : *value) {
            if (!entry.is_number())
                wrong(key, *value, "a list of numbers");
            list.push_back(entry.get<double>());
        }
        return list;
    }
    /// An object without keys if it is missing.
    const nlohmann::json& object(const std::string& key) const
    {
        static const nlohmann::json empty = nlohmann::json::object();
        const nlohmann::json* value = find(key);
        if (value && !value->is_object())
            wrong(key, *value, "an object");
        return value ? *value : empty;
    }
};

} // namespace trivium
