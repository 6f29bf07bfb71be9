#pragma once
// Where the time of a rank's step goes: computing, and waiting for transfers, by axis.
#include "schedule/timeline.hpp"

#include <map>
#include <string>

namespace trivium {

/// computed + the sum of exposed = the length of the step.
struct StepParts {
    Seconds computed = 0; ///< an op computes
    /// Nothing computes: by the axis of the transfer that ends last of those for which the next op waits.
    /// Waiting for another stage counts as the pipeline's axis; "" has what waits for the host.
    std::map<std::string, Seconds> exposed;

    Seconds exposed_along(const std::string& axis) const;
};

/// `length`: of the step over all ranks; a rank that ends earlier waits for the others.
StepParts parts_of_step(const Graph& graph, const Schedule& schedule, const Timeline& timeline,
                        Seconds length);

} // namespace trivium
