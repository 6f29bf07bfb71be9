// A build without cpp-httplib.
#include "serve/http_server.hpp"

#include "base/check.hpp"

namespace trivium {

struct HttpServer::Parts {};

HttpServer::HttpServer(const HttpConfig&, HttpHandler)
{
    throw UserError(
        {"trivium serve", "is not part of this build", "it was built without cpp-httplib",
         "install it (Debian, Ubuntu: libcpp-httplib-dev; Spack: trivium+serve) and build again"});
}
HttpServer::~HttpServer() = default;
int HttpServer::port() const { return 0; }
void HttpServer::start() {}
void HttpServer::stop() {}

} // namespace trivium
