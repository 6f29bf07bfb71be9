// Drawn grids on devices, over NCCL and under the launcher, against the losses that the CPU has; ranks may
// share a device.
#include "base/check.hpp"
#include "catch.hpp"
#include "grid/drawn.hpp"
#include "mpi/session.hpp"
#include "runtime/device.hpp"

#include <cstdio>

using namespace trivium;
using namespace trivium::grids;

namespace {

int run(Session& session)
{
    Comm& world = session.world();
    if (device_count() == 0) {
        if (world.rank() == 0)
            std::printf("skipped: no device\n");
        return 0;
    }
    const Device device(session.rank() % device_count());
    const kernels::Runtime runtime(1);
    int done = 0, wrong = 0;
    for (const Case& c : drawn_cases()) {
        if (c.ranks() != world.size())
            continue;
        const Outcome got = train(c, world);
        const double difference = largest_difference(got.losses, kept_losses(c)),
                     allowed = drawn_tolerance(c);
        const bool right = difference < allowed;
        ++done;
        wrong += right ? 0 : 1;
        if (world.rank() == 0)
            std::printf("%s: losses differ by %.2g (allowed %.0e)%s\n", c.text().c_str(), difference, allowed,
                        right ? "" : ": WRONG");
    }
    if (world.rank() == 0)
        std::printf("%d of %d drawn grids of %d ranks have the CPU's losses\n", done - wrong, done,
                    world.size());
    return wrong == 0 && done > 0 ? 0 : 1;
}

} // namespace

TEST_CASE("drawn grids on devices have the CPU's losses") { CHECK(run_session(run) == 0); }
