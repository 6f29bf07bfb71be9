#include "serve/httplib/connections.hpp"

#include <charconv>
#include <filesystem>
#include <netdb.h>
#include <poll.h>
#include <string_view>
#include <sys/socket.h>
#include <vector>

namespace trivium {

namespace {

struct End {
    std::string address;
    int port = -1; ///< -1: the socket is not connected
};

/// `name`: getsockname or getpeername.
template <class Name>
End end_of(int socket, Name name)
{
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    char host[NI_MAXHOST] = {}, port[NI_MAXSERV] = {};
    if (name(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
        getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return {};
    End end{host, -1};
    std::from_chars(port, port + std::string_view(port).size(), end.port);
    return end;
}

/// Calls `take` with each connection to the port, and the client's end.
template <class Take>
void for_each_connection(int local_port, const Take& take)
{
    std::error_code ignored;
    std::vector<int> files;
    for (std::filesystem::directory_iterator entry("/proc/self/fd", ignored), end; !ignored && entry != end;
         entry.increment(ignored)) {
        const std::string name = entry->path().filename();
        int file = -1;
        std::from_chars(name.data(), name.data() + name.size(), file);
        files.push_back(file);
    }
    for (const int file : files)
        if (end_of(file, getsockname).port == local_port)
            if (const End peer = end_of(file, getpeername); peer.port >= 0)
                take(file, peer);
}

} // namespace

int connection_from(int local_port, const std::string& address, int port)
{
    int found = -1;
    for_each_connection(local_port, [&](int socket, const End& peer) {
        if (peer.port == port && peer.address == address)
            found = socket;
    });
    return found;
}

bool has_hung_up(int socket)
{
    pollfd look{socket, POLLRDHUP, 0};
    return ::poll(&look, 1, 0) > 0 && (look.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

void hang_up(int local_port)
{
    for_each_connection(local_port, [](int socket, const End&) { ::shutdown(socket, SHUT_RDWR); });
}

} // namespace trivium
