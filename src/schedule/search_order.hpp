#pragma once
// A search for the order with the shortest step of a pipeline.
#include "schedule/play.hpp"

#include <functional>

namespace trivium {

/// An order, and the length of its step by play().
struct FoundOrder {
    PipelineOrder order;
    Seconds length = 0;
    ScheduleKind nearest = ScheduleKind::one_f_one_b; ///< the named schedule from which it was made
};

struct OrderSearch {
    i64 ranks = 1;
    i64 microbatches = 1;
    /// The named schedules from which the search begins, each with its chunks (stages per rank).
    std::vector<std::pair<ScheduleKind, i64>> named;
    /// The costs of the stages of a shape.
    std::function<OrderCosts(const PipelineShape&)> costs;
    double most = 0;   ///< maximum Playback::peak of a rank; 0: no maximum
    int trials = 4000; ///< moves of a task to try, over all orders
};

/// All named schedules with up to most_searched_chunks stages per rank and up to `blocks` stages in total.
std::vector<std::pair<ScheduleKind, i64>> schedules_of(i64 ranks, i64 blocks);

/// Orders within OrderSearch::most: the one found, whose step is never longer than that of another, then up
/// to three named schedules, best first. The search takes the three best of the named schedules, the same
/// with weight gradients in the gaps (fill_gaps()), and lists by priority; then it moves and splits tasks
/// of a rank as long as no step gets longer. Deterministic.
std::vector<FoundOrder> candidate_orders(const OrderSearch& search);

} // namespace trivium
