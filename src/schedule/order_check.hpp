#pragma once
// Whether the ranks of a pipeline can run their tasks in an order.
#include "schedule/order.hpp"

#include <optional>

namespace trivium {

struct OrderFault {
    i64 rank = 0; ///< the rank of the first task that `problem` names
    std::string problem, reason, remedy;
};

/// The first reason why an order cannot run; nothing if it can. An order can run if
/// - each stage runs for each microbatch one forward pass, then one backward pass, whole or in two halves;
/// - messages between two stages are received in the order in which they are sent;
/// - no rank waits forever, even if no message is buffered: a message moves once the receiver has run every
///   task before its reader, and until then the sender cannot use the buffer of the message again.
std::optional<OrderFault> find_fault(const PipelineOrder& order);

} // namespace trivium
