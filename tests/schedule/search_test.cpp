// The search for an order: never slower than the best named schedule, and close to the best of all orders.
#include "base/check.hpp"
#include "catch.hpp"
#include "schedule/named_order.hpp"
#include "schedule/order_check.hpp"
#include "schedule/search_order.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <set>

using namespace trivium;

namespace {

/// A model of blocks with random costs; its stages are made of blocks like those of a config.
struct Profile {
    i64 ranks = 2;
    OrderCosts blocks;
    Seconds message = 0;

    OrderCosts costs(const PipelineShape& shape) const
    {
        OrderCosts made;
        const auto n = static_cast<i64>(blocks.size());
        for (i64 stage = 0; stage < shape.stages(); ++stage) {
            StageCost sum{0, 0, 0, 0, message};
            for (i64 b = n * stage / shape.stages(); b < n * (stage + 1) / shape.stages(); ++b) {
                const StageCost& block = blocks[static_cast<std::size_t>(b)];
                sum.forward += block.forward;
                sum.input_gradient += block.input_gradient;
                sum.weight_gradient += block.weight_gradient;
                sum.activations += block.activations;
            }
            made.push_back(sum);
        }
        return made;
    }
};

Profile random_profile(std::mt19937_64& draw)
{
    std::uniform_real_distribution<double> some(0.5, 1.5), ratio(0.4, 1.6);
    Profile p;
    p.ranks = 2 + static_cast<i64>(draw() % 3) * (draw() % 2 ? 1 : 2);
    const double input = ratio(draw), weights = ratio(draw), spread = draw() % 3 ? 1 : 0.1;
    for (i64 b = 0; b < 6 * p.ranks; ++b) {
        const double size = 1 + spread * (some(draw) - 1);
        p.blocks.push_back({size, size * input, size * weights, size, 0});
    }
    p.message = draw() % 3 ? some(draw) * (draw() % 2 ? 0.1 : 2) : 0;
    return p;
}

double peak_of(const PipelineOrder& order, const OrderCosts& costs)
{
    const Playback played = *play(order, costs);
    return *std::max_element(played.peak.begin(), played.peak.end());
}

/// What has been done at a time, by stage: forward passes, input and weight gradients that have ended.
/// Microbatches are alike, so each stage takes them in turn.
using Done = std::vector<char>;

/// The least time until all is done, from a state: the work of each rank, from the time on at which it can
/// have something to do, and the way of a microbatch through the stages.
i64 least_left(const PipelineShape& shape, const Done& done)
{
    const i64 stages = shape.stages(), m = shape.microbatches;
    const auto at = [&](i64 stage, std::size_t what) -> i64 {
        return done[3 * static_cast<std::size_t>(stage) + what];
    };
    /// Until the next input gradient of a stage can begin.
    const auto until_gradient = [&](i64 stage) {
        const i64 microbatch = at(stage, 1);
        i64 way = 0;
        for (i64 s = 0; s < stages; ++s)
            way += (at(s, 0) <= microbatch) + (s > stage && at(s, 1) <= microbatch);
        return way;
    };
    i64 least = 0;
    for (i64 rank = 0; rank < shape.ranks; ++rank) {
        i64 work = 0, gradients = 0, begin = 4 * stages * m;
        for (i64 s = 0; s < stages; ++s) {
            if (shape.rank_of(s) != rank)
                continue;
            work += m - at(s, 0);
            gradients += 2 * m - at(s, 1) - at(s, 2);
            if (at(s, 2) < at(s, 1))
                begin = 0;
            else if (at(s, 1) < m)
                begin = std::min(begin, until_gradient(s));
        }
        least = std::max({least, work + gradients, gradients > 0 ? begin + gradients : 0});
    }
    for (i64 s = 0; s < stages; ++s)
        if (at(s, 1) < m) // after the last one, those of the stages before it, and a weight gradient
            least = std::max(least, until_gradient(s) + m - at(s, 1) + s + 1);
    return least;
}

/// The shortest step of any order at unit times, if each rank keeps at most `most` activations, or `known` if
/// there is none below: by breadth-first search over what has been done at each time, without the states
/// that are too far behind for that.
i64 shortest(const PipelineShape& shape, i64 most, i64 known)
{
    const auto stages = static_cast<std::size_t>(shape.stages());
    const auto m = static_cast<char>(shape.microbatches);
    std::set<Done> now{Done(3 * stages, 0)};
    for (i64 time = 1; time < known; ++time) {
        std::set<Done> next;
        for (const Done& state : now) {
            const auto kept = [&](i64 rank, const Done& at) {
                i64 sum = 0;
                for (std::size_t s = 0; s < stages; ++s)
                    sum += shape.rank_of(static_cast<i64>(s)) == rank ? at[3 * s] - at[3 * s + 2] : 0;
                return sum;
            };
            std::vector<Done> choices{state};
            for (i64 rank = 0; rank < shape.ranks; ++rank) {
                std::vector<Done> more;
                for (const Done& choice : choices) {
                    bool works = false;
                    for (std::size_t s = 0; s < stages; ++s) {
                        if (shape.rank_of(static_cast<i64>(s)) != rank)
                            continue;
                        const char f = state[3 * s], i = state[3 * s + 1], w = state[3 * s + 2];
                        const auto take = [&](std::size_t what, bool can) {
                            if (!can)
                                return;
                            works = true;
                            more.push_back(choice);
                            ++more.back()[3 * s + what];
                        };
                        take(0, f < m && (s == 0 || state[3 * (s - 1)] > f) && kept(rank, state) < most);
                        take(1, i < f && (s + 1 == stages || state[3 * (s + 1) + 1] > i));
                        take(2, w < i);
                    }
                    if (!works || most < 100) // idling may help where memory is short
                        more.push_back(choice);
                }
                choices = std::move(more);
            }
            for (Done& choice : choices)
                if (const i64 left = least_left(shape, choice); left == 0)
                    return time;
                else if (time + left < known)
                    next.insert(std::move(choice));
        }
        now = std::move(next);
    }
    return known;
}

} // namespace

