#pragma once
// Copies between a device and any memory of the host, through pinned memory: at the full speed of the bus,
// which copies from pageable memory do not reach. Not for steps, whose feeds and fetches have pinned places
// of their own.
#include "base/units.hpp"

#include <cstddef>

namespace trivium {

/// Pinned memory that the two functions take, once a process.
inline constexpr Bytes staging_bytes = Bytes{32} << 20;

/// Both begin when all work that the device was given is done, and return when the copy is.
/// \throws IoError where the device has failed
void copy_to_host(std::byte* to, const std::byte* on_device, Bytes bytes);
void copy_to_device(std::byte* on_device, const std::byte* from, Bytes bytes);

} // namespace trivium
