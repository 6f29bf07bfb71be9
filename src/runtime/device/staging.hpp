#pragma once
// Copies between a device and any host memory through pinned memory, at the full bandwidth of the bus, which
// copies from pageable memory do not reach. Not for steps: their feeds and fetches have pinned memory
// (Streams).
#include "base/units.hpp"

#include <cstddef>

namespace trivium {

/// Pinned memory that the two functions share, allocated once per process.
inline constexpr Bytes staging_bytes = Bytes{32} << 20;

/// Both begin when all earlier work of the device is done, and return when the copy is done. Not thread-safe.
/// \throws IoError if the device has failed
void copy_to_host(std::byte* to, const std::byte* on_device, Bytes bytes);
void copy_to_device(std::byte* on_device, const std::byte* from, Bytes bytes);

} // namespace trivium
