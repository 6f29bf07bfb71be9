#pragma once
// The endpoints.
#include "serve/completions.hpp"
#include "serve/http_server.hpp"
#include "serve/jobs.hpp"

namespace trivium {

/// Answers requests; several threads may call it concurrently.
class Api {
public:
    /// `token`: what clients must send ("Authorization: Bearer TOKEN"); empty: nothing. `queue` must outlive
    /// it.
    Api(TextQueue& queue, std::string token) : queue_(queue), token_(std::move(token)) {}

    /// What is served from now on; before the first call, requests get 503.
    void serve(std::shared_ptr<const ServedModel> model);

    /// 401, 404, 405 and 503: what needs no body.
    std::optional<HttpReply> refuse(const HttpRequest& request) const;
    /// \pre refuse() returns nothing
    HttpReply answer(const HttpRequest& request);
    static HttpReply error(int status, const std::string& message);

private:
    std::shared_ptr<const ServedModel> model() const;
    HttpReply complete(const HttpRequest& request, bool is_chat);

    TextQueue& queue_;
    std::string token_;
    mutable std::mutex mutex_; ///< protects model_
    std::shared_ptr<const ServedModel> model_;
};

} // namespace trivium
