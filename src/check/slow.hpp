#pragma once
// Internal: which ranks and links are too slow.
#include "check/rates.hpp"

namespace trivium {

/// Names the ranks that were not given their cores: a fault where those of most others were their own, else a
/// warning. By report.rates.
void judge_shares(CheckReport& report);

/// Names the ranks and nodes whose rate is below `slow_rank` of the median of their kind, and the links whose
/// rate is below `slow_link` of the median of theirs (within nodes, between nodes), or whose latency is far
/// above it: a rank or a node all of whose links are so, else the link; and of the paths between two nodes,
/// measured at the same time, one that is far below the others. Faults where the cores of those concerned
/// were their own, else warnings. \pre report.rates has all ranks
void judge_rates(CheckReport& report, double slow_rank, double slow_link);

} // namespace trivium
