#include "schedule/order.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <map>

namespace trivium {

i64 PipelineShape::rank_of(i64 stage) const
{
    const i64 place = stage % ranks;
    return v_shaped && (stage / ranks) % 2 == 1 ? ranks - 1 - place : place;
}

i64 PipelineShape::stage_of(i64 rank, i64 chunk) const
{
    return chunk * ranks + (v_shaped && chunk % 2 == 1 ? ranks - 1 - rank : rank);
}

std::string to_text(const Task& task) { return str(task.stage, name_of(task.work), task.microbatch); }

bool PipelineOrder::is_split() const
{
    return std::ranges::any_of(ranks, [](const RankOrder& rank) {
        return std::ranges::any_of(rank, [](const Task& task) { return task.work == Work::weight_gradient; });
    });
}

std::vector<i64> head_tasks(const PipelineOrder& order)
{
    std::vector<i64> heads;
    std::map<std::pair<i64, i64>, i64> place; // of a forward task, by stage and microbatch
    for (const RankOrder& tasks : order.ranks) {
        const auto first =
            std::ranges::find_if(tasks, [](const Task& task) { return task.work != Work::forward; });
        heads.push_back(first - tasks.begin());
        for (std::size_t i = 0; i < tasks.size(); ++i)
            if (tasks[i].work == Work::forward)
                place[{tasks[i].stage, tasks[i].microbatch}] = static_cast<i64>(i);
    }
    const auto is_in_head = [&](i64 stage, i64 microbatch) {
        return place.at({stage, microbatch}) < heads[static_cast<std::size_t>(order.shape.rank_of(stage))];
    };
    for (bool changed = true; changed;) {
        changed = false;
        for (std::size_t r = 0; r < heads.size(); ++r)
            for (i64 i = 0; i < heads[r]; ++i)
                if (const Task& task = order.ranks[r][static_cast<std::size_t>(i)];
                    task.stage > 0 && !is_in_head(task.stage - 1, task.microbatch)) {
                    heads[r] = i;
                    changed = true;
                }
    }
    return heads;
}

std::vector<i64> ended_before(const PipelineOrder& order, i64 rank, i64 other)
{
    std::map<Task, i64> after; // by task, of which the first half of a backward pass counts as the whole
    std::vector<std::vector<i64>> before(order.ranks.size());
    const auto key = [](Task task) {
        task.work = task.work == Work::input_gradient ? Work::backward : task.work;
        return task;
    };
    for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t r = 0; r < order.ranks.size(); ++r)
            for (std::vector<i64>& counts = before[r]; counts.size() < order.ranks[r].size(); moved = true) {
                const Task task = key(order.ranks[r][counts.size()]);
                const i64 from = task.work == Work::forward    ? task.stage - 1
                                 : task.work == Work::backward ? task.stage + 1
                                                               : -1;
                i64 count = counts.empty() ? 0 : after.at(key(order.ranks[r][counts.size() - 1]));
                if (from >= 0 && from < order.shape.stages()) {
                    const auto known = after.find({task.work, from, task.microbatch});
                    if (known == after.end())
                        break;
                    count = std::max(count, known->second);
                }
                counts.push_back(count);
                after[task] = static_cast<i64>(r) == other ? static_cast<i64>(counts.size()) : count;
            }
    }
    return before[static_cast<std::size_t>(rank)];
}

i64 in_flight(const RankOrder& tasks)
{
    i64 live = 0, most = 0;
    for (const Task& task : tasks) {
        live += task.work == Work::forward ? 1 : 0;
        most = std::max(most, live);
        live -= task.work == Work::backward || task.work == Work::weight_gradient ? 1 : 0;
    }
    return most;
}

} // namespace trivium
