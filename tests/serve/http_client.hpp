#pragma once
// HTTP by hand: requests as texts, on sockets of this machine.
#include "has.hpp"

#include <arpa/inet.h>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <unistd.h>

inline sockaddr_in loopback(int port)
{
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

/// A port that somebody listens on.
class Listener {
public:
    Listener() : socket_(::socket(AF_INET, SOCK_STREAM, 0))
    {
        sockaddr_in address = loopback(0);
        socklen_t size = sizeof address;
        if (::bind(socket_, reinterpret_cast<sockaddr*>(&address), size) != 0 || ::listen(socket_, 1) != 0 ||
            ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
            throw std::runtime_error("cannot listen");
        port_ = ntohs(address.sin_port);
    }
    Listener(const Listener&) = delete;
    ~Listener() { ::close(socket_); }
    int port() const { return port_; }

private:
    int socket_, port_ = 0;
};
/// Most likely still free when it is used.
inline int free_port() { return Listener().port(); }

/// A connection of a client.
class Client {
public:
    explicit Client(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0))
    {
        const sockaddr_in address = loopback(port);
        if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
            throw std::runtime_error("cannot connect");
    }
    Client(const Client&) = delete;
    ~Client() { ::close(socket_); }

    void send(std::string_view text) const
    {
        while (!text.empty()) {
            const ssize_t sent = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
            if (sent <= 0)
                return; // the server has closed
            text.remove_prefix(static_cast<std::size_t>(sent));
        }
    }
    /// Until `end` was received or the server closes.
    std::string receive(const std::string& end)
    {
        std::string got;
        char buffer[4096];
        while (!has(got, end)) {
            const ssize_t n = ::recv(socket_, buffer, sizeof buffer, 0);
            if (n <= 0)
                break;
            got.append(buffer, static_cast<std::size_t>(n));
        }
        return got;
    }

    /// What has come by now.
    std::string received()
    {
        std::string got;
        char buffer[4096];
        for (ssize_t n; (n = ::recv(socket_, buffer, sizeof buffer, MSG_DONTWAIT)) > 0;)
            got.append(buffer, static_cast<std::size_t>(n));
        return got;
    }

private:
    int socket_;
};

inline std::string post(const std::string& path, const std::string& body, const std::string& headers = "")
{
    return "POST " + path + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + headers +
           "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

/// The answer to a request on a connection of its own.
inline std::string answer(int port, const std::string& request, const std::string& end = "}}")
{
    Client client(port);
    client.send(request);
    return client.receive(end);
}

inline std::string get(const std::string& path) { return "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n"; }

/// An answer without its head.
inline std::string content_of(const std::string& answer)
{
    const std::size_t head = answer.find("\r\n\r\n");
    return head == std::string::npos ? "" : answer.substr(head + 4);
}
