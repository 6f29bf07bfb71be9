#pragma once
// Internal: how fast ranks compute and how fast links are, and which are too slow.
#include "check/parts.hpp"

namespace trivium {

/// Two ranks that are measured against each other, a < b.
struct RankPair {
    int a = 0, b = 0;
    bool operator==(const RankPair&) const = default;
};

/// Pairs that are measured at the same time, round by round; a rank is in one pair of a round at most. First
/// pairs within nodes: every two ranks of a node, then ranks of different nodes, in the same place on each:
/// every two nodes. Of either no more than `most` rounds, spread evenly. (Round-robin tournaments by the
/// circle method.)
std::vector<std::vector<RankPair>> link_rounds(const std::vector<int>& node_of_rank, std::size_t most);

/// The machine as the median rank has it, on top of `like`: what was not measured is as there.
Machine machine_measured(const CheckReport& report, Machine like);

/// Rates of this rank's processor and memory. All ranks call it, at the same time.
RankRates measure_rank(const CheckGround& ground, Seconds seconds_each);

/// This rank's links. Adds to `wrong` what came otherwise than it was sent. All ranks call it.
std::vector<LinkRate> measure_links(const CheckGround& ground,
                                    const std::vector<std::vector<RankPair>>& rounds, int repeats,
                                    std::vector<std::string>& wrong);

} // namespace trivium
