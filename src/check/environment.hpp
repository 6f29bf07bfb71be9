#pragma once
// Internal: compares the environments of the ranks.
#include "check/run.hpp"

namespace trivium {

/// Reports ranks whose program, libraries, processor or number of threads differ from those of most ranks,
/// and ranks that together have more threads than cores. Reads report.facts.
void judge_environment(CheckReport& report);

/// Reports ranks whose clock differs from rank 0's by more than `most` seconds. Reads report.clocks.
void judge_clocks(CheckReport& report, Seconds most);

/// Nodes whose ranks have more threads than cores: their measurements are not reliable.
std::vector<int> crowded_nodes(const CheckReport& report);

} // namespace trivium
