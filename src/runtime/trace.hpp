#pragma once
// A measured or simulated step as a picture: the trace-event format that Perfetto and chrome://tracing open.
#include "schedule/timeline.hpp"

namespace trivium {

/// One row per queue, one slice per Step with its op, scope, shapes, flops and bytes. Times in microseconds.
std::string trace_json(const Graph& graph, const Schedule& schedule, const Timeline& timeline);

} // namespace trivium
