// NCCL with one rank: operations without peers.
#include "device_memory.hpp"
#include "mpi/device_collective.hpp"
#include "mpi/nccl.hpp"
#include "support.hpp"

#include <cstdlib>
#include <cstring>

using namespace trivium;

TEST_CASE("the version of the loaded library is known") { CHECK(nccl_description().find("CCL 2.") == 1); }

TEST_CASE("the user's environment variables take precedence")
{
    setenv("NCCL_HOSTID", "mine", 1);
    unsetenv("NCCL_SOCKET_IFNAME");
    prepare_shared_device(3, false);
    CHECK(std::string(getenv("NCCL_HOSTID")) == "mine");
    CHECK(getenv("NCCL_SOCKET_IFNAME") == nullptr);
    unsetenv("NCCL_HOSTID");
    prepare_shared_device(3, true);
    CHECK(std::string(getenv("NCCL_HOSTID")) == "trivium-3");
    CHECK(std::string(getenv("NCCL_SOCKET_IFNAME")) == "lo");
    unsetenv("NCCL_HOSTID");
    unsetenv("NCCL_SOCKET_IFNAME");
}

TEST_CASE("a collective over one rank is a copy on the stream")
{
    if (!device_ready())
        return;
    const std::unique_ptr<Comm> self = make_self_comm();
    const Grid grid(*self, {}, "node");
    RealDevice device(grid);
    const std::unique_ptr<DeviceComm> alone = device.backend()->join({}, 1, 0, DeviceGroup::all);
    for (const std::size_t bytes : {2, 14, 16, 4098, 1 << 20}) {
        std::vector<std::byte> content(bytes);
        for (std::size_t i = 0; i < bytes; ++i)
            content[i] = static_cast<std::byte>(i * 7 + i / 251);
        const auto in = device.allocate(static_cast<Bytes>(bytes)),
                   out = device.allocate(static_cast<Bytes>(bytes));
        device.write(in.get(), content, 0);
        DeviceCollective(*alone,
                         {CollectiveKind::all_gather,
                          DType::bf16,
                          Combine::sum,
                          {{1, static_cast<i64>(bytes / 2), 1, in.get(), out.get()}}},
                         {}, true)
            .enqueue(device.stream(0));
        device.wait(0);
        CHECK(device.read(out.get(), static_cast<Bytes>(bytes)) == content);
    }
}
