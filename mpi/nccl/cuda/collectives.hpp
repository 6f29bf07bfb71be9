#pragma once
// NVIDIA's library of collectives. nccl/hip/collectives.hpp has the same names.
#include <nccl.h>

namespace trivium {

using VendorStream = cudaStream_t;
inline constexpr const char* collectives_name = "NCCL";

} // namespace trivium
