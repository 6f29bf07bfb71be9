#include "catch.hpp"
#include "mpi/patient_wait.hpp"
#include "mpi/side_channel.hpp"

#include <atomic>
#include <chrono>
#include <set>

using namespace trivium;

TEST_CASE("datagrams go from any rank to any other, and nobody waits for them")
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
            if (const auto message = channel.receive(0.5); message && message->text == str("from ", message->from, " to ", world.rank()))
                heard.insert(message->from); // perhaps twice: once by each address
        arrived += static_cast<int>(heard.size());
        agree(world, 0); // the sockets live until all have heard
    });
    CHECK(arrived == 6);
}

TEST_CASE("a long text is cut, silence ends after a while, strangers are not heard")
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

TEST_CASE("ranks are printed short")
{
    CHECK(print_ranks({3}) == "rank 3");
    CHECK(print_ranks({5, 0, 1, 2, 2}) == "ranks 0-2, 5");
    CHECK(print_ranks({1, 0}) == "ranks 0, 1");
}
