#pragma once
// The functions that math.hpp declares, for NVIDIA devices, which have instructions for exp2 (so expf has no
// branches) and for the reciprocal. Part of math.hpp. The host versions are compiled, but never run.
#include "base/bf16.hpp"

#include <math.h>

namespace trivium::kernels {

TRV_HOST_DEVICE inline float fast_exp(float x) { return ::expf(x); }
#ifdef __CUDA_ARCH__
TRV_HOST_DEVICE inline float fast_exp2(float x)
{
    float y; // one instruction; exp2f has four, for subnormal results
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
TRV_HOST_DEVICE inline float reciprocal(float x) { return __fdividef(1.0f, x); }
TRV_HOST_DEVICE inline float add_rounded(float a, float b) { return __fadd_rn(a, b); }
TRV_HOST_DEVICE inline double add_rounded(double a, double b) { return __dadd_rn(a, b); }
#else
TRV_HOST_DEVICE inline float fast_exp2(float x) { return ::exp2f(x); }
TRV_HOST_DEVICE inline float reciprocal(float x) { return 1 / x; }
TRV_HOST_DEVICE inline float add_rounded(float a, float b) { return a + b; }
TRV_HOST_DEVICE inline double add_rounded(double a, double b) { return a + b; }
#endif

} // namespace trivium::kernels
