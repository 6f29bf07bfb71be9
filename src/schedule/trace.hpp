#pragma once
// A measured or simulated step in the trace-event format, for Perfetto and chrome://tracing.
#include "schedule/timeline.hpp"

namespace trivium {

/// Events of one rank, as comma-separated JSON objects: a row per queue, a slice per Step with its op, scope,
/// shapes, FLOPs and bytes. Times in microseconds after `start`.
std::string trace_events(const Graph& graph, const Schedule& schedule, const Timeline& timeline, i64 rank,
                         Seconds start);
/// The content of the file, from the events of all ranks.
std::string trace_json(const std::vector<std::string>& events);

} // namespace trivium
