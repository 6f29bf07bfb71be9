#include "comm_suite.hpp"
#include "mpi/device_collective.hpp"

#include <cstring>

using namespace trivium;

namespace {

using Data = std::vector<std::byte>;

Data pattern(std::size_t size, int seed)
{
    Data data(size);
    u64 x = static_cast<u64>(seed) * 0x9e3779b97f4a7c15u + 1;
    for (std::size_t i = 0; i < size; i += 2) { // pairs, so that swapped data show
        x = x * 6364136223846793005u + 1442695040888963407u;
        data[i] = static_cast<std::byte>(x >> 56);
        if (i + 1 < size)
            data[i + 1] = static_cast<std::byte>(x >> 48);
    }
    return data;
}

/// On a device, with the expected bytes.
struct Parcel {
    std::shared_ptr<std::byte> memory;
    Data expected;

    Parcel(TestDevice& device, Data content, int stream, bool sent)
        : memory(device.allocate(std::max<Bytes>(1, static_cast<Bytes>(content.size())))),
          expected(std::move(content))
    {
        device.write(memory.get(), sent ? expected : Data(expected.size(), std::byte{0xa5}), stream);
    }
    Bytes bytes() const { return static_cast<Bytes>(expected.size()); }
    ConstPiece sent() const { return {memory.get(), bytes()}; }
    Piece received() const { return {memory.get(), bytes()}; }
    void check(TestDevice& device, const char* what) const
    {
        TRV_CHECK(device.read(memory.get(), bytes()) == expected, what, " of ", bytes(), " bytes");
    }
};

/// Some pieces are empty, some above 4 MiB; no two are equal.
void pieces(Comm& comm, TestDevice& device)
{
    if (comm.size() == 1)
        return;
    Grid grid(comm, {{{"data", comm.size()}}}, "node");
    grid.open_devices(device.backend());
    DeviceComm& devices = grid.devices().along("data");
    devices.plan(use_exchange);
    grid.devices().connect();
    const auto size = [](int from, int to) {
        const int which = (from * 3 + to) % 5;
        return which == 0   ? std::size_t{0}
               : which == 1 ? (std::size_t{4} << 20) + 18
                            : static_cast<std::size_t>(which * 1000 + from * 2);
    };
    for (int round = 0; round < 2; ++round) {
        std::vector<Parcel> out, in;
        std::vector<ConstPiece> sends;
        std::vector<Piece> receives;
        for (int r = 0; r < comm.size(); ++r) {
            const bool own = r == comm.rank();
            out.emplace_back(
                device, own ? Data() : pattern(size(comm.rank(), r), comm.rank() * 100 + r + round), 0, true);
            in.emplace_back(device,
                            own ? Data() : pattern(size(r, comm.rank()), r * 100 + comm.rank() + round), 0,
                            false);
            sends.push_back(out.back().sent());
            receives.push_back(in.back().received());
        }
        devices.exchange(sends, receives, device.stream(0));
        device.wait(0);
        for (const Parcel& parcel : in)
            parcel.check(device, "a piece");
    }
    grid.devices().check();
}

/// Each rank has concurrent messages to and from both neighbours, with one stream per link.
void links(Comm& comm, TestDevice& device)
{
    if (comm.size() == 1)
        return;
    Grid grid(comm, {{{"pipeline", comm.size()}}}, "node");
    grid.open_devices(device.backend());
    DeviceGrid& devices = grid.devices();
    const int rank = comm.rank(), next = (rank + 1) % comm.size(),
              previous = (rank + comm.size() - 1) % comm.size();
    const std::vector<Link> sends{{rank, next, 0}, {rank, previous, 1}, {rank, next, 2}},
        receives{{previous, rank, 0}, {next, rank, 1}, {previous, rank, 2}};
    const std::vector<Link> some{sends[0], receives[0]};
    devices.open_links("pipeline", some);
    const DeviceComm& first = devices.link("pipeline", sends[0]);
    std::vector<Link> all = receives;
    all.insert(all.end(), sends.begin(), sends.end());
    devices.open_links("pipeline", all);
    devices.open_links("pipeline", some);
    TRV_CHECK(&devices.link("pipeline", sends[0]) == &first, "a link that is there was made again");
    const auto content = [](const Link& link, int message) {
        const std::size_t sizes[] = {(std::size_t{5} << 20) + 4, 0, 16, 70000};
        return pattern(sizes[message], link.from * 10000 + link.to * 100 + link.tag * 10 + message);
    };
    std::vector<Parcel> in;
    std::vector<Parcel> out;
    for (std::size_t i = 0; i < all.size(); ++i) // no stream number of a receive is that of a send
        for (int message = 0; message < 4; ++message)
            (all[i].from == rank ? out : in)
                .emplace_back(device, content(all[i], message), static_cast<int>(i), all[i].from == rank);
    for (std::size_t message = 0; message < 4; ++message) {
        for (std::size_t i = 0; i < 3;
             ++i) // sends first: if they blocked the receives, all ranks would wait for each other
            devices.link("pipeline", sends[i])
                .send(1, out[i * 4 + message].sent(), device.stream(static_cast<int>(3 + i)));
        for (std::size_t i = 0; i < 3; ++i)
            devices.link("pipeline", receives[i])
                .receive(0, in[i * 4 + message].received(), device.stream(static_cast<int>(i)));
    }
    for (int stream = 0; stream < 6; ++stream)
        device.wait(stream);
    for (const Parcel& parcel : in)
        parcel.check(device, "a message");
    devices.check();
}

/// A link with only one end would never be joined.
void lonely_links(Comm& comm, TestDevice& device)
{
    if (comm.size() == 1)
        return;
    Grid grid(comm, {{{"pipeline", comm.size()}}}, "node");
    grid.open_devices(device.backend());
    const auto refused = [&](const std::vector<Link>& links) {
        try {
            grid.devices().open_links("pipeline", links);
        } catch (const InternalError&) {
            return true;
        }
        return false;
    };
    TRV_CHECK(refused(comm.rank() == 0 ? std::vector<Link>{{0, 1, 0}} : std::vector<Link>{}),
              "a sender alone");
    TRV_CHECK(refused(comm.rank() == 1 ? std::vector<Link>{{0, 1, 0}} : std::vector<Link>{}),
              "a receiver alone");
    TRV_CHECK(!refused(comm.rank() < 2 ? std::vector<Link>{{0, 1, 0}} : std::vector<Link>{}), "both");
}

/// Sums along each axis and over the world, gathers and messages, each on its stream, in a different order on
/// each rank.
void several_at_once(Comm& comm, TestDevice& device)
{
    const i64 size = comm.size(), tensor = size % 2 == 0 ? 2 : 1, pipeline = size % 4 == 0 ? 2 : 1;
    Grid grid(comm, {{{"data", size / tensor / pipeline}, {"pipeline", pipeline}, {"tensor", tensor}}},
              "node");
    grid.open_devices(device.backend());
    DeviceGrid& devices = grid.devices();
    const std::vector<std::string> axes{"data", "pipeline", "tensor", "world"};
    constexpr i64 count = 300001;
    std::vector<std::shared_ptr<std::byte>> memory;
    std::vector<DeviceCollective> sums;
    for (std::size_t a = 0; a < axes.size(); ++a) {
        std::vector<float> values(count);
        for (i64 i = 0; i < count; ++i)
            values[static_cast<std::size_t>(i)] = static_cast<float>(comm.rank() + i % 1000);
        Data bytes(static_cast<std::size_t>(count) * 4);
        std::memcpy(bytes.data(), values.data(), bytes.size());
        memory.push_back(device.allocate(static_cast<Bytes>(bytes.size())));
        device.write(memory.back().get(), bytes, static_cast<int>(a));
        const CollectiveShape shape{CollectiveKind::all_reduce,
                                    DType::f32,
                                    Combine::sum,
                                    {{1, count, 1, memory.back().get(), memory.back().get()}}};
        DeviceComm& along = devices.along(axes[a]);
        const Bytes scratch = collective_scratch(shape, along.size()).best / 3 / 64 * 64 + 64 * 4096;
        memory.push_back(device.allocate(scratch));
        sums.emplace_back(along, shape, Piece{memory.back().get(), scratch}, a % 2 == 0);
    }
    devices.connect();
    for (int round = 0; round < 2; ++round)
        for (std::size_t i = 0; i < axes.size(); ++i) {
            const std::size_t a = (i + static_cast<std::size_t>(comm.rank())) % axes.size();
            sums[a].enqueue(device.stream(static_cast<int>(a)));
        }
    for (std::size_t a = 0; a < axes.size(); ++a) {
        device.wait(static_cast<int>(a));
        const std::vector<int>& group = grid.along(axes[a]).world_ranks();
        float ranks = 0;
        for (const int r : group)
            ranks += static_cast<float>(r);
        const auto n = static_cast<float>(group.size());
        const Data bytes = device.read(memory[2 * a].get(), count * 4);
        for (i64 i = 0; i < count; i += 97) {
            float value = 0;
            std::memcpy(&value, bytes.data() + i * 4, 4);
            const float expected =
                n * (ranks + n * static_cast<float>(i % 1000)); // integers: exact in any order
            TRV_CHECK(value == expected, "along ", axes[a], " element ", i, " is ", value, ", not ",
                      expected);
        }
    }
    devices.check();
}

} // namespace

std::vector<DeviceCase> device_cases()
{
    return {{"pieces", pieces},
            {"boxes", boxes_between_devices},
            {"links", links},
            {"lonely links", lonely_links},
            {"several at once", several_at_once}};
}
