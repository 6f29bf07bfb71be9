#include "io/strict_json.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <set>
#include <vector>

namespace trivium {

using Json = nlohmann::json;

JsonReason plain_reason(const nlohmann::json::exception& error, std::string_view text)
{
    constexpr std::size_t most = 200;
    std::string reason = error.what(); // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error while parsing …"
    reason = reason.substr(std::min(reason.find("] ") + 2, reason.size()));
    JsonReason plain;
    const auto* parse = dynamic_cast<const nlohmann::json::parse_error*>(&error);
    if (parse != nullptr && parse->byte > 0) {
        const std::size_t end = text.find_last_not_of(" \t\r\n") + 1; // a text that ends too early, ends there
        const std::string_view before = text.substr(0, std::min(parse->byte - 1, end));
        plain.line = 1 + std::count(before.begin(), before.end(), '\n');
        const std::size_t begin = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
        if (const std::size_t colon = reason.find(": "); colon != std::string::npos)
            reason = reason.substr(colon + 2);
        reason = str("column ", before.size() - begin + 1, ": ", reason);
    }
    // Bytes of the text that are not UTF-8, and long tokens, are quoted in it.
    reason = Json(reason.substr(0, most)).dump(-1, ' ', false, Json::error_handler_t::replace);
    plain.reason = Json::parse(reason).get<std::string>();
    return plain;
}

nlohmann::json parse_strict_json(std::string_view text, const std::string& place, int depth)
{
    const auto refuse = [&](const std::string& problem, const std::string& reason) {
        throw UserError({place, problem, reason, "get the file again from where it came from"});
    };
    std::vector<std::set<std::string>> keys; // of the objects that are open
    const auto watch = [&](int, Json::parse_event_t event, Json& parsed) {
        if (event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start) {
            keys.emplace_back();
            if (keys.size() > static_cast<std::size_t>(depth))
                refuse("is nested too deeply", str("more than ", depth, " levels"));
        } else if (event == Json::parse_event_t::object_end || event == Json::parse_event_t::array_end) {
            keys.pop_back();
        } else if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get_ref<const std::string&>()).second) {
            refuse("has the key " + in_quotes(parsed.get_ref<const std::string&>()) + " twice", "");
        }
        return true;
    };
    try {
        return Json::parse(text, watch);
    } catch (const Json::exception& error) {
        const JsonReason plain = plain_reason(error, text);
        const bool has_lines = plain.line > 0 && text.find('\n') < text.find_last_not_of(" \t\r\n");
        throw UserError({has_lines ? str(place, ":", plain.line) : place, "is not valid JSON", plain.reason, "get the file again from where it came from"});
    }
    return {};
}

std::string in_quotes(std::string_view text)
{
    constexpr std::size_t most = 100;
    const bool is_long = text.size() > most;
    // Cut or damaged UTF-8 becomes U+FFFD.
    return Json(text.substr(0, most)).dump(-1, ' ', false, Json::error_handler_t::replace) + (is_long ? "…" : "");
}

} // namespace trivium
