#pragma once
// Convolutions over 1 to 3 spatial dimensions and their gradients.
#include "kernels/exec.hpp"

#include <memory>

namespace trivium::kernels {

/// x [b, c, in…], w [o, c / groups, k…], y [b, o, out…]. At output position p, tap t reads x at index
/// (p * stride - low + t * dilation) / base if that is an integer in [0, in), otherwise 0. Channel j of y
/// uses the channels of x in its group j / (o / groups). The padding after x follows from the extents.
struct ConvShape {
    int spatial = 1;
    i64 b = 1, c = 1, o = 1, groups = 1; ///< groups divides c and o
    i64 in[3] = {1, 1, 1}, k[3] = {1, 1, 1}, out[3] = {1, 1, 1};
    i64 stride[3] = {1, 1, 1}, low[3] = {}, dilation[3] = {1, 1, 1}, base[3] = {1, 1, 1};
    auto operator<=>(const ConvShape&) const = default;
};

// Plain kernels for every shape and type; sums in Acc<T>, in a fixed order.

template <class T>
void convolution(const Exec& exec, const ConvShape& shape, const T* x, const T* w, T* y);
/// dx = the gradient with respect to x.
template <class T>
void convolution_grad_x(const Exec& exec, const ConvShape& shape, const T* dy, const T* w, T* dx);
/// dw = the gradient with respect to w.
template <class T>
void convolution_grad_w(const Exec& exec, const ConvShape& shape, const T* dy, const T* x, T* dw);

enum class ConvKind { forward, grad_x, grad_w };

/// Default limit of a convolution's scratch.
inline constexpr Bytes usual_convolution_scratch = Bytes{256} << 20;

/// A prepared convolution: by a library if it supports the shape, otherwise the plain kernel. Preparing is
/// slow and belongs in start-up. The bits do not depend on `threads`.
class Convolution {
public:
    /// `type`: of all three tensors, any of the four. Uses fewer threads if their scratch would exceed
    /// `most_scratch`; scratch_bytes() may exceed it only for a single thread.
    Convolution(ConvKind kind, const ConvShape& shape, DType type, int threads = 1,
                Bytes most_scratch = usual_convolution_scratch);
    Convolution(Convolution&&) noexcept;
    Convolution& operator=(Convolution&&) noexcept;
    ~Convolution();

    /// (first, second, result) are (x, w, y) for forward, (dy, w, dx) for grad_x, (dy, x, dw) for grad_w.
    /// They must not overlap. \throws InternalError if scratch.size < scratch_bytes()
    void run(const Exec& exec, const void* first, const void* second, void* result, Scratch scratch) const;

    Bytes scratch_bytes() const;
    /// Whether a library computes it.
    bool by_library() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

/// The plain kernel for `type`.
void plain_convolution(const Exec& exec, ConvKind kind, const ConvShape& shape, DType type, const void* first,
                       const void* second, void* result);

} // namespace trivium::kernels
