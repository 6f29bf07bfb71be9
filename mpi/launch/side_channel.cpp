#include "mpi/launch/side_channel.hpp"
#include "mpi/records.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <ifaddrs.h>
#include <linux/filter.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <thread>
#include <tuple>
#include <unistd.h>

namespace trivium {

namespace {

using Clock = std::chrono::steady_clock;

/// Identifies this machine since its boot.
std::string machine_id()
{
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::string id;
    return file >> id ? id : "unknown";
}

/// This machine's IPv4 addresses that other machines may reach.
std::vector<std::string> outer_addresses()
{
    std::vector<std::string> addresses;
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0)
        return addresses;
    for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
        if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET ||
            (each->ifa_flags & IFF_UP) == 0 || (each->ifa_flags & IFF_LOOPBACK) != 0)
            continue;
        char text[INET_ADDRSTRLEN] = "";
        inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(each->ifa_addr)->sin_addr, text,
                  sizeof text);
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

SipKey random_key()
{
    SipKey key{};
    if (::getrandom(key.data(), sizeof key, 0) != static_cast<ssize_t>(sizeof key))
        throw IoError({"the watchdog", str("cannot get a random key: ", std::strerror(errno)), "",
                       "job.watchdog=0 runs without a watchdog"});
    return key;
}

/// Makes the kernel drop datagrams that do not begin with `tag` (8 bytes) before they use the socket's queue.
/// If the kernel accepts no filter, they are dropped later.
void filter_datagrams(int socket, const std::string& tag)
{
    std::uint32_t words[2] = {};
    std::memcpy(words, tag.data(), sizeof words);
    constexpr std::uint32_t udp_header = 8, drop = 0, whole = 0xffffffff;
    sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, udp_header),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ntohl(words[0]), 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, udp_header + 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ntohl(words[1]), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, whole),
        BPF_STMT(BPF_RET | BPF_K, drop),
    };
    const sock_fprog filter{static_cast<unsigned short>(std::size(program)), program};
    ::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter);
}

} // namespace

struct SideChannel::Impl {
    int socket = -1;
    int rank = 0;
    std::uint16_t port = 0;
    std::optional<SealedDatagrams> sealed;
    Clock::time_point second{}; ///< start of the second in which `looked_at` counts datagrams
    int looked_at = 0;
    std::vector<std::vector<sockaddr_in>> peers; ///< by rank: its possible addresses

    ~Impl()
    {
        if (socket >= 0)
            ::close(socket);
    }

    /// Whether the limit per second allows one more datagram.
    bool may_look()
    {
        const auto time = Clock::now();
        if (time - second >= std::chrono::seconds(1)) {
            second = time;
            looked_at = 0;
        }
        return looked_at++ < most_per_second;
    }

    void open()
    {
        socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        sockaddr_in own = address_of("0.0.0.0", 0); // any
        socklen_t size = sizeof own;
        if (socket < 0 || ::bind(socket, reinterpret_cast<const sockaddr*>(&own), size) != 0 ||
            ::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &size) != 0)
            throw IoError({"the watchdog", str("cannot open a UDP socket: ", std::strerror(errno)), "",
                           "job.watchdog=0 runs without a watchdog"});
        port = ntohs(own.sin_port);
        const int room = 1 << 20; // enough for a thousand ranks that send at once
        ::setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    }
};

SideChannel::SideChannel(Comm& world) : impl_(std::make_unique<Impl>())
{
    std::tuple<std::string, std::uint16_t, std::vector<std::string>> own; // machine, port, addresses
    SipKey key{};
    succeed_together(world, [&] {
        impl_->open();
        own = {machine_id(), impl_->port, outer_addresses()};
        if (world.rank() == 0)
            key = random_key();
    });
    key = share_record(world, key);
    impl_->rank = world.rank();
    impl_->sealed.emplace(key, world.rank(), world.size());
    filter_datagrams(impl_->socket, impl_->sealed->tag_of(world.rank()));
    for (const auto& [theirs, port, ips] : gather_records(world, own)) {
        std::vector<sockaddr_in>& addresses = impl_->peers.emplace_back();
        if (theirs == std::get<0>(own))
            addresses.push_back(address_of("127.0.0.1", port));
        for (const std::string& ip : ips) // also for the same machine: containers do not share the loopback
            addresses.push_back(address_of(ip, port));
    }
}

SideChannel::~SideChannel() = default;

SideChannel::Place SideChannel::place() const { return {impl_->port, impl_->sealed->tag_of(impl_->rank)}; }

void SideChannel::send(int to, std::string_view text) const
{
    const std::string datagram = impl_->sealed->seal(to, text.substr(0, static_cast<std::size_t>(longest)));
    for (const sockaddr_in& address : impl_->peers[static_cast<std::size_t>(to)])
        ::sendto(impl_->socket, datagram.data(), datagram.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                 reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

std::optional<SideChannel::Message> SideChannel::receive(Seconds limit) const
{
    const auto until = Clock::now() + std::chrono::duration<double>(limit);
    char buffer[SealedDatagrams::header + static_cast<std::size_t>(longest)];
    for (;;) {
        bool waits = true;
        if (impl_->may_look()) {
            const ssize_t size = ::recv(impl_->socket, buffer, sizeof buffer, MSG_DONTWAIT | MSG_TRUNC);
            waits = size < 0;
            if (size >= 0 && static_cast<std::size_t>(size) <= sizeof buffer)
                if (auto message = impl_->sealed->open({buffer, static_cast<std::size_t>(size)}))
                    return message;
        } else
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
        if (left <= 0)
            return std::nullopt;
        pollfd waiting{impl_->socket, POLLIN, 0};
        if (waits)
            ::poll(&waiting, 1, static_cast<int>(left));
    }
}

} // namespace trivium
