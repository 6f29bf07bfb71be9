#include "passes/collectives/fill_waits.hpp"

#include "ir/collectives.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace trivium {

namespace {

bool is_backward(const Op& op) { return op.region == Region::microbatch && op.phase == Phase::backward; }

/// By op: whether it is of a backward pass and nothing of the pass that communicates depends on it. What
/// reads gathered parameters or messages stays: its place decides when others of them travel
/// (schedule/place.hpp), which must be alike on all ranks, while durations differ.
std::vector<bool> movable(const Graph& g)
{
    const auto decides = [&](ValueId v) {
        const OpId from = g[v].producer;
        return from && (gathers_parameters(g, g[from]) || g[from].attrs->tag);
    };
    std::vector<bool> needed(g.values.size(), false), can(g.ops.size(), false);
    for (std::size_t i = g.ops.size(); i-- > 0;) {
        const Op& op = g.ops[i];
        if (!is_backward(op))
            continue;
        can[i] = !info(op).communicates && !info(op).contributes &&
                 std::ranges::none_of(op.operands, decides) &&
                 std::ranges::none_of(op.results, [&](ValueId v) { return needed[v.index()]; });
        if (!can[i])
            for (const ValueId v : op.operands)
                needed[v.index()] = true;
    }
    return can;
}

/// Chooses the order of the ops of a graph.
class WaitFiller {
public:
    WaitFiller(const Graph& g, const OverlapSeconds& seconds)
        : g_(g), can_(movable(g)), reduces_(gradient_reductions(g))
    {
        for (std::size_t i = 0; i < g.ops.size(); ++i)
            if (waits_for(i)) {
                time_ = seconds(g);
                return;
            }
    }

    /// Empty: nothing waits.
    std::vector<std::size_t> order()
    {
        if (time_.empty())
            return {};
        for (std::size_t i = 0; i < g_.ops.size(); ++i) {
            order_.push_back(i);
            if (!info(g_.ops[i]).communicates)
                continue;
            const std::size_t begin = std::exchange(since_, order_.size());
            if (waits_for(i))
                fill(i, begin);
        }
        return std::move(order_);
    }

private:
    /// Whether op i is a collective that the backward pass waits for. Exchanges have passes of their own
    /// (overlap_halos, rings).
    bool waits_for(std::size_t i) const
    {
        const Op& op = g_.ops[i];
        return is_backward(op) && info(op).communicates && !info(op).exchanges && !op.attrs->tag &&
               !reduces_[i] && !gathers_parameters(g_, op);
    }

    /// How long op i is waited for; sets reader_.
    Seconds wait_of(std::size_t i)
    {
        Seconds left = time_[i];
        for (reader_ = i + 1; reader_ < g_.ops.size() && !info(g_.ops[reader_]).communicates; ++reader_) {
            if (std::ranges::any_of(g_.ops[reader_].operands, [&](ValueId v) {
                    return std::ranges::find(g_.ops[i].results, v) != g_.ops[i].results.end();
                }))
                break;
            left -= time_[reader_];
        }
        return left;
    }

    /// Moves ops of order_ from `begin` on behind op i, which is its last.
    void fill(std::size_t i, std::size_t begin)
    {
        const std::size_t before_reader = reader_;
        Seconds left = wait_of(i);
        std::vector<std::size_t> moved, stay;
        std::set<ValueId> overwritten, read; // by ops that stay
        const auto stays = [&](const Op& op) {
            read.insert(op.operands.begin(), op.operands.end());
            for (std::size_t r = 0; r < op.results.size(); ++r)
                if (const ValueId into = aliased_operand(op, r))
                    overwritten.insert(into);
        };
        stays(g_.ops[i]);
        for (std::size_t at = order_.size() - 1; at-- > begin;) {
            const std::size_t candidate = order_[at];
            const Op& before = g_.ops[candidate];
            const bool moves =
                left > 0 && can_[candidate] && candidate >= before_reader &&
                stage_of(g_, before) == stage_of(g_, g_.ops[i]) &&
                std::ranges::none_of(before.operands, [&](ValueId v) { return overwritten.contains(v); }) &&
                std::ranges::none_of(before.results, [&](ValueId v) { return read.contains(v); });
            (moves ? moved : stay).push_back(candidate);
            if (moves) {
                left -= time_[candidate];
                continue;
            }
            if (can_[candidate]) // so do those before it
                break;
            stays(before);
        }
        order_.resize(order_.size() - 1 - moved.size() - stay.size());
        order_.insert(order_.end(), stay.rbegin(), stay.rend());
        order_.push_back(i);
        order_.insert(order_.end(), moved.rbegin(), moved.rend());
        since_ = order_.size();
    }

    const Graph& g_;
    std::vector<bool> can_, reduces_;
    std::vector<Seconds> time_;      ///< by op
    std::vector<std::size_t> order_; ///< of the ops
    std::size_t since_ = 0;          ///< in order_: behind the collective before
    std::size_t reader_ = 0;         ///< the first one of the result of that one: what is before hides it
};

} // namespace

Graph fill_waits(Graph g, const OverlapSeconds& seconds)
{
    const std::vector<std::size_t> order = WaitFiller(g, seconds).order();
    if (!order.empty())
        reorder(g, order);
    return g;
}

} // namespace trivium
