#pragma once
// A clock for pipeline orders: when each task would run, and what its rank would keep. Tasks take the time of
// their stage; communication other than messages between stages is not counted (plan/cost.hpp counts it).
#include "schedule/order.hpp"
#include "schedule/timeline.hpp"

#include <functional>
#include <optional>

namespace trivium {

struct StageCost {
    Seconds forward = 1, input_gradient = 1, weight_gradient = 1;
    double activations = 1; ///< kept from the forward pass of a microbatch to the end of its last task
    Seconds message = 0;    ///< between this stage and the next, in both directions
};

/// By stage.
using OrderCosts = std::vector<StageCost>;

/// Every task takes 1 and keeps 1, messages take nothing.
OrderCosts unit_costs(const PipelineShape& shape);

Seconds seconds_of(const Task& task, const OrderCosts& costs);

struct Playback {
    std::vector<std::vector<Span>> spans; ///< by rank, then by task
    std::vector<double> peak;             ///< by rank: the most that its tasks keep at the same time
    std::vector<Seconds> work;            ///< by rank: the sum of its tasks

    /// From the first begin to the last end, over all ranks.
    Seconds length() const;
    /// A rank's idle time between its first and its last task (Qi et al. 2023, section 2.3).
    Seconds bubble(std::size_t rank) const;
    Seconds largest_bubble() const;
};

/// Nothing if the ranks wait for each other forever.
std::optional<Playback> play(const PipelineOrder& order, const OrderCosts& costs);

/// Adds the weight gradients to orders of forward passes and input gradients: each rank runs its next task as
/// soon as it can, and meanwhile the weight gradients that are due; forward passes wait while the rank keeps
/// more than `most` with them. Nothing if the tasks wait for each other forever.
std::optional<std::vector<RankOrder>> try_fill_gaps(const PipelineShape& shape,
                                                    const std::vector<RankOrder>& base,
                                                    const OrderCosts& costs, double most);
/// The same of tasks that do not wait forever.
std::vector<RankOrder> fill_gaps(const PipelineShape& shape, const std::vector<RankOrder>& base,
                                 const OrderCosts& costs, double most);

/// The same without given orders: of the forward passes and input gradients that can run, each rank takes the
/// one for which `better(task, other)` holds against all others.
std::optional<std::vector<RankOrder>>
list_by_priority(const PipelineShape& shape, const OrderCosts& costs, double most,
                 const std::function<bool(const Task&, const Task&)>& better);

} // namespace trivium
