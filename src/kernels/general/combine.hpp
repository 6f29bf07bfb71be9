#pragma once
// Associative operations on two elements. Arithmetic on int32 wraps around.
#include "kernels/exec.hpp"

#include <cstdint>
#include <math.h>
#include <type_traits>

namespace trivium::kernels {

/// How several elements are combined into one. `set` (the last one wins) is only for scatter.
enum class Combine { sum, max, min, product, set };

template <class A>
TRV_HOST_DEVICE bool is_nan(A a)
{
    if constexpr (std::is_integral_v<A>)
        return false;
    else
        return a != a;
}

template <class A>
TRV_HOST_DEVICE A plus(A a, A b)
{
    if constexpr (std::is_integral_v<A>)
        return static_cast<A>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
    else
        return a + b;
}
template <class A>
TRV_HOST_DEVICE A minus(A a, A b)
{
    if constexpr (std::is_integral_v<A>)
        return static_cast<A>(static_cast<std::uint32_t>(a) - static_cast<std::uint32_t>(b));
    else
        return a - b;
}
template <class A>
TRV_HOST_DEVICE A times(A a, A b)
{
    if constexpr (std::is_integral_v<A>)
        return static_cast<A>(static_cast<std::uint32_t>(a) * static_cast<std::uint32_t>(b));
    else
        return a * b;
}
/// The larger of a and b; NaN if a or b is NaN.
template <class A>
TRV_HOST_DEVICE A larger(A a, A b)
{
    return a > b || is_nan(a) ? a : b;
}
/// The smaller of a and b; NaN if a or b is NaN.
template <class A>
TRV_HOST_DEVICE A smaller(A a, A b)
{
    return a < b || is_nan(a) ? a : b;
}

/// A Combine as a function object.
template <Combine how>
struct Combiner {
    /// The identity of the combination; 0 for set.
    template <class A>
    TRV_HOST_DEVICE static A none()
    {
        if constexpr (how == Combine::product)
            return A(1);
        else if constexpr (how != Combine::max && how != Combine::min)
            return A(0);
        else if constexpr (std::is_integral_v<A>)
            return how == Combine::max ? A(INT32_MIN) : A(INT32_MAX);
        else
            return how == Combine::max ? -A(INFINITY) : A(INFINITY);
    }
    template <class A>
    TRV_HOST_DEVICE A operator()(A a, A b) const
    {
        if constexpr (how == Combine::sum)
            return plus(a, b);
        else if constexpr (how == Combine::product)
            return times(a, b);
        else if constexpr (how == Combine::max)
            return larger(a, b);
        else if constexpr (how == Combine::min)
            return smaller(a, b);
        else
            return b;
    }
};

/// Calls f(Combiner<how>()) for a reduction; does nothing for `set`.
template <class F>
void with_reduction(Combine how, F f)
{
    switch (how) {
    case Combine::sum: return f(Combiner<Combine::sum>());
    case Combine::max: return f(Combiner<Combine::max>());
    case Combine::min: return f(Combiner<Combine::min>());
    case Combine::product: return f(Combiner<Combine::product>());
    case Combine::set: return;
    }
}

/// Calls f(Combiner<how>()).
template <class F>
void with_combiner(Combine how, F f)
{
    if (how == Combine::set)
        return f(Combiner<Combine::set>());
    with_reduction(how, f);
}

} // namespace trivium::kernels
