#include "schedule/order_check.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"

#include <algorithm>
#include <map>

namespace trivium {

namespace {

/// A place in the order of a rank.
struct Place {
    std::size_t rank = 0, index = 0;
    auto operator<=>(const Place&) const = default;
};

class OrderCheck {
public:
    explicit OrderCheck(const PipelineOrder& order) : order_(order), shape_(order.shape) {}

    std::optional<OrderFault> run()
    {
        std::optional<OrderFault> fault = find_places();
        if (!fault)
            fault = check_complete();
        if (!fault)
            fault = check_messages();
        return fault ? fault : check_waits();
    }

private:
    static constexpr Work half = Work::input_gradient;

    /// The whole backward pass counts as its first half.
    static Task key(Task task)
    {
        if (task.work == Work::backward)
            task.work = half;
        return task;
    }
    const Task& at(const Place& place) const { return order_.ranks[place.rank][place.index]; }
    const Place& place_of(Work work, i64 stage, i64 microbatch) const
    {
        return places_.at({work, stage, microbatch});
    }

    std::optional<OrderFault> find_places()
    {
        for (std::size_t r = 0; r < order_.ranks.size(); ++r)
            for (std::size_t i = 0; i < order_.ranks[r].size(); ++i) {
                const Task& task = order_.ranks[r][i];
                const auto rank = static_cast<i64>(r);
                if (task.stage < 0 || task.stage >= shape_.stages() || shape_.rank_of(task.stage) != rank)
                    return OrderFault{rank, str(to_text(task), " is not of a stage of rank ", rank),
                                      str("stage ", task.stage,
                                          task.stage < shape_.stages() && task.stage >= 0
                                              ? str(" is on rank ", shape_.rank_of(task.stage))
                                              : str(" does not exist, there are ", shape_.stages())),
                                      "move it to the row of its rank"};
                if (task.microbatch < 0 || task.microbatch >= shape_.microbatches)
                    return OrderFault{rank, str(to_text(task), " is of microbatch ", task.microbatch),
                                      str("a step has ", shape_.microbatches),
                                      str("number them from 0 to ", shape_.microbatches - 1)};
                const auto [known, added] = places_.try_emplace(key(task), Place{r, i});
                if (!added)
                    return OrderFault{rank, str(to_text(task), " comes twice"),
                                      task.work == at(known->second).work
                                          ? "each pass of a microbatch runs once per step"
                                          : str(to_text(at(known->second)), " does the same"),
                                      "remove one of them"};
            }
        return {};
    }

    std::optional<OrderFault> check_complete() const
    {
        for (i64 rank = 0; rank < shape_.ranks; ++rank)
            for (i64 chunk = 0; chunk < shape_.chunks; ++chunk)
                for (i64 m = 0; m < shape_.microbatches; ++m)
                    if (auto fault = check_passes(rank, shape_.stage_of(rank, chunk), m))
                        return fault;
        return {};
    }

    std::optional<OrderFault> check_passes(i64 rank, i64 stage, i64 m) const
    {
        const auto find = [&](Work work) -> const Place* {
            const auto known = places_.find({work, stage, m});
            return known == places_.end() ? nullptr : &known->second;
        };
        const Place *const forward = find(Work::forward), *const back = find(half),
                           *const weights = find(Work::weight_gradient);
        const bool whole = back && at(*back).work == Work::backward;
        const auto missing = [&](Work work) {
            return OrderFault{rank, str(to_text({work, stage, m}), " is missing"),
                              str("each stage runs ",
                                  counted(shape_.microbatches, "microbatch", "microbatches"), " in a step"),
                              "add it to the row"};
        };
        if (!forward)
            return missing(Work::forward);
        if (!back)
            return missing(weights ? half : Work::backward);
        if (!whole && !weights)
            return missing(Work::weight_gradient);
        if (whole && weights)
            return OrderFault{rank, str(to_text(at(*weights)), " comes after ", to_text(at(*back))),
                              str(to_text(at(*back)), " is the whole backward pass"), "remove one of them"};
        if (back->index < forward->index || (weights && weights->index < back->index)) {
            const bool late = back->index < forward->index;
            return OrderFault{rank,
                              str(to_text(at(late ? *back : *weights)), " comes before ",
                                  to_text(at(late ? *forward : *back))),
                              "it reads what that computes", "swap them"};
        }
        return {};
    }

