#pragma once
// Calls that might hang, crash or take all memory.
#include <functional>
#include <string>

namespace trivium {

/// What `call` returns, made in a child process. Instead: "signal N" where it dies, "hung" after `seconds`,
/// "took more than 2 GiB", "threw …" for an exception.
std::string guarded(const std::function<std::string()>& call, double seconds = 10);

} // namespace trivium
