#pragma once
// Internal: what a planned step depends on most.
#include "choose/plan_report.hpp"

namespace trivium {

/// A change of the machine or of a setting, and the step that it leads to.
struct Sensitivity {
    std::string change; ///< "links between nodes at half their bandwidth"
    Seconds step = 0;
};

/// Of the strategy that the report is about: simulates its step on changed machines, and compares with the
/// best of the found strategies on the same grid with smaller and with larger microbatches, and in another
/// order of the mesh. The largest change first; those below 0.1 % are left out.
std::vector<Sensitivity> sensitivities_of(const PlanReport& report);

} // namespace trivium
