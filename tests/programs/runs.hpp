#pragma once
// Programs of all ranks on threads of this process.
#include "programs/compare.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace trivium::runs {

/// Kokkos and OpenMP, once per program.
void start_runtime();
/// On rank 0: what all ranks compute, with the whole outputs if `gather`, and how it differs from one rank.
/// With an even seed, programs are divided around halos (overlap_halos).
Comparison comparison_on_threads(const Graph& sharded, std::uint64_t seed, bool gather = false);
/// The same with these tensors, and the whole outputs.
Comparison comparison_on_threads(const Graph& sharded, const TensorSource& source);
/// The largest difference of each output of a program from that of the same program on one rank
/// (compare.hpp), in the order of its outputs.
std::vector<double> differences_on_threads(const std::string& text, std::uint64_t seed);
double difference_on_threads(const std::string& text, std::uint64_t seed);

} // namespace trivium::runs
