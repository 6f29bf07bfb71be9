#pragma once
// Whether the ranks of a pipeline can run their tasks in an order.
#include "schedule/order.hpp"

#include <optional>

namespace trivium {

struct OrderFault {
    i64 rank = 0; ///< in whose order the first of the tasks is
    std::string problem, reason, remedy;
};

/// The first reason why an order cannot run; nothing if it can. Each microbatch passes each stage forward and
/// backward once, the latter whole or in halves, in this order. Messages between two stages arrive in the
/// order in which they are sent. No rank waits forever, even if no message is buffered: a message moves once
/// the receiver has run everything before its reader, and until then the sender cannot use its buffer again.
std::optional<OrderFault> find_fault(const PipelineOrder& order);

} // namespace trivium
