// The back-ends within one process: one rank alone, ranks as threads.
#include "base/clock.hpp"
#include "catch.hpp"
#include "comm_suite.hpp"
#include "mpi/clock_offset.hpp"
#include "mpi/collective.hpp"
#include "mpi/delay_comm.hpp"
#include "mpi/grid.hpp"

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <limits>
#include <thread>

using namespace trivium;

TEST_CASE("one rank alone")
{
    const std::unique_ptr<Comm> comm = make_self_comm();
    run_comm_suite(*comm);
    CHECK(comm->world_ranks() == std::vector<int>{0});
    CHECK(make_self_comm(7)->world_ranks() == std::vector<int>{7});
    int number = 0;
    const auto request = comm->receive(0, 1, {reinterpret_cast<std::byte*>(&number), sizeof number});
    CHECK_FALSE(request->test());
    CHECK_THROWS_AS(request->wait(), InternalError); // it would wait forever
}

TEST_CASE("ranks as threads")
{
    for (const int ranks : {1, 2, 3, 4, 8}) {
        if (contracts_on && ranks != 3) // sanitizers take their time
            continue;
        INFO(ranks << " threads");
        CHECK_NOTHROW(run_on_threads(ranks, run_comm_suite));
    }
}

TEST_CASE("boxes between any number of ranks")
{
    for (const int ranks : {5, 6, 7})
        CHECK_NOTHROW(run_on_threads(ranks, [](Comm& comm) {
            for (const RankCase& each : box_exchange_cases())
                each.run(comm);
        }));
}

TEST_CASE("ranks as threads, with a delay", "[release]")
{
    for (const int ranks : {1, 2, 5})
        run_on_threads(ranks, [](Comm& comm) {
            run_comm_suite(*make_delay_comm(comm, std::make_shared<SlowLink>(SlowLink{{1e-5, 1e9}})));
        });
}

TEST_CASE("a delayed transfer takes its time, and no core")
{
    constexpr Seconds latency = 0.05, late = 0.1;
    constexpr Bytes bytes = 1000;
    constexpr double rate = bytes / 0.1; // a piece takes 0.1 s
    const auto busy = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
    run_on_threads(3, [&](Comm& world) {
        const std::unique_ptr<Comm> all =
            make_delay_comm(world, std::make_shared<SlowLink>(SlowLink{{latency, rate}}));
        const std::unique_ptr<Comm> pair = world.rank() < 2 ? all->subgroup({0, 1}) : all->subgroup({2});
        std::vector<std::byte> out(bytes), in(3 * bytes);
        const auto takes = [&](Seconds least, const char* what, const auto& transfer) {
            agree(world, 0);
            const double busy_before = busy();
            const Seconds begin = now();
            transfer();
            TRV_CHECK(now() - begin >= least, what, " took ", now() - begin, " s");
            agree(world, 0);
            TRV_CHECK(busy() - busy_before < least, what, " kept a core busy");
        };
        std::vector<ConstPiece> sends(3, {out.data(), bytes});
        std::vector<Piece> receives;
        for (int r = 0; r < 3; ++r)
            receives.push_back({in.data() + r * bytes, bytes});
        takes(0.2 + 2 * latency, "an exchange with two peers",
              [&] { all->exchange(sends, receives)->wait(); });
        if (world.rank() == 2) // two communicators share the link
            for (int i = 0; i < 6; ++i)
                agree(world, 0);
        else {
            const int other = 1 - world.rank();
            takes(0.2 + latency, "a message to a peer, and one back", [&] {
                const auto first = pair->receive(other, 0, {in.data(), bytes}),
                           second = all->send(other, 0, {out.data(), bytes}),
                           third = all->receive(other, 0, {in.data() + bytes, bytes}),
                           fourth = pair->send(other, 0, {out.data(), bytes});
                for (const auto* request : {&first, &second, &third, &fourth})
                    (*request)->wait();
            });
            takes(late + 0.1, "a message that is sent late", [&] {
                if (world.rank() == 0) {
                    std::this_thread::sleep_for(std::chrono::duration<double>(late));
                    pair->send(1, 0, {out.data(), bytes})->wait();
                } else
                    pair->receive(0, 0, {in.data(), bytes})->wait();
            });
            takes(late + 0.1, "an exchange that a peer starts late", [&] {
                if (world.rank() == 1)
                    std::this_thread::sleep_for(std::chrono::duration<double>(late));
                const auto request = pair->exchange({sends.data(), 2}, {receives.data(), 2});
                while (!request->test()) // a rank that computes polls
                    std::this_thread::sleep_for(std::chrono::milliseconds(5));
            });
        }
    });
}

