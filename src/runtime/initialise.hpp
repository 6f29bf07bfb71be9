#pragma once
// The initial content of run-lifetime values.
#include "runtime/arena.hpp"
#include "schedule/schedule.hpp"

namespace trivium {

/// Fills the parameters, states and constants of the graph, or only the values of `role`, according to their
/// Init; random numbers depend on (seed, name, global index), so they are the same on every grid. \pre the
/// schedule's memory is planned
void initialise(const Graph& graph, const Schedule& schedule, const Arenas& arenas, std::uint64_t seed,
                int threads, std::optional<Role> role = {});

/// The buffer of the run-lifetime value called `name`. Throws InternalError if there is none.
const Buffer& kept_buffer(const Schedule& schedule, std::string_view name);
/// A window on that buffer, for pull() or push().
HostWindow kept_window(const Schedule& schedule, std::string_view name, const Arenas& arenas);

} // namespace trivium
