#include "schedule/search_order.hpp"

#include "base/rng.hpp"
#include "schedule/named_order.hpp"
#include "schedule/order_check.hpp"

#include <algorithm>
#include <set>

namespace trivium {

namespace {

bool fits(const Playback& played, double most)
{
    return most <= 0 ||
           std::ranges::all_of(played.peak, [&](double peak) { return peak <= most * (1 + 1e-12); });
}

class Search {
public:
    explicit Search(const OrderSearch& config) : config_(config) {}

    void look_at_named()
    {
        for (const auto& [kind, chunks] : config_.named)
            look_at(named_order(kind, config_.ranks, chunks, config_.microbatches), kind);
    }

    void look_at_variants()
    {
        std::set<std::pair<i64, bool>> listed;
        for (const auto& [kind, chunks] : config_.named) {
            const PipelineOrder order = named_order(kind, config_.ranks, chunks, config_.microbatches);
            const OrderCosts costs = config_.costs(order.shape);
            std::vector<RankOrder> base = order.ranks;
            for (RankOrder& rank : base) {
                std::erase_if(rank, [](const Task& t) { return t.work == Work::weight_gradient; });
                for (Task& task : rank)
                    if (task.work == Work::backward)
                        task.work = Work::input_gradient;
            }
            if (auto filled = fill_gaps(order.shape, base, costs, limit()))
                look_at({order.shape, std::move(*filled)}, kind);
            if (listed.insert({chunks, order.shape.v_shaped}).second)
                for (const bool backward_first : {true, false})
                    for (const bool deep_first : {true, false})
                        if (auto made = list(order.shape, costs, backward_first, deep_first))
                            look_at({order.shape, std::move(*made)}, kind);
        }
    }

    /// The best orders so far, best first.
    std::vector<FoundOrder> shortest(std::size_t count)
    {
        std::ranges::stable_sort(found_, {}, &FoundOrder::length);
        return {found_.begin(), found_.begin() + static_cast<std::ptrdiff_t>(std::min(count, found_.size()))};
    }

    /// Moves tasks of the best orders as long as that helps.
    void improve()
    {
        found_ = shortest(3);
        for (std::size_t i = 0; i < found_.size(); ++i)
            climb(found_[i], config_.trials / static_cast<int>(found_.size()));
    }

private:
    double limit() const { return config_.most > 0 ? config_.most : 1e300; }

    void look_at(PipelineOrder order, ScheduleKind kind)
    {
        const std::optional<Playback> played = play(order, config_.costs(order.shape));
        if (played && fits(*played, config_.most))
            found_.push_back({std::move(order), played->length(), kind});
    }

    /// Each rank runs what is ready: backward passes or forward passes first, and among these those of the
    /// deepest or of the shallowest stage; weight gradients meanwhile. Nothing if memory does not suffice.
    std::optional<std::vector<RankOrder>> list(const PipelineShape& shape, const OrderCosts& costs,
                                               bool backward_first, bool deep_first) const
    {
        const auto better = [=](const Task& a, const Task& b) {
            const bool back = a.work != Work::forward;
            if (back != (b.work != Work::forward))
                return back == backward_first;
            if (a.stage != b.stage)
                return (a.stage > b.stage) == deep_first;
            return a.microbatch < b.microbatch;
        };
        return list_by_priority(shape, costs, limit(), better);
    }

    /// Random moves of one task along its rank, close to where it is.
    void climb(FoundOrder& found, int trials) const
    {
        const OrderCosts costs = config_.costs(found.order.shape);
        const RandomStream random(0, "order");
        std::uint64_t drawn = 0;
        const auto below = [&](std::size_t n) {
            return static_cast<std::size_t>(random.bits_at(drawn++) % static_cast<std::uint64_t>(n));
        };
        for (int trial = 0; trial < trials; ++trial) {
            RankOrder& rank = found.order.ranks[below(found.order.ranks.size())];
            const std::size_t from = below(rank.size()), reach = 1 + below(2 * found.order.ranks.size());
            const bool later = below(2) == 0;
            const std::size_t to =
                later ? std::min(from + reach, rank.size() - 1) : from - std::min(from, reach);
            if (to == from)
                continue;
            const RankOrder before = rank;
            const auto at = [&](std::size_t i) { return rank.begin() + static_cast<std::ptrdiff_t>(i); };
            if (rank[from].work == Work::backward && below(4) == 0) { // in halves, the second one later
                const Task whole = rank[from];
                rank[from].work = Work::input_gradient;
                rank.insert(at(std::max(from, to) + 1),
                            {Work::weight_gradient, whole.stage, whole.microbatch});
            } else if (later) {
                std::rotate(at(from), at(from) + 1, at(to) + 1);
            } else {
                std::rotate(at(to), at(from), at(from) + 1);
            }
            const std::optional<Playback> played = play(found.order, costs);
            if (played && played->length() <= found.length && fits(*played, config_.most) &&
                !find_fault(found.order))
                found.length = played->length();
            else
                rank = before;
        }
    }

    const OrderSearch& config_;
    std::vector<FoundOrder> found_;
};

} // namespace

std::vector<std::pair<ScheduleKind, i64>> schedules_of(i64 ranks, i64 blocks)
{
    std::vector<std::pair<ScheduleKind, i64>> all;
    for (std::size_t k = 0; k < names_of_enum<ScheduleKind>.size(); ++k) {
        const auto kind = static_cast<ScheduleKind>(k);
        const ChunkRange range = chunks_of(kind);
        for (i64 chunks = range.least; chunks <= std::min(range.most, most_searched_chunks); ++chunks)
            if (ranks * chunks <= blocks && !(kind == ScheduleKind::breadth_first && chunks == 1))
                all.emplace_back(kind, chunks);
    }
    return all;
}

std::vector<FoundOrder> candidate_orders(const OrderSearch& config)
{
    Search search(config);
    search.look_at_named();
    std::vector<FoundOrder> all = search.shortest(3);
    search.look_at_variants();
    search.improve();
    const std::vector<FoundOrder> found = search.shortest(1);
    all.insert(all.begin(), found.begin(), found.end());
    return all;
}

} // namespace trivium
