#include "stream.hpp"

#include "row_parallel.hpp"

namespace trivium::kernels {

cudaStream_t stream_of(const Exec& exec) { return space_of(exec).cuda_stream(); }

struct SpaceOnStream::Impl {
    Space space;
};

SpaceOnStream::SpaceOnStream(cudaStream_t stream) : impl_(std::make_unique<Impl>(Impl{Space(stream)})) {}
SpaceOnStream::~SpaceOnStream() = default;

void* SpaceOnStream::address() const { return &impl_->space; }

} // namespace trivium::kernels
