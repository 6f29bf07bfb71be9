#pragma once
// Collectives between GPUs: mpi/nccl with NVIDIA's library, mpi/no_nccl for builds without.
#include "ir/type.hpp"

#include <array>
#include <memory>
#include <string>

namespace trivium {

/// "NCCL 2.28.9", of the library that is loaded; "no NCCL" in builds without.
std::string nccl_description();

/// What the ranks of a communicator need to find each other: one makes it, MPI hands it to the others.
struct NcclId {
    std::array<char, 128> bytes{};
};

/// \throws UserError in builds without NCCL, IoError where the network refuses
NcclId make_nccl_id();

/// A communicator of `ranks` processes, each with the device that is its own at the time.
class NcclComm {
public:
    /// Returns when all ranks have called it.
    /// \throws UserError in builds without NCCL, IoError where the communicator cannot be made
    NcclComm(const NcclId& id, int ranks, int rank);
    NcclComm(const NcclComm&) = delete;
    NcclComm& operator=(const NcclComm&) = delete;
    ~NcclComm();

    /// out = the sum of all ranks' `in`, as work on `stream` (cudaStream_t). Both are device memory that the caller
    /// owns, [count] of `type`, and may be the same.
    /// \throws IoError where the call fails; failures of the work itself show when the stream is waited for
    void all_reduce(DType type, i64 count, const void* in, void* out, void* stream) const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace trivium
