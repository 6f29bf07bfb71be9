// One rank of a group that a launcher starts, with a device, which it may share with others: the cases that
// tests/ranks simulates on the host, over NCCL.
#include "../ranks/comm_suite.hpp"
#include "device_memory.hpp"
#include "kernels/device/vendor.hpp"
#include "kernels/runtime.hpp"
#include "mpi/session.hpp"

#include <cstdio>

using namespace trivium;

int main()
{
    return run_session([](Session& session) {
        Comm& world = session.world();
        const char* reason = nullptr;
        const int devices = kernels::usable_devices(&reason);
        if (agree(world, devices == 0) != 0) {
            if (world.rank() == 0)
                std::printf("skipped: no %s for each rank (%s)\n", kernels::device_kind(),
                            reason ? reason : "on this node there is");
            return 0;
        }
        Grid grid(world, {{{"data", world.size()}}}, node_name());
        const Device own(device_index(grid, devices)); // before Kokkos starts, which takes the current one
        const kernels::Runtime runtime(1);
        RealDevice device(grid);
        run_device_suite(world, device);
        if (world.rank() == 0)
            std::printf("%d ranks agree\n", world.size());
        return 0;
    });
}
