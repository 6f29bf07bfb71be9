#pragma once
// For dispatch: attributes of general ops in the form of the kernels.
#include "base/check.hpp"
#include "kernels/general/combine.hpp"
#include "runtime/op_args.hpp"

#include <algorithm>

namespace trivium {

/// The number of dimensions. Throws InternalError if more than 16.
inline int checked_rank(const Shape& shape)
{
    TRV_CHECK(shape.size() <= 16, shape.size(), " dimensions; kernels have at most 16");
    return static_cast<int>(shape.size());
}

/// Copies `from`, from `begin` on. Throws InternalError if `to` is too short.
template <std::size_t n>
void put(i64 (&to)[n], const std::vector<i64>& from, std::size_t begin = 0)
{
    TRV_CHECK(from.size() - begin <= n, from.size() - begin, " numbers; a kernel has room for ", n);
    std::copy(from.begin() + static_cast<std::ptrdiff_t>(begin), from.end(), to);
}

/// How windows move over each dimension, for a shape of windows or of a convolution.
template <class WindowShape, class Dims>
void put_windows(WindowShape& to, const Dims& dims)
{
    for (std::size_t d = 0; d < dims.size(); ++d) {
        to.stride[d] = dims[d].stride;
        to.low[d] = dims[d].low;
        to.dilation[d] = dims[d].dilation;
        to.base[d] = dims[d].base;
    }
}

/// By default sum. Throws InternalError for lse.
inline kernels::Combine combine_of(const Args& a)
{
    switch (a.attrs().combine.value_or(Combine::sum)) {
    case Combine::max: return kernels::Combine::max;
    case Combine::min: return kernels::Combine::min;
    case Combine::product: return kernels::Combine::product;
    case Combine::sum: return kernels::Combine::sum;
    case Combine::lse: break;
    }
    throw InternalError(__FILE__, __LINE__, "no kernel of general ops combines by lse");
}

} // namespace trivium
