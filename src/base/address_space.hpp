#pragma once
// Checks the limit of address space (ulimit -v) in advance, because libraries crash when it refuses them
// memory.
#include "base/units.hpp"

#include <exception>
#include <string>

namespace trivium {

/// Address space for MPI, oneDNN's generated code, HDF5 and threads, in addition to the plan.
inline constexpr Bytes room_for_libraries = Bytes{128} << 20;

/// Throws IoError if the process cannot map `bytes` more bytes of address space for `purpose` ("the arena and
/// libraries"). The mapping is only a probe, removed at once.
void require_address_space(Bytes bytes, const std::string& purpose);

/// The message for an exception that is not an Error: out of memory or threads, a file that cannot be
/// accessed, otherwise an internal error.
std::string describe_exception(const std::exception& error);

} // namespace trivium
