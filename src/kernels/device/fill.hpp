#pragma once
#include "kernels/exec.hpp"

#include <cstdint>

namespace trivium::kernels {

/// Sets every byte to `value`, as work on the stream of `exec`.
void fill(const Exec& exec, void* to, std::uint8_t value, Bytes bytes);

} // namespace trivium::kernels
