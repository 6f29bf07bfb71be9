#pragma once
// Offload of the optimizer to the host (ZeRO-Offload, Ren et al. 2021, arXiv:2101.06840, section 4): its
// states are in host memory, and the host computes the update. Local graph in and out.
#include "ir/graph.hpp"

namespace trivium {

/// Parameters and states are on the host. The host computes the ops outside microbatches that update them in
/// place, or that read only values on the host and have smaller results (a cast to the compute type), except
/// collectives; the device computes all other ops. A value that is read in the other space is copied once:
/// for microbatches at the end of the prologue, in the prologue before the first reader, in the epilogue as
/// early as possible. The arithmetic does not change. A graph without parameters and states stays as it is.
/// \pre no op of a microbatch updates a parameter or a state
Graph offload_optimizer(Graph graph);

} // namespace trivium
