#pragma once
// Computes what needs no halo while the halo travels. Local graph in and out.
#include "ir/graph.hpp"

#include <functional>

namespace trivium {

/// By op: the duration of an op that computes; of a transfer, how long the rank may compute meanwhile.
using OverlapSeconds = std::function<std::vector<Seconds>(const Graph&)>;

/// Divides ops whose windows read a halo: the interior reads the rank's own box, so it may run before the
/// halo has arrived; then slabs along each side read what has. Interiors of all readers of a halo go to the
/// place of the first one. The parts are concatenated where a result has the windows' factor, otherwise
/// added. The collectives stay the same. With `seconds`, only ops that then end earlier are divided; without,
/// all that can be.
Graph overlap_halos(Graph graph, const OverlapSeconds& seconds = {});

} // namespace trivium
