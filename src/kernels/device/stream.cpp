#include "stream.hpp"

#include <Kokkos_Core.hpp>

namespace trivium::kernels {

namespace {
using Space = Kokkos::DefaultExecutionSpace;
}

cudaStream_t stream_of(const Exec& exec)
{
    return exec.stream ? static_cast<const Space*>(exec.stream)->cuda_stream() : Space().cuda_stream();
}

struct SpaceOnStream::Impl {
    Space space;
};

SpaceOnStream::SpaceOnStream(cudaStream_t stream) : impl_(std::make_unique<Impl>(Impl{Space(stream)})) {}
SpaceOnStream::~SpaceOnStream() = default;

void* SpaceOnStream::address() const { return &impl_->space; }

} // namespace trivium::kernels
