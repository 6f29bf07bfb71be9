#pragma once
// A clock for pipeline orders: when each task runs, and what a rank keeps, mostly activations. A task takes
// the time of its stage. Of communication, only messages between stages count (plan/cost.hpp counts all).
#include "schedule/order.hpp"
#include "schedule/timeline.hpp"

#include <functional>
#include <optional>

namespace trivium {

struct StageCost {
    Seconds forward = 1, input_gradient = 1, weight_gradient = 1;
    double activations = 1; ///< kept from the forward pass of a microbatch to the end of its backward pass
    Seconds message = 0;    ///< between this stage and the next, in both directions
    double waiting = activations; ///< kept instead from the input gradient to the weight gradient
    Seconds in_line = 0;          ///< of the passes: collectives during which nothing is computed
    double gradients = 0; ///< kept from the stage's first backward pass of a step to the end of its last one
};

/// The costs of each stage.
using OrderCosts = std::vector<StageCost>;

/// A forward pass and each half of a backward pass take 1, a forward pass keeps 1, and messages take nothing.
OrderCosts unit_costs(const PipelineShape& shape);

Seconds seconds_of(const Task& task, const OrderCosts& costs);

struct Playback {
    std::vector<std::vector<Span>> spans; ///< by rank, then by task
    std::vector<double> peak;             ///< by rank: most that is kept at a time (StageCost)

    /// From the first begin to the last end, over all ranks.
    Seconds length() const;
};

/// Nothing if the ranks wait for each other forever.
std::optional<Playback> play(const PipelineOrder& order, const OrderCosts& costs);

/// Adds weight gradients to `base`, the forward passes and input gradients of each rank. A rank runs its next
/// task of `base` as soon as it can, and weight gradients in the gaps. A forward pass waits while it would
/// raise the activations that the rank keeps above `most`. Nothing if the ranks wait for each other forever.
std::optional<std::vector<RankOrder>> fill_gaps(const PipelineShape& shape,
                                                const std::vector<RankOrder>& base, const OrderCosts& costs,
                                                double most);

/// Like fill_gaps(), without given orders: of the forward passes and input gradients that can run, each
/// rank takes the best by `better(task, other)`.
std::optional<std::vector<RankOrder>>
list_by_priority(const PipelineShape& shape, const OrderCosts& costs, double most,
                 const std::function<bool(const Task&, const Task&)>& better);

} // namespace trivium
