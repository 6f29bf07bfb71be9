#include "schedule/memory.hpp"

#include "base/check.hpp"
#include "schedule/happens_before.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <numeric>

namespace trivium {

namespace {

/// An interval in which a buffer's content is needed: from its first Step to the last Step on each queue.
struct Interval {
    StepId first;
    std::vector<StepId> last; ///< per queue that uses it
    i64 microbatch = -1;
};

/// Those of a buffer, in list order; each ends before the next begins.
using Intervals = std::vector<Interval>;

/// When each buffer is needed. Leaves out microbatches from `representative` on, except the last ones,
/// because these overlap with the Steps after them.
std::vector<Intervals> find_intervals(const Schedule& schedule, i64 representative)
{
    std::vector<Intervals> uses(schedule.buffers.size());
    const auto touch = [&](BufferId id, StepId step, i64 microbatch) {
        const Buffer& buffer = schedule[id];
        if (buffer.lifetime == Lifetime::microbatch && microbatch >= representative &&
            microbatch < schedule.microbatches - schedule.slots - 1)
            return;
        Intervals& use = uses[id.index()];
        const bool scratch = buffer.kind == MemoryKind::scratch;
        const bool fresh = use.empty() || scratch ||
                           (buffer.lifetime == Lifetime::microbatch && use.back().microbatch != microbatch);
        if (fresh) {
            use.push_back({step, {step}, microbatch});
            return;
        }
        std::vector<StepId>& last = use.back().last;
        const int queue = schedule.steps[step.index()].queue;
        const auto same = std::find_if(last.begin(), last.end(),
                                       [&](StepId s) { return schedule.steps[s.index()].queue == queue; });
        if (same != last.end())
            *same = step;
        else
            last.push_back(step);
    };
    for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
        const Step& step = schedule.steps[i];
        for (const BufferId id : step.operands)
            touch(id, StepId(i), step.microbatch);
        for (const BufferId id : step.results)
            touch(id, StepId(i), step.microbatch);
        if (step.scratch)
            touch(step.scratch, StepId(i), step.microbatch);
    }
    return uses;
}

/// The list position after the last Step of an interval.
std::size_t end_of(const Interval& interval)
{
    std::size_t end = 0;
    for (const StepId last : interval.last)
        end = std::max(end, last.index() + 1);
    return end;
}

/// The smallest sufficient gap between the ranges `taken` (sorted by offset), otherwise their end.
Bytes best_fit(const std::vector<std::pair<Bytes, Bytes>>& taken, Bytes bytes)
{
    Bytes best = -1, best_gap = 0, at = 0;
    for (const auto& [begin, end] : taken) {
        const Bytes gap = begin - at;
        if (gap >= bytes && (best < 0 || gap < best_gap)) {
            best = at;
            best_gap = gap;
        }
        at = std::max(at, end);
    }
    return best < 0 ? at : best;
}

class Planner {
public:
    Planner(Schedule& schedule, const MemoryConfig& config)
        : s_(schedule), config_(config), order_(schedule),
          uses_(find_intervals(schedule, schedule.representative))
    {
        for (const Intervals& use : uses_) {
            begins_.push_back(firsts_.size());
            times_.emplace_back();
            for (const Interval& interval : use)
                add_interval(interval, times_.back());
        }
        begins_.push_back(firsts_.size());
    }

