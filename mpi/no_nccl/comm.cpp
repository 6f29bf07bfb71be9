// A build without NCCL: its communicators cannot be made.
#include "mpi/nccl.hpp"

#include "base/check.hpp"

namespace trivium {

std::string nccl_description() { return "no NCCL"; }

std::shared_ptr<DeviceBackend> make_nccl(const Grid&)
{
    throw UserError({"NCCL", "collectives between GPUs are not available", "this build has no NCCL",
                     "build with the preset 'cuda': docs/cuda.md"});
}

void prepare_device_environment(int) {}
void prepare_shared_device(int, bool) {}

} // namespace trivium
