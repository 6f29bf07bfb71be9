#include "choose/sensitivity.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

namespace trivium {

namespace {

/// The fastest of the other strategies on the same degrees that `holds`.
const Strategy* fastest(const PlanReport& r, const std::function<bool(const RunConfig&)>& holds)
{
    const Strategy* best = nullptr;
    for (const Strategy& s : r.strategies)
        if (degrees_of(s.config.parallel) == degrees_of(r.own().config.parallel) && holds(s.config) &&
            (best == nullptr || s.score.step < best->score.step))
            best = &s;
    return best;
}

} // namespace

std::vector<Sensitivity> sensitivities_of(const PlanReport& r)
{
    std::vector<Sensitivity> all;
    const i64 ranks = r.rank_total();
    const Seconds step = r.own().score.step;
    const auto with = [&](const char* change, auto&& alter) {
        Machine machine = r.machine;
        alter(machine);
        all.push_back({change, r.step->seconds(machine, r.threads)});
    };
    if (ranks > 1) {
        const bool several = r.machine.node_of(ranks - 1) > 0;
        with("one rank 5 % slower", [&](Machine& m) { m.stragglers += 0.05 / expected_maximum(ranks); });
        // Measured collectives do not follow from the links' bandwidth.
        if (several || r.machine.is_device || r.machine.ops.empty())
            with(several ? "links within nodes at half their bandwidth" : "links at half their bandwidth",
                 [](Machine& m) {
                     m.node_link_latency = m.latency(true); // those between nodes stay
                     m.node_link_bytes_per_second = m.link_rate(true) / m.link_efficiency;
                     m.link_bytes_per_second /= 2;
                     m.copy_bytes_per_second /= 2;
                 });
        if (several)
            with("links between nodes at half their bandwidth", [](Machine& m) {
                m.node_link_latency = m.latency(true);
                m.node_link_bytes_per_second = m.link_rate(true) / m.link_efficiency / 2;
            });
        if (r.config.model.experts > 0)
            with("1.5 times as many rows at the fullest rank's experts",
                 [](Machine& m) { m.expert_load *= 1.5; });
        with("messages with twice the latency", [](Machine& m) {
            for (Seconds* latency : {&m.collective_latency, &m.link_latency, &m.node_link_latency})
                *latency *= 2;
        });
    }
    const RunConfig& own = r.own().config;
    for (const bool larger : {false, true})
        if (const Strategy* other = fastest(r, [&](const RunConfig& c) {
                const i64 micro = micro_batch(c), now = micro_batch(own);
                return larger ? micro > now : micro < now;
            }))
            all.push_back(
                {str("the best with a microbatch of ", micro_batch(other->config)), other->score.step});
    if (const Strategy* other =
            fastest(r, [&](const RunConfig& c) { return c.parallel.order != own.parallel.order; }))
        all.push_back({other->config.parallel.order.empty() ? "the best with stages on a node"
                                                            : "the best with data ranks on a node",
                       other->score.step});
    const auto size = [&](const Sensitivity& s) { return std::abs(s.step / step - 1); };
    std::erase_if(all, [&](const Sensitivity& s) { return size(s) < 1e-3; });
    std::ranges::stable_sort(all, std::ranges::greater{}, size);
    return all;
}

} // namespace trivium
