#pragma once
// Whether a graph is legal, by level: global (whole tensors, no sharding yet), sharded (shardings on values),
// local (one rank's shapes, collectives explicit). Each pass states its level in and out.
#include "ir/graph.hpp"

namespace trivium {

enum class Level { global, sharded, local };

/// Throws UserError that names the graph, the op and the rule that is broken.
void verify(const Graph& graph, Level level);

} // namespace trivium
