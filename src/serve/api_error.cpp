#include "serve/api_error.hpp"

#include <string_view>

namespace trivium {

namespace {

const char* type_of(int status)
{
    switch (status) {
    case 401: return "authentication_error";
    case 404: return "not_found_error";
    case 429: return "rate_limit_error";
    case 500: return "server_error";
    case 503: return "service_unavailable_error";
    default: return "invalid_request_error";
    }
}

} // namespace

nlohmann::ordered_json json_of(const ApiError& error)
{
    nlohmann::ordered_json json{{"message", error.what()}, {"type", type_of(error.status())}};
    json["param"] = error.param().empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(error.param());
    json["code"] = error.status();
    return {{"error", json}};
}

std::string one_line(const std::exception& error)
{
    std::string text = error.what();
    constexpr std::string_view reason = "\n  reason: ", remedy = "\n  remedy: ";
    const std::size_t at = text.rfind(remedy);
    std::string rest;
    if (at != std::string::npos) {
        rest = "; " + text.substr(at + remedy.size());
        text.erase(at);
    }
    if (const std::size_t begin = text.find(reason); begin != std::string::npos)
        text = text.substr(0, begin) + " (" + text.substr(begin + reason.size()) + ")";
    text += rest;
    for (char& c : text)
        if (c == '\n')
            c = ' ';
    return text;
}

} // namespace trivium
