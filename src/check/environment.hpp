#pragma once
// Internal: what ranks must have in common, judged from what they say.
#include "check/run.hpp"

namespace trivium {

/// Another program, library, processor or number of threads on some ranks; more threads than cores, by
/// report.facts.
void judge_environment(CheckReport& report);

/// Ranks whose clock is more than `most` seconds off rank 0's, by report.clocks.
void judge_clocks(CheckReport& report, Seconds most);

/// Nodes whose ranks have more threads than cores: what they measure is no rate of theirs.
std::vector<int> crowded_nodes(const CheckReport& report);

} // namespace trivium
