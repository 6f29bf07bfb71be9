#pragma once
// Calls that might hang, crash or use all memory.
#include <functional>
#include <string>

namespace trivium {

/// The result of `call` in a child process. Otherwise "signal N" if it dies, "hung" after `seconds`, "took
/// more than 2 GiB", or "threw …" for an exception.
std::string guarded(const std::function<std::string()>& call, double seconds = 10);

} // namespace trivium
