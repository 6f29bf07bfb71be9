#pragma once
// The initial content of run-lifetime values.
#include "runtime/arena.hpp"
#include "schedule/schedule.hpp"

namespace trivium {

/// Fills every run-lifetime value of the graph according to its Init; random numbers depend on (seed, name,
/// global index), so they are the same on every grid. \pre the schedule's memory is planned
void initialise(const Graph& graph, const Schedule& schedule, const Arenas& arenas, std::uint64_t seed,
                int threads);

/// Fills only values of the given role.
void initialise(const Graph& graph, const Schedule& schedule, const Arenas& arenas, std::uint64_t seed,
                int threads, Role role);

/// The buffer of the run-lifetime value called `name`. Throws InternalError if no buffer has the name.
const Buffer& kept_buffer(const Schedule& schedule, std::string_view name);
/// Its content.
HostWindow kept_window(const Schedule& schedule, std::string_view name, const Arenas& arenas);

} // namespace trivium
