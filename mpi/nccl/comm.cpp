#include "mpi/nccl.hpp"

#include "base/check.hpp"

#include <cstring>
#include <nccl.h>

namespace trivium {

namespace {

static_assert(sizeof(ncclUniqueId) == sizeof(NcclId));

/// The one check for calls of NCCL.
void check(ncclResult_t result, const char* call)
{
    if (result != ncclSuccess)
        throw IoError({"NCCL", str(call, " failed"), str(ncclGetErrorString(result), ": ", ncclGetLastError(nullptr)),
                       "set NCCL_DEBUG=INFO to see which network and devices it takes"});
}

ncclDataType_t type_of(DType type)
{
    switch (type) {
    case DType::f64: return ncclFloat64;
    case DType::f32: return ncclFloat32;
    case DType::bf16: return ncclBfloat16;
    case DType::i32: return ncclInt32;
    }
    throw InternalError(__FILE__, __LINE__, "no such type");
}

} // namespace

std::string nccl_description()
{
    int version = 0;
    check(ncclGetVersion(&version), "ncclGetVersion");
    return str("NCCL ", version / 10000, ".", version / 100 % 100, ".", version % 100);
}

NcclId make_nccl_id()
{
    ncclUniqueId made;
    check(ncclGetUniqueId(&made), "ncclGetUniqueId");
    NcclId id;
    std::memcpy(id.bytes.data(), &made, sizeof(made));
    return id;
}

struct NcclComm::Impl {
    ncclComm_t comm = nullptr;
};

NcclComm::NcclComm(const NcclId& id, int ranks, int rank) : impl_(std::make_unique<Impl>())
{
    ncclUniqueId unique;
    std::memcpy(&unique, id.bytes.data(), sizeof(unique));
    check(ncclCommInitRank(&impl_->comm, ranks, unique, rank), "ncclCommInitRank");
}

NcclComm::~NcclComm() { ncclCommDestroy(impl_->comm); }

void NcclComm::all_reduce(DType type, i64 count, const void* in, void* out, void* stream) const
{
    check(ncclAllReduce(in, out, static_cast<std::size_t>(count), type_of(type), ncclSum, impl_->comm,
                        static_cast<cudaStream_t>(stream)),
          "ncclAllReduce");
}

} // namespace trivium
