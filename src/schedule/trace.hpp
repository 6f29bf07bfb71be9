#pragma once
// A measured or simulated step in the Trace Event Format, for Perfetto and chrome://tracing.
#include "schedule/timeline.hpp"

namespace trivium {

/// The events of one rank, as comma-separated JSON objects: a row per queue, and a slice per Step with its
/// op, scope, result type, FLOPs and bytes. Times in microseconds after `start`.
std::string trace_events(const Graph& graph, const Schedule& schedule, const Timeline& timeline, i64 rank,
                         Seconds start);
/// The content of the file. `events`: trace_events() of each rank.
std::string trace_json(const std::vector<std::string>& events);

} // namespace trivium