TEST_CASE("a thread that fails ends the others")
{
    for (const char* where : {"exchange", "receive", "collective", "polling"}) {
        INFO("while the others wait in " << where);
        std::atomic<int> told = 0;
        const auto body = [&](Comm& comm) {
            if (comm.rank() == 2)
                throw UserError({"run.toml", "no", "", ""});
            try {
                std::vector<float> data(10000);
                if (where == std::string("exchange"))
                    agree(comm, 0);
                const auto request = comm.receive(2, 0, {reinterpret_cast<std::byte*>(data.data()), 40000});
                if (where == std::string("receive"))
                    request->wait();
                while (where == std::string("polling") && !request->test())
                    ;
                const CollectiveShape shape{CollectiveKind::all_gather,
                                            DType::f32,
                                            Combine::sum,
                                            {{1, 10000, 1, data.data(), data.data()}}};
                Collective collective(comm, shape, {});
                collective.start();
                collective.finish();
            } catch (const ThreadsFailed&) {
                ++told;
                throw;
            }
        };
        CHECK_THROWS_AS(run_on_threads(4, body), UserError);
        CHECK(told == 3);
        CHECK_THROWS_WITH(run_on_threads(4, body), "run.toml: no");
    }
    CHECK_THROWS_AS(run_on_threads(2, [](Comm&) { throw 5; }), int);
}

TEST_CASE("threads: mismatched sizes are detected")
{
    CHECK_THROWS_AS(run_on_threads(2,
                                   [](Comm& comm) {
                                       std::byte data[8];
                                       if (comm.rank() == 0)
                                           comm.send(1, 0, {data, 4})->wait();
                                       else
                                           comm.receive(0, 0, {data, 8})->wait();
                                   }),
                    InternalError);
    CHECK_THROWS_AS(run_on_threads(3, [](Comm& comm) { comm.subgroup({0, 1}); }), InternalError);
    CHECK_THROWS_AS(run_on_threads(3, [](Comm& comm) { comm.subgroup({2, 1, 0}); }), InternalError);
    CHECK_THROWS_AS(run_on_threads(2, [](Comm& comm) { Grid(comm, {{{"data", 3}}}, "n"); }), InternalError);
}

TEST_CASE("threads: waiting for a rank that has ended is detected")
{
    const auto hangs = [](Comm& comm) {
        std::byte data[8];
        if (comm.rank() == 0)
            comm.receive(1, 0, {data, 8})->wait();
        else if (comm.rank() == 2)
            agree(*comm.subgroup({0, 1, 2}), 0);
    };
    CHECK_THROWS_AS(run_on_threads(3, hangs), InternalError);
}

TEST_CASE("an abandoned message leaves no trace")
{
    run_on_threads(2, [](Comm& comm) {
        int number = 1;
        if (comm.rank() == 0)
            comm.receive(1, 0, {reinterpret_cast<std::byte*>(&number), sizeof number}).reset();
        agree(comm, 0);
        number = 5;
        if (comm.rank() == 1)
            comm.send(0, 0, {reinterpret_cast<const std::byte*>(&number), sizeof number})->wait();
        else {
            int arrived = 0;
            comm.receive(1, 0, {reinterpret_cast<std::byte*>(&arrived), sizeof arrived})->wait();
            TRV_CHECK(arrived == 5, arrived);
        }
    });
}

