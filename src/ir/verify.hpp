#pragma once
// The rules of a legal graph, by level: global (whole tensors, no sharding yet), sharded (values have
// shardings), local (one rank's shapes, which may be empty, and explicit collectives). Each pass states its
// input and output level.
#include "ir/graph.hpp"

namespace trivium {

enum class Level { global, sharded, local };

/// Throws UserError with the graph, the op and the violated rule.
void verify(const Graph& graph, Level level);

} // namespace trivium
