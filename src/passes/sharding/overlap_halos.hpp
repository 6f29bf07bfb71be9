#pragma once
// Computes what needs no halo while the halo travels. Local graph in and out.
#include "passes/collectives/fill_waits.hpp"

namespace trivium {

/// Divides ops whose windows read a halo: the interior of the result reads the rank's own box, so it may be
/// computed before the halo has arrived; then the slabs along its sides, which read what has. Interiors of
/// all readers of a halo go to the place of the first one. The collectives stay the same. With `seconds`,
/// only ops that then end earlier are divided; without, all that can be. Sums over windows (gradients of
/// weights) are not: slabs of them take nearly as long as the whole.
Graph overlap_halos(Graph graph, const OverlapSeconds& seconds = {});

} // namespace trivium
