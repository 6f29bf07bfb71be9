#pragma once
// Programs of all ranks on threads of this process.
#include <cstdint>
#include <string>
#include <vector>

namespace trivium::runs {

/// Kokkos and OpenMP, once per program.
void start_runtime();
/// The largest difference of each output of a program from that of the same program on one rank
/// (compare.hpp), in the order of its outputs.
std::vector<double> differences_on_threads(const std::string& text, std::uint64_t seed);
double difference_on_threads(const std::string& text, std::uint64_t seed);

} // namespace trivium::runs
