#include "mpi/side_channel.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <random>
#include <sstream>
#include <sys/socket.h>
#include <unistd.h>

namespace trivium {

namespace {

using Clock = std::chrono::steady_clock;

/// Which machine this is, since it was started.
std::string machine_id()
{
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::string id;
    return file >> id ? id : "unknown";
}

/// This machine's IPv4 addresses that others may reach.
std::vector<std::string> outer_addresses()
{
    std::vector<std::string> addresses;
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0)
        return addresses;
    for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
        if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET || (each->ifa_flags & IFF_UP) == 0 || (each->ifa_flags & IFF_LOOPBACK) != 0)
            continue;
        char text[INET_ADDRSTRLEN] = "";
        inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr, text, sizeof text);
        addresses.emplace_back(text);
    }
    freeifaddrs(list);
    return addresses;
}

sockaddr_in address_of(const std::string& ip, std::uint16_t port)
{
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    inet_pton(AF_INET, ip.c_str(), &address.sin_addr);
    return address;
}

struct Header {
    u64 key;
    std::int32_t from;
};

} // namespace

struct SideChannel::Impl {
    int socket = -1;
    int rank = 0;
    u64 key = 0;
    std::vector<std::vector<sockaddr_in>> peers; ///< by rank: where it may be reached

    ~Impl()
    {
        if (socket >= 0)
            ::close(socket);
    }

    std::uint16_t open()
    {
        socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        sockaddr_in own{};
        own.sin_family = AF_INET;
        own.sin_addr.s_addr = htonl(INADDR_ANY);
        socklen_t size = sizeof own;
        if (socket < 0 || ::bind(socket, reinterpret_cast<const sockaddr*>(&own), size) != 0 || ::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) != 0)
            throw IoError({"the watchdog", str("gets no UDP socket: ", std::strerror(errno)), "", "job.watchdog=0 goes without it"});
        return ntohs(own.sin_port);
    }
};

SideChannel::SideChannel(Comm& world) : impl_(std::make_unique<Impl>())
{
    impl_->rank = world.rank();
    std::string own; // "MACHINE PORT ADDRESS…"
    succeed_together(world, [&] {
        own = str(machine_id(), " ", impl_->open());
        for (const std::string& address : outer_addresses())
            own += " " + address;
    });
    std::random_device device;
    impl_->key = gather_numbers(world, (u64{device()} << 32) | device()).front();
    const std::string machine = machine_id();
    for (const std::string& text : gather_texts(world, own)) {
        std::istringstream words(text);
        std::string theirs, ip;
        int port = 0;
        words >> theirs >> port;
        std::vector<sockaddr_in>& addresses = impl_->peers.emplace_back();
        if (theirs == machine)
            addresses.push_back(address_of("127.0.0.1", static_cast<std::uint16_t>(port)));
        while (words >> ip) // of the same machine too: containers on it share no loopback
            addresses.push_back(address_of(ip, static_cast<std::uint16_t>(port)));
    }
}

SideChannel::~SideChannel() = default;

void SideChannel::send(int to, std::string_view text) const
{
    const Header header{impl_->key, impl_->rank};
    std::string datagram(reinterpret_cast<const char*>(&header), sizeof header);
    datagram += text.substr(0, static_cast<std::size_t>(longest));
    for (const sockaddr_in& address : impl_->peers[static_cast<std::size_t>(to)])
        ::sendto(impl_->socket, datagram.data(), datagram.size(), MSG_DONTWAIT | MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

std::optional<SideChannel::Message> SideChannel::receive(Seconds limit) const
{
    const auto until = Clock::now() + std::chrono::duration<double>(limit);
    char buffer[sizeof(Header) + static_cast<std::size_t>(longest)];
    for (;;) {
        const ssize_t size = ::recv(impl_->socket, buffer, sizeof buffer, MSG_DONTWAIT);
        Header header{};
        if (size >= static_cast<ssize_t>(sizeof header)) {
            std::memcpy(&header, buffer, sizeof header);
            const bool known = header.key == impl_->key && header.from >= 0 && static_cast<std::size_t>(header.from) < impl_->peers.size();
            if (known)
                return Message{header.from, std::string(buffer + sizeof header, buffer + size)};
            continue;
        }
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
        if (left <= 0)
            return std::nullopt;
        pollfd waiting{impl_->socket, POLLIN, 0};
        ::poll(&waiting, 1, static_cast<int>(left));
    }
}

} // namespace trivium
