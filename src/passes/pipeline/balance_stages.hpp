#pragma once
// Which blocks of a model each pipeline stage has.
#include "ir/graph.hpp"

namespace trivium {

/// Assigns consecutive blocks to stages; returns the stage of each block. Minimises the cost of the most
/// expensive stage (FLOPs of a forward pass, plus 8 per byte that ops read or write), exactly. If a rank has
/// several stages (`rank_of_stage`), then moves single blocks between neighbouring stages while the most
/// expensive rank, or among equals the most expensive stage, gets cheaper. For stages in a V it also begins
/// with ranks whose two stages cost the same, and takes the more even result if its maxima are no larger.
/// Throws UserError if there are fewer blocks than stages.
std::vector<int> balance_stages(const Graph& graph, const std::vector<int>& rank_of_stage);

} // namespace trivium