    /// Places all buffers except run-lifetime ones from `base` on.
    void place(Bytes base)
    {
        std::vector<std::size_t> order;
        for (std::size_t i = 0; i < s_.buffers.size(); ++i)
            if (s_.buffers[i].lifetime != Lifetime::run && is_here(i))
                order.push_back(i);
        std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
            return s_.buffers[a].bytes > s_.buffers[b].bytes;
        });
        std::vector<std::size_t> placed; // by offset
        std::vector<std::pair<Bytes, Bytes>> taken;
        for (const std::size_t i : order) {
            taken.clear();
            for (const std::size_t other : placed)
                if (may_meet(i, other) && conflict(i, other))
                    taken.emplace_back(s_.buffers[other].offset - base, padded_end(s_.buffers[other]) - base);
            s_.buffers[i].offset = base + best_fit(taken, padded(s_.buffers[i].bytes));
            placed.insert(std::upper_bound(placed.begin(), placed.end(), i,
                                           [&](std::size_t a, std::size_t b) {
                                               return s_.buffers[a].offset < s_.buffers[b].offset;
                                           }),
                          i);
        }
    }

    Bytes padded(Bytes bytes) const { return round_up(bytes + config_.red_zone, config_.alignment); }
    Bytes padded_end(const Buffer& b) const { return b.offset + padded(b.bytes); }

    /// The list position at which most bytes are live, and these bytes by kind.
    void peak(MemoryPlan& plan) const
    {
        std::vector<Bytes> change(s_.steps.size() + 1, 0);
        Bytes kept = 0;
        for (std::size_t i = 0; i < s_.buffers.size(); ++i) {
            if (!is_here(i))
                continue;
            if (s_.buffers[i].lifetime == Lifetime::run)
                kept += s_.buffers[i].bytes;
            else
                for (const Interval& interval : uses_[i]) {
                    change[interval.first.index()] += s_.buffers[i].bytes;
                    change[end_of(interval)] -= s_.buffers[i].bytes;
                }
        }
        std::partial_sum(change.begin(), change.end(), change.begin());
        const auto top = std::max_element(change.begin(), change.end());
        if (kept + *top <= plan.lower_bound)
            return;
        plan.lower_bound = kept + *top;
        const auto at = static_cast<std::size_t>(top - change.begin());
        std::fill(std::begin(plan.by_kind), std::end(plan.by_kind), 0);
        for (std::size_t i = 0; i < s_.buffers.size(); ++i)
            for (const Interval& interval : uses_[i])
                if (is_here(i) && (s_.buffers[i].lifetime == Lifetime::run ||
                                   (interval.first.index() <= at && at < end_of(interval)))) {
                    plan.by_kind[static_cast<int>(s_.buffers[i].kind)] += s_.buffers[i].bytes;
                    break;
                }
    }

private:
    static constexpr std::size_t words = 8;
    using Times = std::array<std::uint64_t, words>; ///< a bit for each of equal spans of the compute queue

    /// Whether buffer `i` is in the arena that is planned.
    bool is_here(std::size_t i) const { return s_.buffers[i].space == config_.space; }

    /// The first Step of an interval: its queue, and its position in it.
    struct First {
        std::size_t queue = 0, position = 0;
    };

    void add_interval(const Interval& interval, Times& times)
    {
        const StepId first = interval.first;
        firsts_.push_back({order_.queue(first), order_.position(first)});
        for (std::size_t queue = 0; queue < order_.queues(); ++queue) {
            std::size_t after = 0;
            for (const StepId last : interval.last)
                after = std::max(after, order_.first_after(last, queue));
            after_.push_back(after);
        }
        // In positions of the compute queue: the interval is over before any that begins at `end` or later.
        const std::size_t ended = order_.ended(first, queue_compute),
                          begin = order_.queue(first) == queue_compute ? ended
                                                                       : std::max<std::size_t>(ended, 1) - 1,
                          end = std::max<std::size_t>(after_[after_.size() - order_.queues() + queue_compute],
                                                      begin + 1),
                          all = order_.size(queue_compute) + 1;
        for (std::size_t bit = begin * words * 64 / all; bit <= (end - 1) * words * 64 / all; ++bit)
            times[bit / 64] |= std::uint64_t{1} << bit % 64;
    }

    /// Whether interval `i` ends before interval `j` begins.
    bool over(std::size_t i, std::size_t j) const
    {
        return firsts_[j].position >= after_[i * order_.queues() + firsts_[j].queue];
    }

    /// Whether some span of the compute queue is one in which both buffers may be needed; false for most
    /// pairs.
    bool may_meet(std::size_t a, std::size_t b) const
    {
        std::uint64_t common = 0;
        for (std::size_t word = 0; word < words; ++word)
            common |= times_[a][word] & times_[b][word];
        return common != 0;
    }

    /// Whether two buffers may be needed at the same time. A step-lifetime buffer keeps its content over the
    /// microbatches between its uses, so it has a single interval. Both lists are ordered, so one pass over
    /// them finds any two intervals that may overlap.
    bool conflict(std::size_t a, std::size_t b) const
    {
        for (std::size_t i = begins_[a], j = begins_[b]; i < begins_[a + 1] && j < begins_[b + 1];) {
            if (over(i, j))
                ++i;
            else if (over(j, i))
                ++j;
            else
                return true;
        }
        return false;
    }

    Schedule& s_;
    const MemoryConfig& config_;
    HappensBefore order_;
    std::vector<Intervals> uses_;
    std::vector<First> firsts_; ///< of all intervals, buffer by buffer
    std::vector<std::size_t>
        after_; ///< by interval, then queue: HappensBefore::first_after() of its last uses
    std::vector<std::size_t> begins_; ///< index of each buffer's intervals in it
    std::vector<Times> times_;        ///< by buffer: when it may be needed
};

} // namespace

