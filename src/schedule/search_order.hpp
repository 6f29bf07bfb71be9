#pragma once
// A search for the order in which a pipeline runs fastest.
#include "schedule/play.hpp"

#include <functional>

namespace trivium {

/// An order with the length of its step on the clock of play().
struct FoundOrder {
    PipelineOrder order;
    Seconds length = 0;
    ScheduleKind nearest = ScheduleKind::one_f_one_b; ///< the named schedule from which it was made
};

struct OrderSearch {
    i64 ranks = 1;
    i64 microbatches = 1;
    /// Schedules with their chunks; the first that fits into memory is the last resort.
    std::vector<std::pair<ScheduleKind, i64>> named;
    /// The costs of the stages of a shape.
    std::function<OrderCosts(const PipelineShape&)> costs;
    double most = 0;   ///< that a rank may keep, in the unit of StageCost::activations; 0: any amount
    int trials = 4000; ///< orders to look at
};

/// All named schedules that a model of so many blocks can have, with up to most_searched_chunks.
std::vector<std::pair<ScheduleKind, i64>> schedules_of(i64 ranks, i64 blocks);

/// The order of search_order(), and the up to three best named schedules that fit, best first.
std::vector<FoundOrder> candidate_orders(const OrderSearch& search);

/// The best named schedule whose ranks keep at most that much; nothing if none does.
std::optional<FoundOrder> best_named(const OrderSearch& search);

/// An order that is never longer than best_named(), under the same limit: the best of the named schedules,
/// these with their weight gradients in the gaps that the costs leave, and lists by priority; improved by
/// moving tasks along their rank as long as the step gets shorter. Deterministic.
std::optional<FoundOrder> search_order(const OrderSearch& search);

} // namespace trivium
