#pragma once
// The initial content of the values that are kept over a run.
#include "runtime/arena.hpp"
#include "schedule/schedule.hpp"

namespace trivium {

/// Fills every run-lifetime value of the graph as its Init says; random ones from (seed, name, global index),
/// so the same numbers on every grid. The schedule's memory is planned.
void initialise(const Graph& graph, const Schedule& schedule, Arena& arena, std::uint64_t seed, int threads);

/// Fills the values of the given role only.
void initialise(const Graph& graph, const Schedule& schedule, Arena& arena, std::uint64_t seed, int threads,
                Role role);

/// The buffer of the run-lifetime value called `name`. Throws InternalError where no buffer has the name.
const Buffer& kept_buffer(const Schedule& schedule, std::string_view name);

} // namespace trivium
