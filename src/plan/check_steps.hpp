#pragma once
// Whether the ranks of a grid can run their Steps.
#include "plan/cost.hpp"

namespace trivium {

struct StepFault {
    std::size_t rank = 0; ///< index in the list of programs
    StepId step;          ///< of that rank: the first Step that `problem` names
    std::string problem;
};

/// The first reason why these ranks cannot run a step together; nothing if they can. `ranks`: all ranks of a
/// grid, or one of each pipeline stage with the same other coordinates; only these take part in a group.
/// Ranks can run a step if
/// - a Step waits for the last write to each buffer that it reads, and for the last write and later reads of
///   each buffer that it writes (scratch is not checked: only Steps of one queue share it);
/// - messages of a tag are sent and received in the same order of microbatches, and the members of a group
///   run the same kinds of collectives in the same order;
/// - no rank waits forever, even if no message is buffered. Steps begin in the order of the list, each when
///   its waits have ended; a transfer also waits for those before it on its queue, and ends when all its
///   members have begun it. Without `overlap`, no Step begins before a transfer with results has ended.
std::optional<StepFault> find_fault(const std::vector<StageProgram>& ranks, bool overlap);

} // namespace trivium
