#include "io/files/strict_json.hpp"

#include "base/check.hpp"
#include "io/files/files.hpp"

#include <algorithm>
#include <limits>
#include <unordered_set>
#include <vector>

namespace trivium {

using Json = nlohmann::json;

namespace {

constexpr std::size_t most_comparisons = 1'000'000'000; ///< of keys: objects in order are searched one by one
constexpr std::size_t max_shown = 100;                  ///< characters of a value in a message

/// Checks the text without building values. (With the library's parser callbacks, a list of n objects takes
/// O(n^2) time.)
class Checker final : public nlohmann::json_sax<Json> {
public:
    /// `comparisons`: of keys, at most.
    Checker(std::string_view text, const std::string& place, int depth, const char* remedy,
            std::size_t comparisons)
        : text_(text), place_(place), depth_(static_cast<std::size_t>(depth)), remedy_(remedy),
          comparisons_(comparisons)
    {
    }

    bool null() override { return true; }
    bool boolean(bool) override { return true; }
    bool number_integer(number_integer_t) override { return true; }
    bool number_unsigned(number_unsigned_t) override { return true; }
    bool number_float(number_float_t, const string_t&) override { return true; }
    bool string(string_t&) override { return true; }
    bool binary(binary_t&) override { return true; }
    bool start_object(std::size_t) override { return begin(); }
    bool start_array(std::size_t) override { return begin(); }
    bool end_object() override { return end(); }
    bool end_array() override { return end(); }
    bool key(string_t& key) override
    {
        if (!keys_.back().insert(key).second)
            refuse("has the key " + in_quotes(key) + " twice", "");
        if (keys_.back().size() > comparisons_)
            refuse("has objects with too many keys", "");
        comparisons_ -= keys_.back().size();
        return true;
    }
    /// `position` counts bytes from 1. (The library's own line and column include its look-ahead.)
    bool parse_error(std::size_t position, const std::string&,
                     const nlohmann::detail::exception& error) override
    {
        const std::string_view before = text_.substr(0, std::max<std::size_t>(position, 1) - 1);
        const auto line = 1 + std::count(before.begin(), before.end(), '\n');
        const std::size_t begin = before.rfind('\n') + 1; // npos + 1: the first line
        refuse(str("is not valid JSON at line ", line, ", column ", before.size() - begin + 1),
               reason_of(error));
    }

private:
    [[noreturn]] void refuse(const std::string& problem, const std::string& reason) const
    {
        throw UserError({place_, problem, reason, remedy_});
    }
    bool begin()
    {
        keys_.emplace_back();
        if (keys_.size() > depth_)
            refuse("is nested too deeply", str("more than ", depth_, " levels"));
        return true;
    }
    bool end()
    {
        keys_.pop_back();
        return true;
    }

    std::string_view text_;
    const std::string& place_;
    std::size_t depth_;
    const char* remedy_;
    std::size_t comparisons_;
    std::vector<std::unordered_set<std::string>> keys_; ///< of each open object or array
};

template <class AnyJson>
AnyJson parse_strict(std::string_view text, const std::string& place, int depth, const char* remedy,
                     std::size_t comparisons)
{
    require_no_pointer(text, place);
    Checker checker(text, place, depth, remedy, comparisons);
    Json::sax_parse(text, &checker);
    return AnyJson::parse(text);
}

} // namespace

nlohmann::json parse_strict_json(std::string_view text, const std::string& place, int depth,
                                 const char* remedy)
{
    return parse_strict<nlohmann::json>(text, place, depth, remedy, std::numeric_limits<std::size_t>::max());
}

nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& place, int depth,
                                          const char* remedy)
{
    return parse_strict<nlohmann::ordered_json>(text, place, depth, remedy, most_comparisons);
}

std::string reason_of(const nlohmann::json::exception& error)
{
    // "[json.exception.parse_error.101] parse error at line 3, column 5: REASON", or "[…] REASON"
    constexpr std::size_t max_length = 300;
    std::string text = error.what();
    if (const std::size_t bracket = text.find("] "); text.starts_with("[") && bracket != std::string::npos)
        text.erase(0, bracket + 2);
    if (const std::size_t colon = text.find(": ");
        text.starts_with("parse error at ") && colon != std::string::npos)
        text.erase(0, colon + 2);
    // The message quotes the text, which may be long or not UTF-8.
    const std::string quoted =
        Json(text.substr(0, max_shown)).dump(-1, ' ', false, Json::error_handler_t::replace);
    return Json::parse(quoted).get<std::string>() + (text.size() > max_length ? " …" : "");
}

std::string in_quotes(std::string_view text)
{
    const bool is_long = text.size() > max_shown;
    // Truncated or invalid UTF-8 becomes U+FFFD.
    return Json(text.substr(0, max_shown)).dump(-1, ' ', false, Json::error_handler_t::replace) +
           (is_long ? "…" : "");
}

std::string shown(const Json& value)
{
    if (value.is_string())
        return in_quotes(value.get_ref<const std::string&>());
    const std::string text = value.dump(-1, ' ', true); // ASCII
    return text.size() <= max_shown ? text : text.substr(0, max_shown) + "…";
}

} // namespace trivium
