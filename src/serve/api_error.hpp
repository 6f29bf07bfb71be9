#pragma once
// An error that a client gets.
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace trivium {

class ApiError : public std::runtime_error {
public:
    /// `status`: of HTTP, 400 and above. `param`: the field of the request that is wrong; may be empty.
    ApiError(int status, const std::string& message, std::string param = "")
        : std::runtime_error(message), status_(status), param_(std::move(param))
    {
    }
    int status() const { return status_; }
    const std::string& param() const { return param_; }

private:
    int status_;
    std::string param_;
};

/// In OpenAI's form: {"error": {"message", "type", "param", "code"}}.
nlohmann::ordered_json json_of(const ApiError& error);

/// The message of a UserError without line breaks: "place: problem (reason); remedy".
std::string one_line(const std::exception& error);

} // namespace trivium
