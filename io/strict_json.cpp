#include "io/strict_json.hpp"

#include "base/check.hpp"

#include <set>
#include <vector>

namespace trivium {

using Json = nlohmann::json;

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
        std::string reason = error.what(); // "[json.exception.parse_error.101] parse error at …"
        reason = reason.substr(std::min(reason.find("] ") + 2, reason.size()));
        refuse("is no JSON", reason.size() > 300 ? reason.substr(0, 300) + " …" : reason);
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