    /// Messages over the boundary after `stage`, in one direction: the microbatches as both sides order them.
    std::optional<OrderFault> check_messages() const
    {
        for (i64 stage = 0; stage + 1 < shape_.stages(); ++stage)
            for (const Work work : {Work::forward, half}) {
                const i64 from = work == Work::forward ? stage : stage + 1,
                          to = work == Work::forward ? stage + 1 : stage;
                if (shape_.rank_of(from) == shape_.rank_of(to))
                    continue;
                const std::vector<Place> sent = sequence(work, from), received = sequence(work, to);
                for (std::size_t i = 0; i < sent.size(); ++i)
                    if (at(sent[i]).microbatch != at(received[i]).microbatch)
                        return OrderFault{
                            shape_.rank_of(to),
                            str(to_text(at(received[i])), " on rank ", shape_.rank_of(to),
                                " waits for a message behind that of ", to_text(at(sent[i])), " on rank ",
                                shape_.rank_of(from)),
                            "messages arrive in the order in which they are sent",
                            str("order the microbatches of stages ", from, " and ", to, " alike")};
            }
        return {};
    }

    std::vector<Place> sequence(Work work, i64 stage) const
    {
        std::vector<Place> all;
        for (i64 m = 0; m < shape_.microbatches; ++m)
            all.push_back(place_of(work, stage, m));
        std::sort(all.begin(), all.end());
        return all;
    }

    /// What a task waits for on other ranks, or earlier on its own.
    std::vector<Place> waits_of(const Place& place) const
    {
        const Task task = key(at(place));
        std::vector<Place> waits;
        if (task.work == Work::forward && task.stage > 0)
            waits.push_back(place_of(Work::forward, task.stage - 1, task.microbatch));
        if (task.work == half && task.stage + 1 < shape_.stages())
            waits.push_back(place_of(half, task.stage + 1, task.microbatch));
        // Its results take the buffers of an earlier microbatch, whose messages the neighbours must have
        // begun to receive.
        const i64 reader = task.work == Work::forward ? task.stage + 1 : task.stage - 1;
        if (task.work != Work::weight_gradient && reader >= 0 && reader < shape_.stages())
            if (const auto before = previous_.find({task.stage, task.microbatch}); before != previous_.end())
                if (const Place& there = place_of(task.work, reader, before->second); there.index > 0)
                    waits.push_back({there.rank, there.index - 1});
        return waits;
    }

    /// By stage and microbatch: the microbatch that used its buffers before.
    void find_reuse()
    {
        for (i64 stage = 0; stage < shape_.stages(); ++stage) {
            const RankOrder& tasks = order_.ranks[static_cast<std::size_t>(shape_.rank_of(stage))];
            std::vector<i64> free; // the last microbatches of free buffers
            for (const Task& task : tasks) {
                if (task.stage != stage)
                    continue;
                if (task.work == Work::forward && !free.empty()) {
                    previous_[{stage, task.microbatch}] = free.back();
                    free.pop_back();
                }
                if (task.work == Work::backward || task.work == Work::weight_gradient)
                    free.push_back(task.microbatch);
            }
        }
    }

    std::optional<OrderFault> check_waits()
    {
        find_reuse();
        std::vector<std::size_t> next(order_.ranks.size(), 0);
        const auto open = [&](const Place& place) { return next[place.rank] <= place.index; };
        for (bool moved = true; moved;) {
            moved = false;
            for (std::size_t r = 0; r < next.size(); ++r)
                while (next[r] < order_.ranks[r].size()) {
                    const std::vector<Place> waits = waits_of({r, next[r]});
                    if (std::any_of(waits.begin(), waits.end(), open))
                        break;
                    ++next[r];
                    moved = true;
                }
        }
        const auto stuck = [&](std::size_t r) { return next[r] < order_.ranks[r].size(); };
        std::size_t r = 0;
        while (r < next.size() && !stuck(r))
            ++r;
        if (r == next.size())
            return {};
        // From one waiting rank to the one that it waits for, until one comes again.
        std::vector<std::size_t> path;
        while (std::find(path.begin(), path.end(), r) == path.end()) {
            path.push_back(r);
            const std::vector<Place> waits = waits_of({r, next[r]});
            r = std::find_if(waits.begin(), waits.end(), open)->rank;
        }
        path.erase(path.begin(), std::find(path.begin(), path.end(), r));
        std::string cycle;
        for (const std::size_t rank : path) {
            const std::vector<Place> waits = waits_of({rank, next[rank]});
            const Place& on = *std::find_if(waits.begin(), waits.end(), open);
            cycle += str(cycle.empty() ? "" : "; ", to_text(at({rank, next[rank]})), " on rank ", rank,
                         " waits for ", to_text(at(on)), " on rank ", on.rank);
        }
        return OrderFault{static_cast<i64>(path.front()),
                          str(to_text(at({path.front(), next[path.front()]})), " never runs"), cycle,
                          "run one of them earlier"};
    }

    const PipelineOrder& order_;
    const PipelineShape& shape_;
    std::map<Task, Place> places_;
    std::map<std::pair<i64, i64>, i64> previous_;
};

} // namespace

std::optional<OrderFault> find_fault(const PipelineOrder& order) { return OrderCheck(order).run(); }

} // namespace trivium
