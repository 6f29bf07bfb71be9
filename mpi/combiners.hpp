#pragma once
// Internal: combines two contributions, on the host (mpi/combine.cpp) and on a device (mpi/nccl/tiles.hpp).
// Elements of T are combined as Acc<T>.
#include "base/bf16.hpp"
#include "ir/mesh.hpp"

#include <cmath>
#include <type_traits>

namespace trivium::combiners {

/// i32 wraps, in a sum and in a product.
struct Sum {
    template <class A>
    TRV_HOST_DEVICE static A of(A a, A b)
    {
        if constexpr (std::is_integral_v<A>)
            return static_cast<A>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
        else
            return a + b;
    }
};

struct Product {
    template <class A>
    TRV_HOST_DEVICE static A of(A a, A b)
    {
        if constexpr (std::is_integral_v<A>)
            return static_cast<A>(static_cast<std::uint32_t>(a) * static_cast<std::uint32_t>(b));
        else
            return a * b;
    }
};

/// `a` if they are equal (also 0 and -0). NaN if `a` or `b` is NaN.
struct Max {
    template <class A>
    TRV_HOST_DEVICE static A of(A a, A b)
    {
        if constexpr (std::is_floating_point_v<A>)
            if (a != a)
                return a;
        return b <= a ? a : b; // b if it is a NaN
    }
};

/// Like Max for equal numbers and NaN.
struct Min {
    template <class A>
    TRV_HOST_DEVICE static A of(A a, A b)
    {
        if constexpr (std::is_floating_point_v<A>)
            if (a != a)
                return a;
        return a <= b ? a : b;
    }
};

/// log(exp(a) + exp(b)) without overflow; -inf is the identity.
struct LogSumExp {
    template <class A>
    TRV_HOST_DEVICE static A of(A a, A b)
    {
        const A high = a < b ? b : a, low = a < b ? a : b;
        if ((std::isinf(low) && low < 0) || (std::isinf(high) && high == low)) // the identity, or inf - inf
            return high;
        return high + std::log1p(std::exp(low - high));
    }
};

/// Whether a reduction can combine elements of `type` by `combine`.
constexpr bool combines(DType type, Combine combine)
{
    return is_floating(type) || (type == DType::i32 && combine != Combine::lse);
}

/// Calls `run` with an element of `type` and the operator of `combine`. \throws InternalError if !combines()
template <class Run>
void with_operator(DType type, Combine combine, Run&& run)
{
    TRV_CHECK(combines(type, combine), "no reduction of ", name_of(type), " by ", name_of(combine));
    const auto with = [&](auto element) {
        switch (combine) {
        case Combine::sum: return run(element, Sum{});
        case Combine::max: return run(element, Max{});
        case Combine::min: return run(element, Min{});
        case Combine::product: return run(element, Product{});
        case Combine::lse:
            if constexpr (!std::is_integral_v<decltype(element)>)
                return run(element, LogSumExp{});
        }
    };
    if (type == DType::i32)
        with(std::int32_t{});
    else
        with_type(type, with);
}

} // namespace trivium::combiners