std::vector<std::vector<BufferId>> dying_buffers(const Schedule& schedule)
{
    std::vector<std::vector<BufferId>> dying(schedule.steps.size());
    const std::vector<Intervals> uses = find_intervals(schedule, every_microbatch);
    for (std::size_t i = 0; i < uses.size(); ++i)
        if (schedule.buffers[i].lifetime != Lifetime::run)
            for (const Interval& interval : uses[i])
                dying[end_of(interval) - 1].emplace_back(i);
    return dying;
}

MemoryPlan plan_memory(const std::vector<Schedule*>& schedules, const MemoryConfig& config)
{
    MemoryPlan plan;
    plan.red_zone = config.red_zone;
    Bytes end = 0, highest = 0;
    std::map<std::string, Buffer> kept; // by name
    for (Schedule* schedule : schedules)
        for (Buffer& buffer : schedule->buffers) {
            if (buffer.lifetime != Lifetime::run)
                continue;
            const auto [at, added] = kept.try_emplace(buffer.name, buffer);
            TRV_CHECK(at->second.bytes == buffer.bytes, "'", buffer.name, "' has two sizes");
            TRV_CHECK(at->second.space == buffer.space, "'", buffer.name, "' is in two spaces");
            if (buffer.space != config.space)
                continue;
            if (added)
                at->second.offset = end;
            buffer.offset = at->second.offset;
            if (added) {
                highest = end + buffer.bytes;
                end += round_up(buffer.bytes + config.red_zone, config.alignment);
            }
        }
    plan.kept = highest;
    plan.arena = highest;
    for (Schedule* schedule : schedules) {
        const auto here = [&](const Buffer& buffer) { return buffer.space == config.space; };
        if (std::none_of(schedule->buffers.begin(), schedule->buffers.end(), here))
            continue;
        Planner planner(*schedule, config);
        planner.place(end);
        planner.peak(plan);
        for (const Buffer& buffer : schedule->buffers)
            if (here(buffer))
                plan.arena = std::max(plan.arena, buffer.offset + buffer.bytes);
    }
    plan.transient = plan.arena - plan.kept;
    require_within(plan, config.limit, "a rank");
    return plan;
}

void require_within(const MemoryPlan& plan, Bytes limit, const std::string& whose, const std::string& remedy)
{
    if (limit > 0 && plan.arena > limit)
        throw UserError(
            {"parallel.memory_limit",
             str("the plan needs ", format_bytes(plan.arena), " (", plan.arena, " bytes) for ", whose,
                 ", the limit is ", format_bytes(limit), ": ", format_bytes(plan.arena - limit), " too much"),
             str(format_bytes(plan.kept), " of it are kept over the run, ", format_bytes(plan.transient),
                 " live within a step"),
             remedy.empty()
                 ? "lower train.micro_batch or model.seq, use bf16, or spread the model over more ranks"
                 : remedy});
}

} // namespace trivium
