#pragma once
// Results of element-wise functions; see row_parallel.hpp in host/ and device/.
#include "kernels/exec.hpp"

namespace trivium::kernels {

/// Several results for one element.
template <class A, int n>
struct Values {
    A of[n];
};

/// The arrays in which these results are stored.
template <class T, int n>
struct Targets {
    T* of[n];

    TRV_HOST_DEVICE friend Targets operator+(Targets targets, i64 offset)
    {
        for (int k = 0; k < n; ++k)
            targets.of[k] += offset;
        return targets;
    }
};
template <class T, class... Rest>
Targets(T*, Rest*...) -> Targets<T, 1 + static_cast<int>(sizeof...(Rest))>;

/// An array, or several, as Targets.
template <class T>
TRV_HOST_DEVICE Targets<T, 1> targets_of(T* to)
{
    return {{to}};
}
template <class T, int n>
TRV_HOST_DEVICE Targets<T, n> targets_of(Targets<T, n> to)
{
    return to;
}

/// Result k of an element.
template <class A>
TRV_HOST_DEVICE A value_of(A value, int)
{
    return value;
}
template <class A, int n>
TRV_HOST_DEVICE A value_of(const Values<A, n>& values, int k)
{
    return values.of[k];
}

} // namespace trivium::kernels
