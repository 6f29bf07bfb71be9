#include "serve/http_server.hpp"

#include "base/check.hpp"
#include "serve/httplib/connections.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <httplib.h>
#include <limits>
#include <sys/socket.h>
#include <thread>

namespace trivium {

namespace {

constexpr int keep_alive_seconds = 2;             // stop() waits for connections that are idle so long
constexpr Bytes most_discarded = Bytes{64} << 20; // of a body that is too long
constexpr int transfer_seconds = 30;              // without a byte, until a client counts as gone

void send(HttpReply reply, httplib::Response& to)
{
    to.status = reply.status;
    if (reply.retry_after > 0)
        to.set_header("Retry-After", std::to_string(reply.retry_after));
    if (reply.status == 401)
        to.set_header("WWW-Authenticate", "Bearer");
    if (!reply.stream) {
        to.set_content(reply.body, reply.type);
        return;
    }
    to.set_chunked_content_provider(reply.type,
                                    [stream = std::move(reply.stream)](std::size_t, httplib::DataSink& sink) {
                                        bool is_open = true;
                                        stream([&](std::string_view text) {
                                            return is_open = is_open && sink.write(text.data(), text.size());
                                        });
                                        if (is_open)
                                            sink.done();
                                        return is_open;
                                    });
}

enum class BodyEnd { whole, too_long, broken };

/// Reads the body; of one that is too long up to most_discarded, because clients may read an answer only when
/// they have sent it.
BodyEnd read_body(const httplib::Request& request, const httplib::ContentReader& reader, Bytes limit,
                  const std::function<void(std::string_view)>& keep)
{
    Bytes seen = 0;
    const auto receive = [&](const char* data, std::size_t size) {
        seen += static_cast<Bytes>(size);
        if (seen <= limit)
            keep({data, size});
        return seen <= most_discarded;
    };
    const bool is_whole = request.is_multipart_form_data() ? reader([](const auto&) { return true; }, receive)
                                                           : reader(receive);
    if (is_whole)
        return seen > limit ? BodyEnd::too_long : BodyEnd::whole;
    return seen > limit ? BodyEnd::too_long : BodyEnd::broken;
}

/// Of its header; 0: it has none.
Bytes stated_length(const httplib::Request& request)
{
    const std::string text = request.get_header_value("Content-Length");
    return static_cast<Bytes>(std::min<unsigned long long>(std::strtoull(text.c_str(), nullptr, 10),
                                                           std::numeric_limits<Bytes>::max()));
}

/// Sends it and closes the connection, on which the rest of a body may follow: the library does so if a
/// provider of content fails.
void send_last(const HttpReply& reply, httplib::Response& to)
{
    to.status = reply.status;
    to.set_header("Connection", "close");
    to.set_content_provider(reply.body.size(), reply.type,
                            [body = reply.body](std::size_t, std::size_t, httplib::DataSink& sink) {
                                sink.write(body.data(), body.size());
                                return false;
                            });
}

} // namespace

struct HttpServer::Parts {
    HttpConfig config;
    HttpHandler handler;
    httplib::Server server;
    int port = 0;
    std::thread thread;
    std::atomic<bool> listens = false;

    HttpRequest request_of(const httplib::Request& from) const
    {
        const int socket = connection_from(port, from.remote_addr, from.remote_port);
        return {from.method, from.path, from.get_header_value("Authorization"), "",
                [socket] { return socket < 0 || !has_hung_up(socket); }};
    }

    void answer(const httplib::Request& from, httplib::Response& to)
    {
        HttpRequest request = request_of(from);
        request.body = from.body;
        std::optional<HttpReply> refused = handler.refuse(request);
        send(refused ? std::move(*refused) : handler.answer(request), to);
    }

