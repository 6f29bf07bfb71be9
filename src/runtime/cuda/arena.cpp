// The arena of a build for GPUs. Kernels, streams and NCCL are there; the executor does not yet move the host's
// values to a device and back. Until it does, no run starts rather than one that goes wrong half-way.
#include "runtime/arena.hpp"

#include "base/check.hpp"

namespace trivium {

Bytes available_memory() { return -1; }

Arena::Arena(Bytes bytes) : size_(bytes)
{
    throw UserError({"device", "models do not run on GPUs yet",
                     "this build has the kernels for them, but not yet an executor that feeds them",
                     "use a build of the preset 'default', which computes on CPUs"});
}

Arena::~Arena() = default;

Bytes Arena::high_water() const { return 0; }

} // namespace trivium
