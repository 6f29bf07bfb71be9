#pragma once
// Whether the ranks of a grid can run their Steps.
#include "plan/cost.hpp"

namespace trivium {

struct StepFault {
    std::size_t rank = 0; ///< its place in the list of programs
    StepId step;          ///< the first of the Steps at fault
    std::string problem;  ///< with the Steps
};

/// The first reason why these ranks cannot run a step together; nothing if they can. They are all ranks of a
/// grid, or one of each pipeline stage with the same other coordinates; of a group, those that are given take
/// part.
///
/// Each Step waits for whatever last wrote or read the bytes that it writes, and wrote those that it reads
/// (otherwise it would need a buffer more). Each send has its receive, of the same value and microbatch, in
/// the order of their queue; the members of a group run the same collectives in the same order. No rank waits
/// forever, even if no message is buffered: Steps begin in the order of the list, each when its waits have
/// ended, transfers also when those before them on their queue have; a transfer ends when all who take part
/// have begun it. Without `overlap`, nothing begins before a transfer that has results ends.
std::optional<StepFault> find_fault(const std::vector<StageProgram>& ranks, bool overlap);

} // namespace trivium
