#pragma once
// The functions that math.hpp declares, for AMD devices. Part of math.hpp.
#include "base/bf16.hpp"

#include <math.h>

namespace trivium::kernels {

TRV_HOST_DEVICE inline float fast_exp(float x) { return ::expf(x); }
TRV_HOST_DEVICE inline float fast_exp2(float x) { return ::exp2f(x); }
TRV_HOST_DEVICE inline float reciprocal(float x) { return 1 / x; }
// Otherwise Clang may fuse the addition with a caller's multiplication.
TRV_HOST_DEVICE inline float add_rounded(float a, float b)
{
#pragma clang fp contract(off)
    return a + b;
}
TRV_HOST_DEVICE inline double add_rounded(double a, double b)
{
#pragma clang fp contract(off)
    return a + b;
}

} // namespace trivium::kernels
