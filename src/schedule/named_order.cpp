#include "schedule/named_order.hpp"

#include "base/check.hpp"
#include "schedule/play.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <map>

namespace trivium {

namespace {

/// Counts microbatches while the tasks of a rank are listed; those beyond the last are left out.
class Lister {
public:
    Lister(const PipelineShape& shape, i64 rank) : shape_(shape), rank_(rank) {}

    /// The next microbatch of this work in this chunk. The halves of a backward pass share their numbers.
    void add(Work work, i64 chunk)
    {
        const i64 microbatch = next_[{work == Work::backward ? Work::input_gradient : work, chunk}]++;
        if (work == Work::backward)
            ++next_[{Work::weight_gradient, chunk}];
        if (work == Work::input_gradient)
            open_.push_back(chunk);
        if (microbatch < shape_.microbatches)
            made_.push_back({work, shape_.stage_of(rank_, chunk), microbatch});
    }
    /// The weight gradients whose other half is longest done.
    void add_open()
    {
        add(Work::weight_gradient, open_.front());
        open_.pop_front();
    }
    bool has_open() const { return !open_.empty(); }
    i64 count(Work work, i64 chunk) { return next_[{work, chunk}]; }
    RankOrder take() { return std::move(made_); }

private:
    const PipelineShape& shape_;
    i64 rank_;
    std::map<std::pair<Work, i64>, i64> next_;
    std::deque<i64> open_; ///< by chunk, backward passes whose second half is missing
    RankOrder made_;
};

/// `turns`: chunk and microbatch in the order of the forward passes; backward passes visit the chunks in
/// reverse. Rank r runs ahead(r) forward passes before its first backward pass.
template <class Ahead>
std::vector<RankOrder> alternate(const PipelineShape& shape, const std::vector<std::pair<i64, i64>>& turns,
                                 Work backward, Ahead&& ahead)
{
    std::vector<RankOrder> all;
    for (i64 rank = 0; rank < shape.ranks; ++rank) {
        const std::size_t first = std::min(turns.size(), static_cast<std::size_t>(ahead(rank)));
        RankOrder tasks;
        for (std::size_t i = 0; i < turns.size() + first; ++i) {
            if (i >= first)
                tasks.push_back({backward, shape.stage_of(rank, shape.chunks - 1 - turns[i - first].first),
                                 turns[i - first].second});
            if (i < turns.size())
                tasks.push_back({Work::forward, shape.stage_of(rank, turns[i].first), turns[i].second});
        }
        all.push_back(std::move(tasks));
    }
    return all;
}

/// Chunks take turns, each for a group of microbatches; `groups` of them, almost equal.
std::vector<std::pair<i64, i64>> turns_of(const PipelineShape& shape, i64 groups)
{
    std::vector<std::pair<i64, i64>> turns;
    for (i64 group = 0; group < groups; ++group)
        for (i64 chunk = 0; chunk < shape.chunks; ++chunk)
            for (i64 m = ceil_div(group * shape.microbatches, groups);
                 m < ceil_div((group + 1) * shape.microbatches, groups); ++m)
                turns.emplace_back(chunk, m);
    return turns;
}

/// The phases of ZB-V (arXiv:2401.10241, section 6) without the weight gradients.
RankOrder zero_bubble_v(const PipelineShape& shape, i64 rank)
{
    const i64 p = shape.ranks, microbatches = std::max(2 * p - 1, shape.microbatches);
    Lister list(shape, rank);
    for (i64 i = 0; i < 2 * (p - rank) - 1; ++i)
        list.add(Work::forward, 0);
    for (i64 i = 0; i < rank; ++i) {
        list.add(Work::forward, 1);
        list.add(Work::forward, 0);
    }
    for (i64 i = 0; i < p - rank; ++i) {
        list.add(Work::forward, 1);
        list.add(Work::input_gradient, 1);
    }
    while (list.count(Work::forward, 1) < microbatches) {
        if (list.count(Work::forward, 0) < microbatches)
            list.add(Work::forward, 0);
        list.add(Work::input_gradient, 0);
        list.add(Work::forward, 1);
        list.add(Work::input_gradient, 1);
    }
    while (list.count(Work::input_gradient, 0) < microbatches) {
        list.add(Work::input_gradient, 0);
        if (list.count(Work::input_gradient, 1) < microbatches)
            list.add(Work::input_gradient, 1);
    }
    return list.take();
}

/// Tasks of two chunks in a V, one building block per microbatch, by the time at which they would run if
/// every task took 1 and a block followed every 6 (arXiv:2405.15362, section 3). `step`: from a rank to the
/// next in the first forward pass and in the second; backward passes use the same. `pause`: before the
/// backward pass.
std::vector<RankOrder> building_blocks(const PipelineShape& shape, std::array<i64, 2> step, i64 pause)
{
    const i64 last = shape.ranks - 1;
    std::vector<RankOrder> all;
    for (i64 rank = 0; rank <= last; ++rank) {
        const i64 turn = step[0] * last + 1, top = turn + step[1] * last + 1 + pause,
                  back = top + step[0] * last + 1;
        const std::array<i64, 4> begin{step[0] * rank, turn + step[1] * (last - rank), top + step[0] * rank,
                                       back + step[1] * (last - rank)};
        const std::array<Task, 4> tasks{Task{Work::forward, shape.stage_of(rank, 0), 0},
                                        {Work::forward, shape.stage_of(rank, 1), 0},
                                        {Work::input_gradient, shape.stage_of(rank, 1), 0},
                                        {Work::input_gradient, shape.stage_of(rank, 0), 0}};
        std::vector<std::pair<std::pair<i64, std::size_t>, Task>> timed;
        for (i64 m = 0; m < shape.microbatches; ++m)
            for (std::size_t i = 0; i < tasks.size(); ++i)
                timed.push_back({{begin[i] + 6 * m, i}, {tasks[i].work, tasks[i].stage, m}});
        std::sort(timed.begin(), timed.end());
        RankOrder& order = all.emplace_back();
        for (const auto& [at, task] : timed)
            order.push_back(task);
    }
    return all;
}

/// The eight phases of DualPipeV.
RankOrder dual_pipe_v(const PipelineShape& shape, i64 rank)
{
    const i64 p = shape.ranks, after = p - rank - 1, microbatches = std::max(2 * p, shape.microbatches);
    Lister list(shape, rank);
    for (i64 i = 0; i < 2 * after; ++i)
        list.add(Work::forward, 0);
    for (i64 i = 0; i <= rank; ++i) {
        list.add(Work::forward, 0);
        list.add(Work::forward, 1);
    }
    for (i64 i = 0; i < after; ++i) {
        list.add(Work::input_gradient, 1);
        list.add_open();
        list.add(Work::forward, 1);
    }
    for (i64 i = 0; i < microbatches - 2 * p + rank + 1; ++i) {
        list.add(Work::forward, 0);
        list.add(Work::backward, 1);
        list.add(Work::forward, 1);
        list.add(Work::backward, 0);
    }
    for (i64 i = 0; i < after; ++i) {
        list.add(Work::backward, 1);
        list.add(Work::forward, 1);
        list.add(Work::backward, 0);
    }
    const i64 drain = 2 * (rank + 1), whole = (rank + 1) / 2 * 2 + (rank % 2 == 0 ? 1 : 0);
    for (i64 i = 0; i < drain; ++i)
        list.add(i < whole ? Work::backward : Work::input_gradient, 1 - i % 2);
    for (i64 i = 0; i < after; ++i) {
        list.add_open();
        list.add(Work::input_gradient, 0);
    }
    while (list.has_open())
        list.add_open();
    return list.take();
}

} // namespace

PipelineOrder named_order(ScheduleKind kind, i64 ranks, i64 chunks, i64 microbatches)
{
    const PipelineShape shape{ranks, chunks, is_v_shaped(kind), microbatches};
    const auto each = [&](auto&& order_of) {
        std::vector<RankOrder> all;
        for (i64 rank = 0; rank < ranks; ++rank)
            all.push_back(order_of(shape, rank));
        return all;
    };
    const auto filled = [&](const std::vector<RankOrder>& base, i64 most) {
        auto made = fill_gaps(shape, base, unit_costs(shape), static_cast<double>(most));
        TRV_CHECK(made, "the tasks of a schedule wait for each other forever");
        return PipelineOrder{shape, std::move(*made)};
    };
    const i64 groups = std::max<i64>(1, microbatches / ranks), group = ceil_div(microbatches, groups);
    const auto simple = turns_of(shape, 1);
    switch (kind) {
    case ScheduleKind::gpipe:
    case ScheduleKind::breadth_first:
        return {shape, alternate(shape, simple, Work::backward, [&](i64) { return chunks * microbatches; })};
    case ScheduleKind::one_f_one_b:
        return {shape, alternate(shape, simple, Work::backward, [&](i64 r) { return ranks - r; })};
    case ScheduleKind::interleaved:
        return {shape, alternate(shape, turns_of(shape, groups), Work::backward,
                                 [&](i64 r) { return 2 * (ranks - r - 1) + (chunks - 1) * group + 1; })};
    case ScheduleKind::zb_h1:
        return filled(alternate(shape, simple, Work::input_gradient, [&](i64 r) { return ranks - r; }),
                      ranks);
    case ScheduleKind::zb_h2:
        return filled(
            alternate(shape, simple, Work::input_gradient, [&](i64 r) { return 2 * (ranks - r) - 1; }),
            2 * ranks - 1);
    case ScheduleKind::zb_v: return filled(each(zero_bubble_v), 2 * ranks);
    case ScheduleKind::v_half: return filled(building_blocks(shape, {1, 2}, 0), ranks + 2 + ranks % 2);
    case ScheduleKind::v_min:
        return filled(building_blocks(shape, {1, 1}, ranks % 3 == 0 ? 2 : 0),
                      ceil_div(2 * ranks, i64{3}) + 2);
    case ScheduleKind::dualpipe_v: break;
    }
    return {shape, each(dual_pipe_v)};
}

} // namespace trivium
