#pragma once
// Programs of all ranks on threads of this process.
#include <cstdint>
#include <string>

namespace trivium::runs {

/// Kokkos and OpenMP, once per program.
void start_runtime();
/// The largest difference of a program's outputs from those of the same program on one rank (compare.hpp).
double difference_on_threads(const std::string& text, std::uint64_t seed);

} // namespace trivium::runs
