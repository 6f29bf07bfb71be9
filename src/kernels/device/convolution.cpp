// Convolutions on a device: the plain kernels. A library's go here.
#include "kernels/general/convolution.hpp"

namespace trivium::kernels {

struct Convolution::Impl {
    ConvKind kind;
    ConvShape shape;
    DType type;
};

Convolution::Convolution(ConvKind kind, const ConvShape& shape, DType type, int, Bytes)
    : impl_(std::make_unique<Impl>(Impl{kind, shape, type}))
{
}
Convolution::Convolution(Convolution&&) noexcept = default;
Convolution& Convolution::operator=(Convolution&&) noexcept = default;
Convolution::~Convolution() = default;

Bytes Convolution::scratch_bytes() const { return 0; }

bool Convolution::by_library() const { return false; }

void Convolution::run(const Exec& exec, const void* first, const void* second, void* result, Scratch) const
{
    plain_convolution(exec, impl_->kind, impl_->shape, impl_->type, first, second, result);
}

} // namespace trivium::kernels
