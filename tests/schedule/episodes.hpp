#pragma once
// The intervals in which buffers are needed, by brute force: the reference for the memory plan.
#include "catch.hpp"
#include "closure.hpp"

#include <map>

namespace trivium {

/// An interval in which a buffer's content is needed: all Steps that use it.
struct Episode {
    std::size_t buffer;
    std::vector<std::size_t> steps;
    i64 microbatch;
};

/// The episodes of a Schedule: for a microbatch buffer one per microbatch, for scratch one per Step.
inline std::vector<Episode> episodes_of(const Schedule& s)
{
    std::vector<Episode> episodes;
    std::map<std::pair<std::size_t, i64>, std::size_t> known;
    for (std::size_t i = 0; i < s.steps.size(); ++i) {
        const Step& step = s.steps[i];
        const auto touch = [&](BufferId id) {
            const i64 microbatch = s[id].lifetime == Lifetime::microbatch ? step.microbatch : -1;
            const auto [at, added] = known.try_emplace({id.index(), microbatch}, episodes.size());
            if (added)
                episodes.push_back({id.index(), {}, microbatch});
            episodes[at->second].steps.push_back(i);
        };
        for (const BufferId id : step.operands)
            touch(id);
        for (const BufferId id : step.results)
            touch(id);
        if (step.scratch)
            episodes.push_back({step.scratch.index(), {i}, step.microbatch});
    }
    return episodes;
}

/// Requires that two buffers share bytes only if all Steps of one have certainly ended before any of the
/// other begins.
inline void check_disjoint(const Schedule& s, const std::vector<Episode>& episodes, Bytes red_zone)
{
    const Closure closure(s);
    for (std::size_t i = 0; i < episodes.size(); ++i)
        for (std::size_t j = 0; j < i; ++j) {
            const Episode &x = episodes[i], &y = episodes[j];
            const Buffer &a = s.buffers[x.buffer], &b = s.buffers[y.buffer];
            const bool share = a.space == b.space && a.offset < b.offset + b.bytes + red_zone &&
                               b.offset < a.offset + a.bytes + red_zone;
            if (x.buffer == y.buffer || !share)
                continue;
            INFO(a.name << " at " << a.offset << " and " << b.name << " at " << b.offset);
            REQUIRE(a.lifetime != Lifetime::run);
            REQUIRE(b.lifetime != Lifetime::run);
            REQUIRE((closure.all_before(x.steps, y.steps) || closure.all_before(y.steps, x.steps)));
        }
}

/// Requires that Steps that use the same buffer are ordered if one of them writes.
inline void check_no_race(const Schedule& s, const Closure& closure)
{
    std::vector<std::vector<std::pair<std::size_t, bool>>> touches(s.buffers.size());
    for (std::size_t i = 0; i < s.steps.size(); ++i) {
        for (const BufferId id : s.steps[i].operands)
            touches[id.index()].emplace_back(i, false);
        for (const BufferId id : s.steps[i].results)
            touches[id.index()].emplace_back(i, true);
        if (s.steps[i].scratch)
            touches[s.steps[i].scratch.index()].emplace_back(i, true);
    }
    for (std::size_t b = 0; b < touches.size(); ++b)
        for (const auto& [i, i_writes] : touches[b])
            for (const auto& [j, j_writes] : touches[b])
                if (i < j && (i_writes || j_writes) && !closure.before(i, j))
                    FAIL(s.buffers[b].name << ": steps " << i << " and " << j << " are not ordered");
}

} // namespace trivium
