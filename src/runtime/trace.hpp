#pragma once
// A measured or simulated step as a picture: the trace-event format that Perfetto and chrome://tracing open.
#include "schedule/timeline.hpp"

namespace trivium {

/// Events of one rank, as JSON objects with commas between: a row per queue, a slice per Step with its op,
/// scope, shapes, flops and bytes. Times in microseconds after `start`.
std::string trace_events(const Graph& graph, const Schedule& schedule, const Timeline& timeline, i64 rank,
                         Seconds start);
/// The file's text, of the events of all ranks.
std::string trace_json(const std::vector<std::string>& events);

} // namespace trivium
