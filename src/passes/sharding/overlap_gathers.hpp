#pragma once
// Gathers in parts, each of which travels while the part before it is in use. Local graph in and out.
#include "passes/sharding/overlap_halos.hpp"

#include <map>

namespace trivium {

/// Into how many parts ops are divided, by the name of their first result.
using GatherParts = std::map<std::string, i64>;

/// For ops that read gathers (gathered_ops.hpp): the number of parts, along a factor that no collective
/// concerns, such as the heads of attention, with which a microbatch is shortest; the same in all layers of a
/// phase. Without `seconds`: as many as there are. Durations differ between ranks, but all ranks of a stage
/// need the same parts: those of its first rank. `waits`: a transfer begins when what comes before it has
/// been computed, as on hosts; otherwise when what it sends has.
GatherParts parts_of_gathers(const Graph& graph, const OverlapSeconds& seconds = {}, bool waits = false);

/// Divides these ops: part k + 1 of what they read is gathered before they compute part k, and what ranks
/// reduce of part k travels meanwhile. Then two parts are in memory, not the whole. The same elements are
/// sent, in more collectives. What several ops read is gathered once.
Graph overlap_gathers(Graph graph, const GatherParts& parts);

} // namespace trivium