TEST_CASE("infinities, NaN and zeros of both signs")
{
    const float inf = std::numeric_limits<float>::infinity(), nan = std::nanf("");
    const auto combined = [](std::vector<float> values, Combine combine = Combine::lse) {
        std::vector<float> results(values.size());
        run_on_threads(static_cast<int>(values.size()), [&](Comm& comm) {
            float in = values[static_cast<std::size_t>(comm.rank())];
            alignas(64) std::byte scratch[4096];
            Collective sum(comm,
                           {CollectiveKind::all_reduce,
                            DType::f32,
                            combine,
                            {{1, 1, 1, &in, &results[static_cast<std::size_t>(comm.rank())]}}},
                           {scratch, sizeof scratch});
            sum.start();
            sum.finish();
        });
        for (const float result : results)
            CHECK(std::memcmp(&result, &results[0], sizeof result) == 0);
        return results[0];
    };
    CHECK(combined({-inf, -inf, -inf}) == -inf);
    CHECK(combined({-inf, 3.25f}) == 3.25f);
    CHECK(std::signbit(combined({-0.0f, -inf})));
    CHECK(combined({inf, inf}) == inf);
    CHECK(combined({1, inf}) == inf);
    CHECK(std::isnan(combined({1, std::nanf("")})));
    CHECK(std::isnan(combined({std::nanf(""), -inf})));
    CHECK(combined({1000, 1000}) == Approx(1000 + std::log(2.0)));
    for (const Combine combine : {Combine::max, Combine::min, Combine::product, Combine::sum}) {
        CHECK(std::isnan(combined({nan, 1, 2}, combine)));
        CHECK(std::isnan(combined({1, nan, 2}, combine)));
        CHECK(std::isnan(combined({1, 2, nan}, combine)));
    }
    CHECK(combined({-inf, 3, inf}, Combine::max) == inf);
    CHECK(combined({-inf, 3, inf}, Combine::min) == -inf);
    CHECK(combined({-inf, -inf}, Combine::max) == -inf);
    CHECK(combined({3, -4, 5}, Combine::product) == -60);
    CHECK(std::signbit(combined({-0.0f, 0.0f}, Combine::max))); // the first of equal ones
    CHECK_FALSE(std::signbit(combined({0.0f, -0.0f}, Combine::min)));
}

TEST_CASE("the node's name")
{
    CHECK_FALSE(node_name().empty());
    setenv("SLURM_NODEID", "3", 1);
    setenv("SLURM_STEP_NUM_TASKS", "8", 1);
    CHECK(node_name() == "node 3");
    unsetenv("SLURM_STEP_NUM_TASKS");
    CHECK(node_name() != "node 3");
    unsetenv("SLURM_NODEID");
}

TEST_CASE("a clock's offset is that of the fastest round trip, within half of it")
{
    // Their clock is 100 ahead; the answer takes long in the first trip, the question in the third.
    const RoundTrip trips[] = {{10, 111, 19}, {20, 120.5, 21}, {30, 138, 40}};
    CHECK(clock_offset(trips).offset == 100);
    CHECK(clock_offset(trips).error == 0.5);
    CHECK(clock_offset(std::span(trips, 1)).offset == 96.5); // 111 - (10 + 19) / 2
    const RoundTrip lopsided[] = {{0, -7, 3}};               // read at 0, at the earliest
    CHECK(std::abs(clock_offset(lopsided).offset - -7) <= clock_offset(lopsided).error);
}

TEST_CASE("clocks of ranks that are seconds apart are measured to microseconds")
{
    for (const int ranks : {1, 2, 5})
        run_on_threads(ranks, [](Comm& comm) {
            const auto ahead = [](int rank) { return rank * (rank % 2 == 0 ? 1e4 : -250.0); };
            const std::vector<ClockOffset> offsets =
                clock_offsets(comm, [&] { return now() + ahead(comm.rank()); });
            REQUIRE(offsets.size() == static_cast<std::size_t>(comm.size()));
            for (int rank = 0; rank < comm.size(); ++rank) {
                const ClockOffset& o = offsets[static_cast<std::size_t>(rank)];
                if (comm.rank() != 0 && comm.rank() != rank)
                    continue;
                CHECK(std::abs(o.offset - ahead(rank)) <= o.error + 1e-9);
                CHECK(o.error < 0.05);
            }
            // Rank r's moment is 3 - r after 10^6, the last rank's the earliest.
            const ClockOffset& own = offsets[static_cast<std::size_t>(comm.rank())];
            const Seconds mine = 1e6 + 3 - comm.rank() + ahead(comm.rank());
            CHECK(earliest_moment(comm, mine, own) - ahead(comm.rank()) ==
                  Approx(1e6 + 4 - comm.size()).margin(0.1).epsilon(0));
        });
}
