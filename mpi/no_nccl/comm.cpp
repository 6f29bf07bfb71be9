// A build without NCCL: its communicators cannot be made.
#include "mpi/nccl.hpp"

#include "base/check.hpp"

namespace trivium {

namespace {

[[noreturn]] void refuse()
{
    throw UserError({"NCCL", "collectives between GPUs are asked for", "this build has no NCCL",
                     "build with the preset 'cuda': docs/cuda.md"});
}

} // namespace

std::string nccl_description() { return "no NCCL"; }

NcclId make_nccl_id() { refuse(); }

struct NcclComm::Impl {};

NcclComm::NcclComm(const NcclId&, int, int) { refuse(); }
NcclComm::~NcclComm() = default;

void NcclComm::all_reduce(DType, i64, const void*, void*, void*) const { refuse(); }

} // namespace trivium