TEST_CASE("over random profiles the search is never slower than the best named schedule that fits")
{
    std::mt19937_64 draw(2405);
    double gain = 0, most_gain = 0;
    int better = 0;
    const int rounds = contracts_on ? 10 : 100; // sanitizers take their time
    for (int round = 0; round < rounds; ++round) {
        const Profile profile = random_profile(draw);
        OrderSearch search;
        search.ranks = profile.ranks;
        search.microbatches = 1 + static_cast<i64>(draw() % static_cast<u64>(3 * profile.ranks));
        search.named = schedules_of(search.ranks, static_cast<i64>(profile.blocks.size()));
        search.costs = [&](const PipelineShape& shape) { return profile.costs(shape); };
        const PipelineOrder usual =
            named_order(ScheduleKind::one_f_one_b, search.ranks, 1, search.microbatches);
        search.most = peak_of(usual, profile.costs(usual.shape)) * (1 + 2 * double(draw() % 5) / 4);
        search.trials = 2000;
        INFO("round " << round << ", " << search.ranks << " ranks, " << search.microbatches
                      << " microbatches");
        const std::vector<FoundOrder> orders = candidate_orders(search);
        REQUIRE(orders.size() > 1);
        const FoundOrder &found = orders[0], &named = orders[1]; // the best named schedule
        const OrderCosts costs = profile.costs(found.order.shape);
        REQUIRE(!find_fault(found.order));
        REQUIRE(found.length == Approx(play(found.order, costs)->length()));
        REQUIRE(found.length <= named.length * (1 + 1e-12));
        REQUIRE(peak_of(found.order, costs) <= search.most * (1 + 1e-9));
        gain += named.length / found.length - 1;
        most_gain = std::max(most_gain, named.length / found.length - 1);
        better += found.length < named.length * (1 - 1e-9);
    }
    std::printf("the search is shorter in %d of %d profiles, by %.1f %% on average, at most %.1f %%\n",
                better, rounds, 100 * gain / rounds, 100 * most_gain);
    CHECK(better > rounds / 2);
}

TEST_CASE("small pipelines: named schedules and the search against the best of all orders")
{
    double named_gap = 0, found_gap = 0;
    std::string worst;
    for (const auto& [p, most_m] : {std::pair<i64, i64>{2, 4}, {3, 4}})
        for (i64 m = 1; m <= most_m; ++m)
            for (const auto& [kind, chunks] : schedules_of(p, 2 * p)) {
                const PipelineOrder order = named_order(kind, p, chunks, m);
                const OrderCosts costs = unit_costs(order.shape);
                OrderSearch search;
                search.ranks = p;
                search.microbatches = m;
                search.named = {{kind, chunks}};
                search.costs = unit_costs;
                search.most = peak_of(order, costs);
                search.trials = 3000;
                const double length = play(order, costs)->length(),
                             found = candidate_orders(search)[0].length;
                const auto best =
                    double(shortest(order.shape, static_cast<i64>(search.most), std::llround(found)));
                INFO(name_of(kind) << " x " << chunks << ", " << p << " ranks, " << m << " microbatches: "
                                   << length << ", found " << found << ", best " << best);
                REQUIRE(found == std::round(found));
                if (order.shape.stages() * m <= 8) // all orders, not only those that may be shorter
                    REQUIRE(best == double(shortest(order.shape, static_cast<i64>(search.most), 1000)));
                REQUIRE(length >= best);
                if (length / best - 1 > named_gap)
                    worst = name_of(kind);
                named_gap = std::max(named_gap, length / best - 1);
                found_gap = std::max(found_gap, found / best - 1);
            }
    std::printf("longer than the best order: named schedules up to %.0f %% (%s), the search up to %.0f %%\n",
                100 * named_gap, worst.c_str(), 100 * found_gap);
    CHECK(named_gap <= 0.5);
    CHECK(found_gap <= 0.05);
}
