#pragma once
// Communicators between NVIDIA's devices: mpi/nccl with NVIDIA's library, mpi/no_nccl for builds without.
#include "mpi/device_comm.hpp"

#include <string>

namespace trivium {

/// "NCCL 2.28.9", of the library that is loaded; "no NCCL" in builds without.
std::string nccl_description();

class Grid;

/// Communicators of NCCL, one rank a process. All ranks of the grid call it, each with its device current.
/// Where ranks share one, it says so and calls prepare_shared_device(). \throws UserError in builds without
/// NCCL
std::shared_ptr<DeviceBackend> make_nccl(const Grid& grid);

// What is set in the environment, where the user has not set it. Builds without NCCL leave it alone.

/// What CUDA reads when it starts; called before. A stream that waits for a peer must not hold up another:
/// each gets a hardware queue, and where there are peers all kernels are loaded at the start, as loading one
/// may wait for the device.
void prepare_device_environment(int ranks);
/// Lets ranks share a device, which NCCL refuses within a host: each says that it is one of its own, so that
/// they talk over the host's network (all on this host: over `lo`). Slow: for tests.
void prepare_shared_device(int world_rank, bool one_node);

} // namespace trivium
