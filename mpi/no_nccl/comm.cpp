// A build without NCCL: its communicators cannot be made.
#include "mpi/nccl.hpp"

#include "base/check.hpp"

namespace trivium {

std::string nccl_description() { return "no NCCL"; }

std::shared_ptr<DeviceBackend> make_nccl(const Grid&)
{
    throw UserError(
        {"NCCL", "collectives between GPUs are not available", "this build has neither NCCL nor RCCL",
         "build with the preset 'cuda' and NCCL (docs/cuda.md), or 'hip' and RCCL (docs/amd.md)"});
}

void prepare_device_environment(int) {}
void prepare_shared_device(int, bool) {}

} // namespace trivium
