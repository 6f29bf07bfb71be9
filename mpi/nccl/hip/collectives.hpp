#pragma once
// AMD's library of collectives, which has NCCL's interface. nccl/cuda/collectives.hpp has the same names.
#include <rccl/rccl.h>

namespace trivium {

using VendorStream = hipStream_t;
inline constexpr const char* collectives_name = "RCCL";

} // namespace trivium