    void answer_with_body(const httplib::Request& from, httplib::Response& to,
                          const httplib::ContentReader& reader)
    {
        HttpRequest request = request_of(from);
        std::optional<HttpReply> refused = handler.refuse(request);
        BodyEnd end = BodyEnd::whole;
        if (stated_length(from) > most_discarded)
            end = BodyEnd::too_long;
        else if (from.has_header("Content-Length") ||
                 from.has_header("Transfer-Encoding")) // else it has none
            end = read_body(from, reader, config.body_limit, [&](std::string_view part) {
                if (!refused)
                    request.body += part;
            });
        if (end != BodyEnd::whole)
            return send_last(
                end == BodyEnd::too_long
                    ? handler.error(413, str("the body has more than ", format_bytes(config.body_limit)))
                    : handler.error(400, "the body is incomplete or damaged"),
                to);
        send(refused ? std::move(*refused) : handler.answer(request), to);
    }
};

HttpServer::HttpServer(const HttpConfig& config, HttpHandler handler) : parts_(std::make_unique<Parts>())
{
    parts_->config = config;
    parts_->handler = std::move(handler);
    httplib::Server& server = parts_->server;
    // The library's own choice lets several servers share a port.
    server.set_socket_options([](auto socket) {
        const int yes = 1;
        setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    server.set_tcp_nodelay(true);
    server.set_keep_alive_timeout(keep_alive_seconds);
    server.set_keep_alive_max_count(1'000'000);
    server.set_read_timeout(transfer_seconds);
    server.set_write_timeout(transfer_seconds);
    server.set_payload_max_length(std::numeric_limits<std::size_t>::max()); // see read_body()
    server.new_task_queue = [n = static_cast<std::size_t>(config.connections)] {
        return new httplib::ThreadPool(n);
    };
    const auto plain = [parts = parts_.get()](const httplib::Request& from, httplib::Response& to) {
        parts->answer(from, to);
    };
    const auto with_body = [parts = parts_.get()](const httplib::Request& from, httplib::Response& to,
                                                  const httplib::ContentReader& reader) {
        parts->answer_with_body(from, to, reader);
    };
    const std::string any = ".*";
    server.Get(any, plain).Options(any, plain);
    server.Post(any, with_body).Put(any, with_body).Patch(any, with_body).Delete(any, with_body);
    server.set_error_handler([parts = parts_.get()](const httplib::Request&, httplib::Response& to) {
        if (to.body.empty() && !to.has_header("Content-Type")) // refused by the library
            send(
                parts->handler.error(to.status, str("the request is not valid HTTP or not supported (status ",
                                                    to.status, ")")),
                to);
    });

    errno = 0;
    if (config.port == 0)
        parts_->port = server.bind_to_any_port(config.host);
    else
        parts_->port = server.bind_to_port(config.host, config.port) ? config.port : -1;
    if (parts_->port <= 0) {
        const int error = errno;
        const std::string place = str(config.host, ":", config.port);
        if (error == EADDRINUSE)
            throw UserError({place, "the address is in use", "another program listens on this port",
                             "choose another --port; 0 takes one that is free"});
        throw UserError({place, "cannot listen on this address", error ? std::strerror(error) : "",
                         "--host is a name or an address of this machine, --port one that you may use"});
    }
}

HttpServer::~HttpServer() { stop(); }

int HttpServer::port() const { return parts_->port; }

void HttpServer::start()
{
    parts_->listens = true;
    parts_->thread = std::thread([parts = parts_.get()] {
        parts->server.listen_after_bind();
        parts->listens = false;
    });
}

void HttpServer::stop()
{
    if (!parts_->thread.joinable())
        return;
    while (parts_->listens && !parts_->server.is_running()) // a stop before it runs has no effect
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (parts_->listens)
        parts_->server.stop(); // once
    const auto patience = std::chrono::steady_clock::now() + parts_->config.last_transfers;
    for (; parts_->listens; std::this_thread::sleep_for(std::chrono::milliseconds(2)))
        if (std::chrono::steady_clock::now() > patience)
            hang_up(parts_->port);
    parts_->thread.join();
}

} // namespace trivium
