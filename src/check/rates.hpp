#pragma once
// Internal: throughput of ranks and links.
#include "check/parts.hpp"

namespace trivium {

/// Two ranks whose link is measured, a < b.
struct RankPair {
    int a = 0, b = 0;
    bool operator==(const RankPair&) const = default;
};

/// Rounds of pairs that are measured at the same time; a rank is in at most one pair of a round. First every
/// two ranks of a node, then ranks with the same index on every two nodes. At most `most` rounds of each
/// kind, spread evenly. (Round-robin tournaments by the circle method.)
std::vector<std::vector<RankPair>> link_rounds(const std::vector<int>& node_of_rank, std::size_t most);

/// `like` with the measured values: medians over ranks and over links, the least memory of a rank's node, the
/// most ranks of a node. Reads facts, rates and links of all ranks.
Machine machine_measured(const CheckReport& report, Machine like);

/// Measures the throughput of this rank's processor and memory, `seconds_each` per measurement. Collective:
/// all ranks measure at the same time.
RankRates measure_rank(const CheckGround& ground, Seconds seconds_each);

/// The durations of some runs of each of several programs.
using ProgramRuns = std::vector<std::vector<Seconds>>;

/// What measure_ops() finds on a rank.
struct OpRates {
    std::vector<OpSample> samples; ///< by kind and size, of the best of each op's measurements
    Seconds best = 0;              ///< of one run of each program, by the best of its ops
    std::vector<ProgramRuns> runs; ///< by repetition; as many on all ranks. Empty if cores are shared
};

/// Trains small models on this rank alone and measures each Step; then measures collectives among the ranks
/// of its node. Collective: all ranks measure at the same time. On the host.
OpRates measure_ops(const CheckGround& ground);

/// Machine::stragglers of ranks that had these rates at the same time: the part by which the slowest rank's
/// runs take longer, in the median and in the best repetition, than the best of their ops, divided by
/// expected_maximum() of their number. 0 for one rank, and if there are no runs.
double stragglers_of(const std::vector<OpRates>& ranks);

/// Takes the better value of each of two measurements at different times: a slow link is slow each time.
void keep_best(LinkRate& best, const LinkRate& again);

/// Measures this rank's links and keeps the best of `repeats` values. Appends to `wrong` a description of
/// each message that arrived changed. Collective.
std::vector<LinkRate> measure_links(const CheckGround& ground,
                                    const std::vector<std::vector<RankPair>>& rounds, int repeats,
                                    std::vector<std::string>& wrong);

} // namespace trivium
