#include "choose/choose_buckets.hpp"

#include "passes/fuse.hpp"
#include "plan/cost.hpp"

#include <algorithm>

namespace trivium {

std::string BucketChooser::choose(const Graph& graph, i64 microbatches)
{
    const GraphProfile found = plans_.profile(graph);
    if (found.profile.gathers.empty() && found.profile.reductions.empty())
        return "block";
    const auto at = std::find_if(known_.begin(), known_.end(),
                                 [&](const auto& each) { return each.first == found.profile; });
    if (at != known_.end())
        return at->second;
    return known_.emplace_back(found.profile, best(graph, found, microbatches)).second;
}

std::string BucketChooser::best(const Graph& graph, const GraphProfile& found, i64 microbatches)
{
    ScheduleConfig schedule;
    schedule.microbatches = std::min<i64>(microbatches, 2);
    schedule.place = plans_.config().parallel.overlap;
    std::string best;
    Seconds least = 0;
    for (const char* const mode : {"block", "greedy", "global", "none"}) { // of equal ones, the first
        const Graph merged = fuse(bucket(graph, found.config_of(plans_.plan(found.profile, mode))));
        const Seconds length =
            simulate(merged, build_schedule(merged, schedule), plans_.machine(), plans_.threads()).length();
        if (best.empty() || length < least * (1 - 1e-9)) {
            best = mode;
            least = length;
        }
    }
    return best;
}

} // namespace trivium
