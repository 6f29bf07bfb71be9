#pragma once
// The fields of a request in JSON. A field that is null counts as absent.
#include "base/units.hpp"
#include "serve/api_error.hpp"

#include <vector>

namespace trivium {

/// Throws ApiError 400, which names the field, if one has a wrong type or is out of range.
class JsonFields {
public:
    /// `body` must outlive it. ApiError if it is not an object.
    explicit JsonFields(const nlohmann::ordered_json& body);

    /// Null if it is absent.
    const nlohmann::ordered_json* find(const char* name) const;
    i64 integer(const char* name, i64 fallback, i64 low, i64 high) const;
    double number(const char* name, double fallback, double low, double high) const;
    std::string text(const char* name, const std::string& fallback) const;
    bool flag(const char* name, bool fallback) const;
    /// One text or a list of them.
    std::vector<std::string> texts(const char* name) const;
    std::vector<i32> ids(const char* name, i64 vocab) const;
    /// ApiError if it is present with another value than `neutral`, with which it changes nothing.
    void refuse_unless(const char* name, const nlohmann::ordered_json& neutral) const;

private:
    const nlohmann::ordered_json& body_;
};

/// A list of token ids; ApiError about `field` if one is not in 0 … vocab - 1.
std::vector<i32> token_ids(const nlohmann::ordered_json& list, const char* field, i64 vocab);

} // namespace trivium
