#pragma once
// When the content of each buffer is needed, and how much memory that takes in an execution of the Steps.
#include "schedule/happens_before.hpp"

namespace trivium {

/// An interval in which a buffer's content is needed: from the first Step that accesses it until the last one
/// on each queue has ended.
struct Interval {
    StepId first;
    ShortList<StepId, 4> last; ///< one per queue that accesses the buffer
    i64 microbatch = -1;
};

/// The intervals of one buffer, in list order; each ends before the next begins.
using Intervals = std::vector<Interval>;

/// The intervals of each buffer; of scratch, one per Step.
std::vector<Intervals> find_intervals(const Schedule& schedule);

/// One past the list position of the last Step of an interval.
std::size_t end_of(const Interval& interval);

/// An execution of a Schedule that its waits allow. Time counts the Steps that have begun: a Step begins at
/// `begin`, and has ended before the Step that begins at `end`.
struct Execution {
    struct Span {
        std::size_t begin = 0, end = 0;
    };
    std::vector<Span> steps; ///< by Step; one Step begins at each time
};

/// Steps run one after another in list order.
Execution one_by_one(const Schedule& schedule);

/// Every Step of a queue other than compute begins as early as possible, and lasts until a Step of the
/// compute queue must wait for it.
Execution long_transfers(const Schedule& schedule, const HappensBefore& order);

/// A buffer whose content is needed at the times [begin, end) of an execution.
struct Alive {
    BufferId buffer;
    std::size_t begin = 0, end = 0;
    StepId first, last; ///< the Steps at which it begins and ends
};

/// The buffers of one space over an execution, without those of lifetime run.
struct Occupancy {
    Execution execution;
    std::vector<Alive> alive; ///< by buffer, then by time
    std::size_t peak = 0;     ///< the first time at which most bytes are alive
    Bytes bytes = 0;          ///< alive at the peak
};

/// one_by_one() or long_transfers(), whichever has the higher peak. Every legal memory plan needs at least
/// these bytes. They are close to the maximum over all executions, the heaviest antichain of the intervals.
/// `intervals`: find_intervals().
Occupancy worst_occupancy(const Schedule& schedule, const HappensBefore& order,
                          const std::vector<Intervals>& intervals, Space space = Space::device);

} // namespace trivium
