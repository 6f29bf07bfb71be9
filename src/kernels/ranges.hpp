#pragma once
// Several kernels over one range after another, so that what they pass on stays in the caches of a core.
#include "kernels/exec.hpp"

#include <functional>

namespace trivium::kernels {

/// f(begin, end) on each thread, with its range of [0, n). Kernels that f calls must run on one thread. On a
/// device, whose kernels know no ranges: f(0, n).
void for_ranges(const Exec& exec, i64 n, const std::function<void(i64 begin, i64 end)>& f);

/// Whether Kokkos' tools observe this process: then they should see each kernel as a whole.
bool observed_by_tools();

} // namespace trivium::kernels
