#pragma once
// Internal: finds slow ranks and links.
#include "check/rates.hpp"

namespace trivium {

/// Reports ranks that got too little of their cores' time: a fault if most other ranks got theirs, otherwise
/// a warning. Reads report.rates.
void judge_shares(CheckReport& report);

/// Reports ranks and nodes below `slow_rank` of the median of their kind, and links below `slow_link` of the
/// median of their kind (within nodes, between nodes) or with a far higher latency. If all links of a rank or
/// node are slow, reports that rank or node instead. Of the paths between two nodes that are measured at the
/// same time, reports a path far below the others. These are faults if the affected ranks got their cores,
/// otherwise warnings. Reads report.rates of all ranks.
void judge_rates(CheckReport& report, double slow_rank, double slow_link);

} // namespace trivium
