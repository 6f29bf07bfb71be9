#pragma once
// Internal: finds slow ranks and links.
#include "check/rates.hpp"

namespace trivium {

/// Reports ranks that did not get their cores: a fault if most others did, otherwise a warning. Reads
/// report.rates.
void judge_shares(CheckReport& report);

/// Reports ranks and nodes below `slow_rank` of the median of their kind, and links below `slow_link` of the
/// median of their kind (within nodes, between nodes) or with a far higher latency. If all links of a rank or
/// node are slow, it reports that rank or node. Of the paths between two nodes that are measured at the same
/// time, it reports one far below the others. Faults if the affected ranks got their cores, otherwise
/// warnings. Reads report.rates of all ranks.
void judge_rates(CheckReport& report, double slow_rank, double slow_link);

} // namespace trivium
