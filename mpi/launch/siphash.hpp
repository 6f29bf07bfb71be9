#pragma once
// SipHash-2-4: a keyed hash of short messages.
// J.-P. Aumasson, D. J. Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012.
#include "base/units.hpp"

#include <array>
#include <string_view>

namespace trivium {

/// 128 bits; the first 8 bytes of the paper's key are the first number, little-endian.
using SipKey = std::array<u64, 2>;

/// The paper's result, on machines of either byte order.
u64 siphash(const SipKey& key, std::string_view text);

} // namespace trivium
