#include "schedule/play.hpp"

#include <algorithm>
#include <deque>
#include <set>

namespace trivium {

namespace {

/// When the results of tasks are where they are needed; unknown times are negative.
class Arrivals {
public:
    Arrivals(const PipelineShape& shape, const OrderCosts& costs)
        : shape_(shape), costs_(costs),
          forward_(static_cast<std::size_t>(shape.stages() * shape.microbatches), -1), backward_(forward_)
    {
    }

    /// When everything that the task reads has arrived.
    Seconds ready(const Task& task) const
    {
        const i64 s = task.stage, m = task.microbatch, last = shape_.stages() - 1;
        switch (task.work) {
        case Work::forward: return s == 0 ? 0 : arrival(forward_[at(s - 1, m)], s - 1);
        case Work::weight_gradient: return backward_[at(s, m)];
        case Work::backward:
        case Work::input_gradient: break;
        }
        const Seconds own = forward_[at(s, m)], next = s == last ? 0 : arrival(backward_[at(s + 1, m)], s);
        return std::min(own, next) < 0 ? -1 : std::max(own, next);
    }

    void has_run(const Task& task, Seconds end)
    {
        if (task.work == Work::forward)
            forward_[at(task.stage, task.microbatch)] = end;
        else if (task.work != Work::weight_gradient)
            backward_[at(task.stage, task.microbatch)] = end;
    }

private:
    std::size_t at(i64 stage, i64 microbatch) const
    {
        return static_cast<std::size_t>(stage * shape_.microbatches + microbatch);
    }
    /// Of a message over the boundary after `stage`.
    Seconds arrival(Seconds sent, i64 stage) const
    {
        const bool moves = shape_.rank_of(stage) != shape_.rank_of(stage + 1);
        return sent < 0 || !moves ? sent : sent + costs_[static_cast<std::size_t>(stage)].message;
    }

    const PipelineShape& shape_;
    const OrderCosts& costs_;
    std::vector<Seconds> forward_, backward_; ///< ends, by stage and microbatch
};

/// What a rank keeps.
class Kept {
public:
    Kept(const OrderCosts& costs, i64 microbatches)
        : costs_(costs), microbatches_(microbatches), backward_(costs.size(), 0)
    {
    }
    double with(const Task& forward) const { return now_ + of(forward); }
    double most() const { return most_; }
    void begins(const Task& task)
    {
        if (task.work == Work::forward)
            now_ += of(task);
        else if (makes_gradients(task) && backward_of(task) == 0)
            now_ += cost(task).gradients;
        most_ = std::max(most_, now_ + (task.work == Work::input_gradient ? std::max(0.0, added(task)) : 0));
    }
    void ends(const Task& task)
    {
        if (task.work == Work::backward)
            now_ -= of(task);
        else if (task.work == Work::input_gradient)
            now_ += added(task);
        else if (task.work == Work::weight_gradient)
            now_ -= cost(task).waiting;
        if (makes_gradients(task) && ++backward_of(task) == microbatches_)
            now_ -= cost(task).gradients;
    }

private:
    static bool makes_gradients(const Task& task)
    {
        return task.work == Work::backward || task.work == Work::weight_gradient;
    }
    i64& backward_of(const Task& task) { return backward_[static_cast<std::size_t>(task.stage)]; }
    const StageCost& cost(const Task& task) const { return costs_[static_cast<std::size_t>(task.stage)]; }
    double of(const Task& task) const { return cost(task).activations; }
    double added(const Task& input_gradient) const
    {
        return cost(input_gradient).waiting - of(input_gradient);
    }

    const OrderCosts& costs_;
    i64 microbatches_;
    std::vector<i64> backward_; ///< by stage: backward passes that have ended
    double now_ = 0, most_ = 0;
};

} // namespace

OrderCosts unit_costs(const PipelineShape& shape)
{
    return OrderCosts(static_cast<std::size_t>(shape.stages()));
}

Seconds seconds_of(const Task& task, const OrderCosts& costs)
{
    const StageCost& cost = costs[static_cast<std::size_t>(task.stage)];
    switch (task.work) {
    case Work::forward: return cost.forward;
    case Work::input_gradient: return cost.input_gradient;
    case Work::weight_gradient: return cost.weight_gradient;
    case Work::backward: break;
    }
    return cost.input_gradient + cost.weight_gradient;
}

Seconds Playback::length() const
{
    Seconds begin = 0, end = 0;
    for (const auto& rank : spans)
        if (!rank.empty()) {
            begin = std::min(begin, rank.front().begin);
            end = std::max(end, rank.back().end);
        }
    return end - begin;
}

std::optional<Playback> play(const PipelineOrder& order, const OrderCosts& costs)
{
    Arrivals arrivals(order.shape, costs);
    Playback made;
    std::size_t open = 0;
    for (const RankOrder& rank : order.ranks) {
        made.spans.emplace_back().reserve(rank.size());
        open += rank.size();
    }
    std::vector<Kept> kept(order.ranks.size(), Kept(costs, order.shape.microbatches));
    for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t r = 0; r < order.ranks.size(); ++r)
            for (std::vector<Span>& spans = made.spans[r]; spans.size() < order.ranks[r].size(); --open) {
                const Task& task = order.ranks[r][spans.size()];
                const Seconds ready = arrivals.ready(task);
                if (ready < 0)
                    break;
                const Seconds begin = std::max(ready, spans.empty() ? 0 : spans.back().end);
                spans.push_back({begin, begin + seconds_of(task, costs)});
                arrivals.has_run(task, spans.back().end);
                kept[r].begins(task);
                kept[r].ends(task);
                moved = true;
            }
    }
    if (open > 0)
        return {};
    for (const Kept& each : kept)
        made.peak.push_back(each.most());
    return made;
}

