#pragma once
// Room for what a process will still be given: libraries crash, rather than say so, where a limit (ulimit -v)
// refuses them memory.
#include "base/units.hpp"

#include <exception>
#include <string>

namespace trivium {

/// Address space that MPI, oneDNN's generated code, HDF5 and threads take beside what is planned.
inline constexpr Bytes room_for_libraries = Bytes{128} << 20;

/// Throws IoError where the process may not have `bytes` more memory, which `purpose` needs ("the arena and
/// libraries"). Takes none of it.
void require_address_space(Bytes bytes, const std::string& purpose);

/// What to print of an exception that is no Error: that the system refuses memory or threads, else that this
/// is a bug.
std::string describe_exception(const std::exception& error);

} // namespace trivium
