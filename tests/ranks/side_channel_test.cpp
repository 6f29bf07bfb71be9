#include "catch.hpp"
#include "mpi/launch/side_channel.hpp"
#include "mpi/patient_wait.hpp"
#include "mpi/records.hpp"

#include <arpa/inet.h>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <netinet/in.h>
#include <set>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

using namespace trivium;

namespace {

/// Another user's process on this machine.
class Stranger {
public:
    /// Takes over a released port; 0: any.
    explicit Stranger(int port = 0) : socket_(::socket(AF_INET, SOCK_DGRAM, 0))
    {
        const sockaddr_in own = address(port);
        if (::bind(socket_, reinterpret_cast<const sockaddr*>(&own), sizeof own) != 0)
            throw std::runtime_error("the port is not free");
        const timeval patience{10, 0};
        ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    }
    Stranger(const Stranger&) = delete;
    Stranger& operator=(const Stranger&) = delete;
    ~Stranger() { ::close(socket_); }

    std::string read() const
    {
        char buffer[4096];
        const ssize_t size = ::recv(socket_, buffer, sizeof buffer, 0);
        return {buffer, buffer + std::max<ssize_t>(size, 0)};
    }
    void send(int port, const std::string& datagram) const
    {
        const sockaddr_in to = address(port);
        ::sendto(socket_, datagram.data(), datagram.size(), 0, reinterpret_cast<const sockaddr*>(&to),
                 sizeof to);
    }

private:
    static sockaddr_in address(int port)
    {
        sockaddr_in at{};
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        at.sin_port = htons(static_cast<std::uint16_t>(port));
        return at;
    }
    int socket_;
};

Seconds seconds_of(const std::function<void()>& work)
{
    const auto begin = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

} // namespace

TEST_CASE("datagrams are sent from any rank to any other, without waiting")
{
    std::atomic<int> arrived{0};
    run_on_threads(3, [&](Comm& world) {
        const SideChannel channel(world);
        for (int to = 0; to < 3; ++to)
            if (to != world.rank())
                channel.send(to, str("from ", world.rank(), " to ", to));
        std::set<int> heard;
        const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (heard.size() < 2 && std::chrono::steady_clock::now() < until)
            if (const auto message = channel.receive(0.5);
                message && message->text == str("from ", message->from, " to ", world.rank()))
                heard.insert(message->from);
        arrived += static_cast<int>(heard.size());
        agree(world, 0); // keep the sockets until all have received
    });
    CHECK(arrived == 6);
}

TEST_CASE("long text is truncated, receiving has a time limit, foreign datagrams are dropped")
{
    run_on_threads(2, [&](Comm& world) {
        const SideChannel channel(world), other(world); // two runs on one machine
        other.send(1 - world.rank(), "for the other");
        channel.send(1 - world.rank(), std::string(5000, 'x'));
        const auto message = channel.receive(10);
        if (!message || message->text != std::string(1024, 'x'))
            throw std::runtime_error("the text was to come, cut");
        agree(world, 0);
        while (channel.receive(0))
            ;
        const auto begin = std::chrono::steady_clock::now();
        if (channel.receive(0.2) || std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(150))
            throw std::runtime_error("nothing more was to come");
        agree(world, 0);
    });
}

TEST_CASE("lists of ranks are short")
{
    CHECK(print_ranks({3}) == "rank 3");
    CHECK(print_ranks({5, 0, 1, 2, 2}) == "ranks 0-2, 5");
    CHECK(print_ranks({1, 0}) == "ranks 0, 1");
}

TEST_CASE("a process that takes over a closed port can read datagrams, but not forge their sender")
{
    run_on_threads(3, [&](Comm& world) {
        std::optional<SideChannel> channel(std::in_place, world);
        const auto ports = gather_records(world, static_cast<u64>(channel->place().port));
        if (world.rank() == 1)
            channel.reset();
        agree(world, 0);
        std::optional<Stranger> stranger;
        if (world.rank() == 1)
            stranger.emplace(static_cast<int>(ports[1]));
        agree(world, 0);
        if (world.rank() == 0)
            channel->send(1, "end");
        if (world.rank() == 1) {
            const std::string seen = stranger->read();
            if (seen.size() != SealedDatagrams::header + 3)
                throw std::runtime_error("the stranger was to see it");
            std::string other = seen;
            other.back() = 'D';
            for (const std::string& each : {seen, other, seen.substr(0, 10), std::string(),
                                            seen + std::string(60000, 'x'), std::string(5000, '\0')})
                for (const int rank : {0, 2})
                    stranger->send(static_cast<int>(ports[static_cast<std::size_t>(rank)]), each);
        }
        agree(world, 0);
        if (world.rank() != 1 && channel->receive(0.3))
            throw std::runtime_error("a stranger was heard");
        agree(world, 0);
        if (world.rank() == 0)
            channel->send(2, "still here");
        if (world.rank() == 2) {
            const auto message = channel->receive(10);
            if (!message || message->text != "still here" || message->from != 0)
                throw std::runtime_error("a rank was not heard any more");
        }
        agree(world, 0);
    });
}

TEST_CASE("a flood of foreign datagrams delays neither a receiver nor genuine datagrams")
{
    // Noise, which the kernel drops; or datagrams of an attacker who reads this rank's and so knows its tag.
    const bool tagged = GENERATE(false, true);
    INFO("tagged " << tagged);
    run_on_threads(2, [&](Comm& world) {
        const SideChannel channel(world);
        const SideChannel::Place place = channel.place();
        std::atomic<bool> over{false};
        std::thread flood;
        if (world.rank() == 0) // from another thread, as fast as it can
            flood = std::thread([&] {
                const Stranger stranger;
                const std::string datagram = (tagged ? place.tag : std::string()) + std::string(200, 'x');
                while (!over)
                    stranger.send(place.port, datagram);
            });
        agree(world, 0);
        if (world.rank() == 1)
            for (int i = 0; i < 60; ++i) {
                channel.send(0, str("word ", i));
                std::this_thread::sleep_for(std::chrono::milliseconds(20));
            }
        int heard = 0;
        Seconds longest = 0;
        const auto begin = std::chrono::steady_clock::now();
        while (world.rank() == 0 && std::chrono::steady_clock::now() - begin < std::chrono::seconds(2))
            longest = std::max(longest, seconds_of([&] { heard += channel.receive(0.1) ? 1 : 0; }));
        over = true;
        if (flood.joinable())
            flood.join();
        agree(world, 0);
        if (longest > 5) // it would never end; a busy machine may be slow
            throw std::runtime_error(str("a limit of 0.1 s took ", longest, " s"));
        if (world.rank() == 0 && heard < (tagged ? 1 : 40))
            throw std::runtime_error(str("only ", heard, " of 60 were heard"));
    });
}
