// The server on a port of this machine.
#include "base/check.hpp"
#include "catch.hpp"
#include "fake_model.hpp"
#include "http_client.hpp"

using namespace trivium;
using nlohmann::json;

namespace {

constexpr Bytes limit = 10000;

struct Running {
    fake::Parts parts;
    HttpServer http;

    explicit Running(const std::string& token = "", int last_milliseconds = 5000)
        : parts(100, token), http({.body_limit = limit,
                                   .connections = 32,
                                   .last_transfers = std::chrono::milliseconds(last_milliseconds)},
                                  {[this](const HttpRequest& r) { return parts.api.refuse(r); },
                                   [this](const HttpRequest& r) { return parts.api.answer(r); }, Api::error})
    {
        http.start();
    }
};

} // namespace

TEST_CASE("requests and errors over a socket")
{
    Running server;
    const int port = server.http.port();
    const std::string good = answer(port, post("/v1/completions", R"({"prompt":"a","max_tokens":1})"));
    CHECK(good.starts_with("HTTP/1.1 200 "));
    CHECK(has(good, "application/json"));
    CHECK(json::parse(good.substr(good.find("\r\n\r\n") + 4))["usage"]["total_tokens"] == 2);
    CHECK(answer(port, "GET /health HTTP/1.1\r\nHost: x\r\n\r\n", "}").starts_with("HTTP/1.1 200 "));
    CHECK(answer(port, "GET /x HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 404 "));
    CHECK(answer(port, "POST /v1/completions HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 400 "));
    CHECK(answer(port, "DELETE /health HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 405 "));
    const std::string nonsense = answer(port, "nonsense\r\n\r\n");
    CHECK(nonsense.starts_with("HTTP/1.1 400 "));
    CHECK(has(nonsense, "\"error\""));
    const std::string streamed =
        answer(port, post("/v1/completions", R"({"prompt":"a","max_tokens":3,"stream":true})"), "[DONE]");
    CHECK(has(streamed, "text/event-stream"));
    CHECK(has(streamed, "data: [DONE]"));
}

TEST_CASE("bodies have a limit")
{
    Running server;
    const int port = server.http.port();
    const std::string large(2 * limit, ' ');
    const std::string refused = answer(port, post("/v1/completions", large));
    CHECK(refused.starts_with("HTTP/1.1 413 "));
    CHECK(has(refused, "the body has more than"));
    // One whose header says so, at once: nothing follows.
    const std::string huge =
        answer(port, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n", "}}");
    CHECK(huge.starts_with("HTTP/1.1 413 "));
    CHECK(has(huge, "the body has more than"));
    CHECK(has(huge, "Connection: close"));
    std::string chunked = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (int i = 0; i < 30; ++i)
        chunked += "3e8\r\n" + std::string(1000, ' ') + "\r\n";
    CHECK(answer(port, chunked + "0\r\n\r\n").starts_with("HTTP/1.1 413 "));
    CHECK(answer(port, post("/v1/completions",
                            "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nx\r\n--b--\r\n",
                            "Content-Type: multipart/form-data; boundary=b\r\n"))
              .starts_with("HTTP/1.1 400 "));
    CHECK(answer(port, post("/v1/completions", R"({"prompt":"a","max_tokens":1})"))
              .starts_with("HTTP/1.1 200 "));
}

TEST_CASE("a connection serves several requests, also after a refused one")
{
    Running server("a-token-of-some-length");
    Client client(server.http.port());
    const std::string body = R"({"prompt":"a","max_tokens":1})";
    client.send(post("/v1/completions", body));
    const std::string refused = client.receive("}}");
    CHECK(refused.starts_with("HTTP/1.1 401 "));
    CHECK(has(refused, "WWW-Authenticate: Bearer"));
    client.send(post("/v1/completions", body, "Authorization: Bearer a-token-of-some-length\r\n"));
    CHECK(client.receive("}}").starts_with("HTTP/1.1 200 "));
}

TEST_CASE("many clients at a time get their own answers")
{
    Running server;
    std::vector<std::thread> clients;
    std::atomic<int> right = 0;
    for (int i = 0; i < 24; ++i)
        clients.emplace_back([&, i] {
            const std::string prompt(static_cast<std::size_t>(1 + i), static_cast<char>('a' + i));
            for (int times = 0; times < 5; ++times) {
                const std::string got =
                    answer(server.http.port(),
                           post("/v1/completions", json{{"prompt", prompt}, {"max_tokens", 5}}.dump()));
                const std::string expected = fake::complete({{prompt.begin(), prompt.end()}, 5}).text;
                right += has(got, "\"text\":\"" + expected + "\"") ? 1 : 0;
            }
        });
    for (std::thread& thread : clients)
        thread.join();
    CHECK(right == 24 * 5);
}

TEST_CASE("a stop finishes what runs")
{
    Running server;
    server.parts.rows.turns = 0;
    std::string got;
    std::thread client([&] {
        got = answer(server.http.port(), post("/v1/completions", R"({"prompt":"a","max_tokens":3})"));
    });
    while (server.parts.queue.size() == 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    for (server.parts.rows.turns = 2; server.parts.rows.turns > 0;)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::thread stop([&] { server.http.stop(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    server.parts.end();
    stop.join();
    client.join();
    CHECK(has(got, "HTTP/1.1 200 "));
    CHECK_THROWS(Client(server.http.port()));
}

TEST_CASE("a client that goes is noticed before its answer")
{
    Running server;
    server.parts.rows.turns = 0;
    {
        const Client client(server.http.port());
        client.send(post("/v1/completions", R"({"prompt":"a","max_tokens":60})"));
        while (server.parts.queue.size() == 0)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ++server.parts.rows.turns;
    }
    for (int turn = 0; turn < 50 && server.parts.queue.size() > 0; ++turn) {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        ++server.parts.rows.turns;
    }
    CHECK(server.parts.queue.size() == 0);
}

TEST_CASE("a stop ends the connections of clients that never come to an end")
{
    Running server("", 50);
    const Client head(server.http.port()), body(server.http.port());
    head.send("POST /v1/comp");
    body.send("POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 10000\r\n\r\n{");
    CHECK(answer(server.http.port(), get("/health"), "}").starts_with("HTTP/1.1 200 ")); // both are accepted
    server.parts.end();
    std::atomic<bool> is_stopped = false;
    std::thread drips([&] {
        for (; !is_stopped; std::this_thread::sleep_for(std::chrono::milliseconds(10)))
            body.send(" ");
    });
    server.http.stop();
    is_stopped = true;
    drips.join();
}

TEST_CASE("an address that cannot be used is one clear error")
{
    Running server;
    const auto failure = [](const HttpConfig& config) {
        return message_of<UserError>([&] { HttpServer(config, {}); });
    };
    const std::string in_use = failure({.port = server.http.port()});
    CHECK(has(in_use, "127.0.0.1:" + std::to_string(server.http.port()) + ": the address is in use"));
    CHECK(has(failure({.host = "192.0.2.1"}), "192.0.2.1:0: cannot listen on this address"));
}
