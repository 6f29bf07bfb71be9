#pragma once
// Internal: the parts of a check, and the functions that they share.
#include "check/run.hpp"

#include <algorithm>

namespace trivium {

/// The context of one rank in a check.
struct CheckGround {
    Comm& world;
    const Grid& grid; ///< all ranks along data
    const CheckConfig& config;
    const RankFacts& facts; ///< of this rank

    bool first() const { return world.rank() == 0; }
    /// Calls the hook of a test within the measurement `what`.
    void timed(const char* what) const
    {
        if (config.hooks.timed)
            config.hooks.timed(what);
    }
};

/// The parts. Collective over ground.world; each adds findings and a line of summary to rank 0's report.
void check_environment(const CheckGround& ground, CheckReport& report);
void check_folder(const CheckGround& ground, CheckReport& report);
void check_arithmetic(const CheckGround& ground, CheckReport& report);
void check_composition(const CheckGround& ground, CheckReport& report);
void check_rates(const CheckGround& ground, CheckReport& report);

/// Groups ranks by value, the most frequent first; ties by lowest rank.
template <class T>
std::vector<std::pair<T, std::vector<int>>> group_ranks(const std::vector<T>& by_rank)
{
    std::vector<std::pair<T, std::vector<int>>> groups;
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
        auto at = std::find_if(groups.begin(), groups.end(),
                               [&](const auto& group) { return group.first == by_rank[rank]; });
        if (at == groups.end())
            at = groups.insert(at, {by_rank[rank], {}});
        at->second.push_back(static_cast<int>(rank));
    }
    std::stable_sort(groups.begin(), groups.end(),
                     [](const auto& a, const auto& b) { return a.second.size() > b.second.size(); });
    return groups;
}

/// "rank 3 (n2)", "ranks 0-3 (n1), rank 6 (n4)".
std::string describe_ranks(const CheckReport& report, const std::vector<int>& ranks);

} // namespace trivium
