#pragma once
// The functions that math.hpp declares, for any processor. Part of math.hpp.
#include "base/bf16.hpp"

#include <cstdint>
#include <math.h>

namespace trivium::kernels {

// Range reduction by Cody & Waite, then a polynomial on |r| <= ln(2)/2. No branches, and no select that a
// compiler could turn into one.
TRV_HOST_DEVICE inline float fast_exp(float x)
{
    const float clamped = x > 88.8f ? 88.8f : x < -88.0f ? -88.0f : x;
    const float n = ::rintf(clamped * 1.44269504f); // -127 ... 128
#ifdef FP_FAST_FMAF
    const float r = ::fmaf(n, -1.42860677e-6f, ::fmaf(n, -0.693145752f, clamped));
#else // two roundings, and a compiler that may reassociate: reduce in double
    const float r = static_cast<float>(clamped - n * 0.69314718055994531);
#endif
    float p = 1.98412698e-4f;
    p = p * r + 1.38888889e-3f;
    p = p * r + 8.33333333e-3f;
    p = p * r + 4.16666667e-2f;
    p = p * r + 1.66666667e-1f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    // n = -127 gives 0 and n = 128 infinity: the encodings of these exponents.
    return p * __builtin_bit_cast(float, (static_cast<std::int32_t>(n) + 127) << 23);
}
TRV_HOST_DEVICE inline float fast_exp2(float x) { return ::exp2f(x); }
TRV_HOST_DEVICE inline float reciprocal(float x) { return 1 / x; }
// Clang contracts (fuses multiply and add) within an expression, GCC wherever no barrier prevents it.
#ifdef __clang__
#define TRV_ROUNDED(a) a
#else
#define TRV_ROUNDED(a) __builtin_assoc_barrier(a)
#endif
TRV_HOST_DEVICE inline float add_rounded(float a, float b)
{
    const float rounded = TRV_ROUNDED(a);
    return rounded + b;
}
TRV_HOST_DEVICE inline double add_rounded(double a, double b)
{
    const double rounded = TRV_ROUNDED(a);
    return rounded + b;
}

} // namespace trivium::kernels
