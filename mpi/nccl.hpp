#pragma once
// Communicators between GPUs: mpi/nccl uses NCCL (NVIDIA) or RCCL (AMD), which has the same interface and
// reads the same variables; builds without these use mpi/no_nccl.
#include "mpi/device_comm.hpp"

#include <string>

namespace trivium {

/// "NCCL 2.28.9", "RCCL 2.20.5" (the loaded library); "no NCCL" in builds without.
std::string nccl_description();

class Grid;

/// NCCL communicators, one rank per process. Collective over the grid, each rank with its device current. If
/// ranks share a device, rank 0 warns and each rank calls prepare_shared_device(). \throws UserError in
/// builds without NCCL
std::shared_ptr<DeviceBackend> make_nccl(const Grid& grid);

// Environment variables, set unless the user has set them. No effect in builds without NCCL.

/// Sets variables that the vendor's libraries read when they start. Call it before the first use of a device.
void prepare_device_environment(int ranks);
/// Lets ranks share a device, which NCCL refuses within a host: gives each rank a host id of its own, so that
/// ranks communicate over the host's network (over `lo` if `one_node`). Slow; for tests.
void prepare_shared_device(int world_rank, bool one_node);

} // namespace trivium