namespace {

/// Whether a forward pass may run.
using Fits = std::function<bool(const Task&)>;

/// Runs ranks on a clock. Nothing if they wait forever. `choice.next(r, time, arrivals, fits)` is the task
/// that rank `r` shall run at `time`, other than weight gradients, if it can run one.
template <class Choice>
std::optional<std::vector<RankOrder>> run_list(const PipelineShape& shape, const OrderCosts& costs,
                                               double most, Choice choice)
{
    struct Rank {
        RankOrder made{};
        std::deque<Task> due{};    ///< weight gradients
        Seconds free = 0;          ///< when it can begin another task
        std::optional<Task> now{}; ///< keeps what it keeps until `free`
    };
    Arrivals arrivals(shape, costs);
    std::vector<Rank> ranks(static_cast<std::size_t>(shape.ranks));
    std::vector<Kept> kept(ranks.size(), Kept(costs, shape.microbatches));
    std::set<Seconds> times{0};
    const auto run = [&](std::size_t r, const Task& task, Seconds begin) {
        Rank& rank = ranks[r];
        rank.free = begin + seconds_of(task, costs);
        rank.made.push_back(task);
        rank.now = task;
        kept[r].begins(task);
        arrivals.has_run(task, rank.free);
        if (task.work == Work::input_gradient)
            rank.due.push_back({Work::weight_gradient, task.stage, task.microbatch});
        times.insert(rank.free);
        for (const i64 stage : {task.stage, task.stage - 1}) // when its messages arrive
            if (stage >= 0)
                times.insert(rank.free + costs[static_cast<std::size_t>(stage)].message);
    };
    for (bool moved = false; !times.empty(); moved = false) {
        const Seconds time = *times.begin();
        for (std::size_t r = 0; r < ranks.size(); ++r) {
            Rank& rank = ranks[r];
            if (rank.free > time)
                continue;
            if (rank.now)
                kept[r].ends(*rank.now);
            rank.now.reset();
            const std::optional<Task> next = choice.next(
                r, time, arrivals, [&](const Task& forward) { return kept[r].with(forward) <= most; });
            if (next) {
                choice.has_begun(r, *next);
                run(r, *next, time);
                moved = true;
            } else if (!rank.due.empty()) {
                const Task task = rank.due.front();
                rank.due.pop_front();
                run(r, task, time);
                moved = true;
            }
        }
        if (!moved) // tasks may take no time
            times.erase(times.begin());
    }
    if (!choice.is_done())
        return {};
    std::vector<RankOrder> made;
    for (Rank& rank : ranks)
        made.push_back(std::move(rank.made));
    return made;
}

/// Tasks in given orders.
class GivenOrder {
public:
    explicit GivenOrder(const std::vector<RankOrder>& base) : base_(base), next_(base.size(), 0) {}
    std::optional<Task> next(std::size_t r, Seconds time, const Arrivals& arrivals, const Fits& fits) const
    {
        if (next_[r] == base_[r].size())
            return {};
        const Task& task = base_[r][next_[r]];
        const Seconds ready = arrivals.ready(task);
        if (ready < 0 || ready > time || (task.work == Work::forward && !fits(task)))
            return {};
        return task;
    }
    void has_begun(std::size_t r, const Task&) { ++next_[r]; }
    bool is_done() const
    {
        for (std::size_t r = 0; r < base_.size(); ++r)
            if (next_[r] < base_[r].size())
                return false;
        return true;
    }

private:
    const std::vector<RankOrder>& base_;
    std::vector<std::size_t> next_;
};

/// Microbatches in turn; of the stages and passes of a rank, the best that can run.
class ByPriority {
public:
    ByPriority(const PipelineShape& shape, const std::function<bool(const Task&, const Task&)>& better)
        : shape_(shape), better_(better)
    {
        for (i64 stage = 0; stage < shape.stages(); ++stage)
            for (const Work work : {Work::forward, Work::input_gradient})
                next_.push_back({work, stage, 0});
    }
    std::optional<Task> next(std::size_t r, Seconds time, const Arrivals& arrivals, const Fits& fits) const
    {
        std::optional<Task> best;
        for (const Task& task : next_) {
            if (shape_.rank_of(task.stage) != static_cast<i64>(r) || task.microbatch == shape_.microbatches)
                continue;
            const Seconds ready = arrivals.ready(task);
            if (ready >= 0 && ready <= time && (task.work != Work::forward || fits(task)) &&
                (!best || better_(task, *best)))
                best = task;
        }
        return best;
    }
    void has_begun(std::size_t, const Task& task) { ++std::ranges::find(next_, task)->microbatch; }
    bool is_done() const
    {
        return std::ranges::all_of(next_,
                                   [&](const Task& task) { return task.microbatch == shape_.microbatches; });
    }

private:
    const PipelineShape& shape_;
    const std::function<bool(const Task&, const Task&)>& better_;
    std::vector<Task> next_; ///< of each stage and pass
};

} // namespace

std::optional<std::vector<RankOrder>> fill_gaps(const PipelineShape& shape,
                                                const std::vector<RankOrder>& base, const OrderCosts& costs,
                                                double most)
{
    return run_list(shape, costs, most, GivenOrder(base));
}

std::optional<std::vector<RankOrder>>
list_by_priority(const PipelineShape& shape, const OrderCosts& costs, double most,
                 const std::function<bool(const Task&, const Task&)>& better)
{
    return run_list(shape, costs, most, ByPriority(shape, better));
}

} // namespace trivium
