#include "stream.hpp"

#include "row_parallel.hpp"

namespace trivium::kernels {

struct SpaceOnStream::Impl {
    Space space;
};

SpaceOnStream::SpaceOnStream(cudaStream_t stream) : impl_(std::make_unique<Impl>(Impl{Space(stream)})) {}
SpaceOnStream::~SpaceOnStream() = default;

void* SpaceOnStream::address() const { return &impl_->space; }

} // namespace trivium::kernels
