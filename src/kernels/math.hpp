#pragma once
// Scalar functions for kernels. libm's exp does not vectorise, so float has its own.
#include "base/bf16.hpp"

#include <math.h>

namespace trivium::kernels {

TRV_HOST_DEVICE inline double fast_exp(double x) { return ::exp(x); }
TRV_HOST_DEVICE inline double fast_exp2(double x) { return ::exp2(x); }

/// exp with a relative error below 1e-6; 0 below -87.68, where exact results are subnormal, +inf above 88.37,
/// NaN for NaN. On a device the range includes subnormal results and ends at the largest finite number.
TRV_HOST_DEVICE inline float fast_exp(float x);
/// 2^x with a relative error below 1e-6, for device kernels; a subnormal result may be 0.
TRV_HOST_DEVICE inline float fast_exp2(float x);
/// 1 / x, to about 2 units in the last place; for |x| > 2^126 the result may be 0 instead of subnormal.
TRV_HOST_DEVICE inline float reciprocal(float x);
TRV_HOST_DEVICE inline double reciprocal(double x) { return 1 / x; }
/// a + b, where `a` is rounded first: prevents a fused multiply-add.
TRV_HOST_DEVICE inline float add_rounded(float a, float b);
TRV_HOST_DEVICE inline double add_rounded(double a, double b);

} // namespace trivium::kernels

#include "native_math.hpp"

namespace trivium::kernels {

/// 1 / (1 + exp(-x)) without overflow.
template <class A>
TRV_HOST_DEVICE inline A sigmoid(A x)
{
    return reciprocal(A(1) + fast_exp(-x));
}

/// tanh(x), given `power` = exp(2 x), with a relative error below 2e-6. No branch, so that loops vectorise.
TRV_HOST_DEVICE inline float tanh_with(float x, float power)
{
    const float square = x * x; // near 0: a polynomial of x^2 with the least largest error up to 0.625
    const float low =
        x + x * square *
                (-0.333332837f +
                 square * (0.133314908f +
                           square * (-0.0537434965f + square * (0.0206505843f - 0.00571704283f * square))));
    const float high = 1 - 2 / (1 + power);
    return square < 0.390625f ? low : high;
}
TRV_HOST_DEVICE inline double tanh_with(double x, double) { return ::tanh(x); }
TRV_HOST_DEVICE inline float fast_tanh(float x) { return tanh_with(x, fast_exp(2 * x)); }
TRV_HOST_DEVICE inline double fast_tanh(double x) { return ::tanh(x); }

/// erfc(x), from -10 to 9 with a relative error below 1e-5 (Press et al., Numerical Recipes in C,
/// section 6.2).
TRV_HOST_DEVICE inline float fast_erfc(float x)
{
    const float size = x < 0 ? -x : x, t = reciprocal(1 + 0.5f * size);
    float p = 0.17087277f;
    p = p * t - 0.82215223f;
    p = p * t + 1.48851587f;
    p = p * t - 1.13520398f;
    p = p * t + 0.27886807f;
    p = p * t - 0.18628806f;
    p = p * t + 0.09678418f;
    p = p * t + 0.37409196f;
    p = p * t + 1.00002368f;
    const float y = t * fast_exp(-size * size + (p * t - 1.26551223f));
    return x < 0 ? 2 - y : y;
}
TRV_HOST_DEVICE inline double fast_erfc(double x) { return ::erfc(x); }

TRV_HOST_DEVICE inline float square_root(float x) { return ::sqrtf(x); }
TRV_HOST_DEVICE inline double square_root(double x) { return ::sqrt(x); }
TRV_HOST_DEVICE inline float logarithm(float x) { return ::logf(x); }
TRV_HOST_DEVICE inline double logarithm(double x) { return ::log(x); }

} // namespace trivium::kernels
