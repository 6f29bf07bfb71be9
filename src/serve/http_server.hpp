#pragma once
// HTTP. Without cpp-httplib, the constructor throws a UserError that says how to get it.
#include "base/units.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace trivium {

struct HttpConfig {
    std::string host = "127.0.0.1"; ///< a name or an address of this machine
    int port = 0;                   ///< 0: any that is free
    Bytes body_limit = Bytes{8} << 20;
    int connections = 64;                           ///< that are served at a time; others wait
    std::chrono::milliseconds last_transfers{5000}; ///< see HttpServer::stop()
};

struct HttpRequest {
    std::string method, path; ///< "GET", "/v1/models"
    std::string authorization;
    std::string body{};
    std::function<bool()> is_open{}; ///< false: the client has gone. Valid while the request is answered
};

/// Sends a part of the answer; false if the client has gone.
using SendText = std::function<bool(std::string_view)>;

struct HttpReply {
    int status = 200;
    std::string body, type = "application/json";
    int retry_after = 0;                           ///< seconds; 0: not stated
    std::function<void(const SendText&)> stream{}; ///< if set, it sends the body
};

/// Several threads call it concurrently; it does not throw.
struct HttpHandler {
    /// An answer that needs no body: such a request's body is not kept.
    std::function<std::optional<HttpReply>(const HttpRequest&)> refuse;
    std::function<HttpReply(const HttpRequest&)> answer;
    std::function<HttpReply(int status, const std::string& message)> error; ///< what HTTP itself refuses
};

class HttpServer {
public:
    /// Binds the address. UserError if it is in use or not one of this machine.
    HttpServer(const HttpConfig& config, HttpHandler handler);
    HttpServer(const HttpServer&) = delete;
    HttpServer& operator=(const HttpServer&) = delete;
    /// stop()
    ~HttpServer();

    int port() const;
    /// Answers requests, in threads, from now on.
    void start();
    /// Closes the address and waits until all requests are answered; after HttpConfig::last_transfers, closes
    /// the connections of clients that still send their request or read the answer.
    void stop();

private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
};

} // namespace trivium
