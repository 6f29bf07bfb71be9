#pragma once
// Offload of the optimizer to the host (ZeRO-Offload, Ren et al. 2021, arXiv:2101.06840, section 4): its
// states and the update are in host memory.
#include "ir/graph.hpp"

namespace trivium {

/// Parameters and states are on the host, and so are the ops outside microbatches that update them in place,
/// or that make something smaller of them alone (a cast to the compute type). All other ops stay on the
/// device. A value that is read in the other space is copied once: for microbatches at the end of the
/// prologue, otherwise right after it is computed. The arithmetic is that of the given graph. Local graph in
/// and out; a graph without parameters and states stays as it is.
/// \pre no op of a microbatch updates a parameter or a state
Graph offload_optimizer(Graph graph);

} // namespace trivium
