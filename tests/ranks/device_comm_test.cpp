// Collectives and messages as work on streams, with devices that the host simulates.
#include "catch.hpp"
#include "comm_suite.hpp"
#include "host_device.hpp"
#include "mpi/device_collective.hpp"

using namespace trivium;

TEST_CASE("one device alone") { CHECK(run_on_devices(1, run_device_suite) == 0); }

TEST_CASE("devices of ranks as threads")
{
    for (const int ranks : {2, 3, 4, 8}) {
        if (contracts_on && ranks != 3) // sanitizers take their time
            continue;
        INFO(ranks << " ranks");
        CHECK_NOTHROW(run_on_devices(ranks, run_device_suite, ranks > 4));
    }
}

TEST_CASE("the method of a collective")
{
    using Way = DeviceCollective::Way;
    run_on_devices(4, [](Comm& comm, TestDevice& device) {
        Grid grid(comm, {{{"data", 4}}}, "node");
        grid.open_devices(device.backend());
        const std::shared_ptr<std::byte> scratch = device.allocate(1 << 20);
        const auto way = [&](CollectiveKind kind, DType type, Combine combine, std::vector<Operand> operands,
                             bool deterministic) {
            return DeviceCollective(grid.devices().along("data"), {kind, type, combine, std::move(operands)},
                                    {scratch.get(), 1 << 20}, deterministic)
                .way();
        };
        const auto expect = [](Way is, Way expected, const char* what) {
            TRV_CHECK(is == expected, what, ": way ", static_cast<int>(is));
        };
        constexpr CollectiveKind gather = CollectiveKind::all_gather,
                                 scatter = CollectiveKind::reduce_scatter,
                                 reduce = CollectiveKind::all_reduce;
        const std::vector<Operand> even{{1, 8, 3}, {1, 4, 1}}, uneven{{1, 8, 3}, {1, 5, 1}}, rows{{2, 8, 3}},
            large{{1, 1 << 19, 1}};
        for (const bool exact : {true, false}) {
            expect(way(gather, DType::bf16, Combine::sum, even, exact), Way::native, "gather");
            expect(way(gather, DType::i32, Combine::sum, uneven, exact), Way::rounds, "uneven gather");
            expect(way(gather, DType::f32, Combine::sum, rows, exact), Way::rounds, "gather of rows");
            expect(way(scatter, DType::bf16, Combine::sum, even, exact), exact ? Way::rounds : Way::native,
                   "scatter of bf16");
            expect(way(scatter, DType::f32, Combine::lse, even, exact), Way::rounds, "lse");
            expect(way(reduce, DType::bf16, Combine::sum, rows, exact), exact ? Way::gather : Way::native,
                   "small sum of bf16");
            expect(way(reduce, DType::bf16, Combine::max, large, exact), Way::rounds, "large maximum");
            expect(way(scatter, DType::f32, Combine::sum, even, exact), exact ? Way::rounds : Way::native,
                   "scatter");
            expect(way(reduce, DType::f64, Combine::sum, uneven, exact), exact ? Way::gather : Way::native,
                   "small sum");
            expect(way(reduce, DType::f32, Combine::sum, large, exact), exact ? Way::rounds : Way::native,
                   "large sum");
        }
    });
}

TEST_CASE("an unplanned collective is refused, and a failing rank ends the others")
{
    const auto body = [](Comm& comm, TestDevice& device) {
        Grid grid(comm, {{{"data", 3}}}, "node");
        grid.open_devices(device.backend());
        DeviceComm& along = grid.devices().along("data");
        const std::shared_ptr<std::byte> memory = device.allocate(12);
        const DenseMove move{memory.get(), memory.get(), 1};
        along.plan(use_of(CollectiveKind::all_reduce));
        grid.devices().connect();
        if (comm.rank() == 1)
            along.collective(CollectiveKind::reduce_scatter, DType::f32, {&move, 1}, device.stream(0));
        along.collective(CollectiveKind::all_reduce, DType::f32, {&move, 1}, device.stream(0));
        device.wait(0);
    };
    CHECK_THROWS_WITH(run_on_devices(3, body), Catch::Matchers::Contains("not planned"));
}

TEST_CASE("the communicators of a grid: one per axis, one for the world, and one per link")
{
    const int joined = run_on_devices(4, [](Comm& comm, TestDevice& device) {
        Grid grid(comm, {{{"data", 2}, {"pipeline", 2}, {"tensor", 1}}}, str("n", comm.rank() / 3));
        bool refused = false;
        try {
            grid.devices();
        } catch (const InternalError&) {
            refused = true;
        }
        TRV_CHECK(refused, "devices that were not opened");
        grid.open_devices(device.backend());
        DeviceGrid& made = grid.devices();
        for (const char* axis : {"data", "pipeline", "tensor", "none", "world"})
            TRV_CHECK(made.along(axis).size() == grid.along(axis).size() &&
                          made.along(axis).rank() == grid.along(axis).rank(),
                      axis);
        const bool first = grid.at()[1] == 0;
        const std::vector<Link> links{{0, 1, 3}, {1, 0, 4}, {0, 1, 3}};
        made.open_links("pipeline", links);
        made.open_links("data", {});
        TRV_CHECK(made.link("pipeline", {0, 1, 3}).rank() == (first ? 0 : 1) &&
                      made.link("pipeline", {1, 0, 4}).rank() == (first ? 1 : 0),
                  "a link's ends");
        TRV_CHECK(grid.local_rank() == (comm.rank() == 3 ? 0 : comm.rank()) &&
                      grid.local_ranks() == (comm.rank() == 3 ? 1 : 3),
                  "places on a node");
        TRV_CHECK(device_index(grid, 2) == grid.local_rank() % 2 && device_index(grid, 1) == 0 &&
                      device_index(grid, 8) == grid.local_rank(),
                  "devices");
    });
    CHECK(joined == 4 + 4 + 4 + 8); // the world, data, pipeline, and two links in each of two groups
}

TEST_CASE("joint axes have communicators between devices")
{
    const int joined = run_on_devices(8, [](Comm& comm, TestDevice& device) {
        Grid grid(comm, {{{"x", 2}, {"y", 2}, {"z", 2}}}, "node", {}, {"z+x", "y+none"});
        grid.open_devices(device.backend());
        for (const char* axis : {"x", "y", "z+x", "y+none", "none"})
            TRV_CHECK(grid.devices().along(axis).size() == grid.along(axis).size() &&
                          grid.devices().along(axis).rank() == grid.along(axis).rank(),
                      axis);
        TRV_CHECK(grid.devices().along("z+x").size() == 4, "z+x");
        grid.open({"z+x", "x+y"}); // one more
        TRV_CHECK(grid.devices().along("x+y").rank() == grid.along("x+y").rank(), "x+y");
        grid.devices().along("z+x").plan(use_exchange);
        grid.devices().connect();
    });
    CHECK(joined == 8 * (1 + 3 + 2 + 1));
}

TEST_CASE("ranks that share a device are detected")
{
    CHECK_FALSE(share_a_device({}));
    CHECK_FALSE(share_a_device({"a", "b", "c"}));
    CHECK(share_a_device({"a", "b", "a"}));
}
