#pragma once
// Wide loads and stores, and how loops unroll. device/cuda/words.hpp and tests/kernels/teams/words.hpp have
// the same names.
#include "kernels/device/pack_words.hpp"

// A compiler for devices is Clang, which knows both.
#ifdef __clang__
#define TRV_UNROLL _Pragma("unroll")
#define TRV_ROLLED _Pragma("nounroll")
#else
#define TRV_UNROLL
#define TRV_ROLLED
#endif
