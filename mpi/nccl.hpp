#pragma once
// Communicators between GPUs: mpi/nccl uses NCCL (NVIDIA) or RCCL (AMD), which has the same interface and
// reads the same variables; mpi/no_nccl is for builds without.
#include "mpi/device_comm.hpp"

#include <string>

namespace trivium {

/// "NCCL 2.28.9", "RCCL 2.20.5" (the loaded library); "no NCCL" in builds without.
std::string nccl_description();

class Grid;

/// NCCL communicators, one rank per process. All ranks of the grid call it, each with its device current. If
/// ranks share a device, it warns and calls prepare_shared_device(). \throws UserError in builds without NCCL
std::shared_ptr<DeviceBackend> make_nccl(const Grid& grid);

// Environment variables, set unless the user has set them. No effect in builds without NCCL.

/// Variables that the vendor's libraries read at their start; call this before.
void prepare_device_environment(int ranks);
/// Lets ranks share a device, which NCCL refuses within a host: each rank pretends to be a host of its own,
/// so they communicate over the host's network (over `lo` if all are on this host). Slow; for tests.
void prepare_shared_device(int world_rank, bool one_node);

} // namespace trivium
