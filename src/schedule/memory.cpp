#include "schedule/memory.hpp"

#include "base/check.hpp"
#include "schedule/liveness.hpp"
#include "schedule/packing.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>

namespace trivium {

namespace {

struct Peak {
    Bytes bytes = 0;
    Bytes by_kind[memory_kind_count] = {};
};

class Planner {
public:
    Planner(Schedule& schedule, const MemoryConfig& config) : s_(schedule), config_(config), order_(schedule)
    {
        if (!config.place)
            return;
        for (const Intervals& use : find_intervals(schedule, schedule.representative)) {
            begins_.push_back(firsts_.size());
            for (const Interval& interval : use)
                add_interval(interval);
        }
        begins_.push_back(firsts_.size());
    }

    /// Places all buffers except run-lifetime ones from `base` on; stops the search for better places when
    /// they end at or below `goal`, apart from alignment and red zones. \pre config.place
    void place(Bytes base, Bytes goal)
    {
        std::vector<std::size_t> buffers;
        std::vector<Bytes> bytes;
        for (std::size_t i = 0; i < s_.buffers.size(); ++i)
            if (s_.buffers[i].lifetime != Lifetime::run && is_here(s_.buffers[i])) {
                buffers.push_back(i);
                bytes.push_back(round_up(s_.buffers[i].bytes + config_.red_zone, config_.alignment));
                goal += bytes.back() - s_.buffers[i].bytes;
            }
        const Packing packing = pack(bytes, conflicts_of(buffers), goal - base);
        for (std::size_t i = 0; i < buffers.size(); ++i)
            s_.buffers[buffers[i]].offset = base + packing.offsets[i];
    }

    /// What is alive at the peak, run-lifetime buffers included.
    Peak peak() const
    {
        const Occupancy occupancy = worst_occupancy(s_, order_, config_.space);
        Peak peak;
        const auto add = [&](const Buffer& buffer) {
            peak.bytes += buffer.bytes;
            peak.by_kind[static_cast<int>(buffer.kind)] += buffer.bytes;
        };
        for (const Buffer& buffer : s_.buffers)
            if (buffer.lifetime == Lifetime::run && is_here(buffer))
                add(buffer);
        for (const Alive& alive : occupancy.alive)
            if (alive.begin <= occupancy.peak && occupancy.peak < alive.end)
                add(s_[alive.buffer]);
        return peak;
    }

private:
    struct Bits {
        explicit Bits(std::size_t count) : words((count + 63) / 64, 0) {}
        void set(std::size_t i) { words[i / 64] |= std::uint64_t{1} << i % 64; }
        void reset(std::size_t i) { words[i / 64] &= ~(std::uint64_t{1} << i % 64); }
        std::vector<std::uint64_t> words;
    };

    /// Whether buffer `i` is in the arena that is planned.
    bool is_here(const Buffer& buffer) const { return buffer.space == config_.space; }

    using Index = std::uint32_t; ///< of queues and Steps: half the bytes that the comparison of buffers reads
    /// The first Step of an interval: its queue, and its position in it.
    struct First {
        Index queue = 0, position = 0;
    };

    void add_interval(const Interval& interval)
    {
        const StepId first = interval.first;
        firsts_.push_back(
            {static_cast<Index>(order_.queue(first)), static_cast<Index>(order_.position(first))});
        for (std::size_t queue = 0; queue < order_.queues(); ++queue) {
            std::size_t after = 0;
            for (const StepId last : interval.last)
                after = std::max(after, order_.first_after(last, queue));
            after_.push_back(static_cast<Index>(after));
        }
    }

    /// Which of these buffers may be needed at the same time.
    Conflicts conflicts_of(const std::vector<std::size_t>& buffers) const
    {
        Conflicts conflicts(buffers.size());
        add_moved(buffers, add_computed(buffers, conflicts), conflicts);
        conflicts.complete();
        return conflicts;
    }

    /// Adds the conflicts between buffers whose intervals all begin on the compute queue: with those that are
    /// alive when an interval begins. Returns which buffers are others.
    std::vector<bool> add_computed(const std::vector<std::size_t>& buffers, Conflicts& conflicts) const
    {
        struct Event {
            Index position;
            bool begins; ///< after what ends at the same position
            std::size_t buffer;
            auto operator<=>(const Event&) const = default;
        };
        std::vector<Event> events;
        std::vector<bool> moved(buffers.size(), false);
        for (std::size_t i = 0; i < buffers.size(); ++i) {
            const std::size_t begin = begins_[buffers[i]], end = begins_[buffers[i] + 1];
            for (std::size_t interval = begin; interval < end; ++interval)
                moved[i] = moved[i] || firsts_[interval].queue != queue_compute;
            for (std::size_t interval = begin; interval < end && !moved[i]; ++interval) {
                events.push_back({firsts_[interval].position, true, i});
                events.push_back({after(interval, queue_compute), false, i});
            }
        }
        std::ranges::sort(events);
        Bits alive(buffers.size());
        for (const Event& event : events) {
            if (event.begins) {
                conflicts.add(event.buffer, alive.words);
                alive.set(event.buffer);
            } else {
                alive.reset(event.buffer);
            }
        }
        return moved;
    }

    /// Adds the conflicts of the buffers `moved`. Intervals a and b may overlap if b begins at a position of
    /// its queue before the first at which a is certainly over, and a likewise.
    void add_moved(const std::vector<std::size_t>& buffers, const std::vector<bool>& moved,
                   Conflicts& conflicts) const
    {
        struct Begin {
            Index position;
            std::size_t interval, buffer;
        };
        std::vector<std::vector<Begin>> all(order_.queues()), movers(order_.queues());
        for (std::size_t i = 0; i < buffers.size(); ++i)
            for (std::size_t n = begins_[buffers[i]]; n < begins_[buffers[i] + 1]; ++n) {
                const Begin begin{firsts_[n].position, n, i};
                all[firsts_[n].queue].push_back(begin);
                if (moved[i])
                    movers[firsts_[n].queue].push_back(begin);
            }
        for (auto* lists : {&all, &movers})
            for (std::vector<Begin>& list : *lists)
                std::ranges::stable_sort(list, {}, &Begin::position);
        std::vector<std::size_t> by_end, place; // the intervals that begin on a queue, sorted by counting
        for (std::size_t own = 0; own < movers.size(); ++own)
            for (std::size_t queue = 0; queue < all.size() && !movers[own].empty(); ++queue) {
                const std::vector<Begin>& others = all[queue];
                if (others.empty())
                    continue;
                const auto end_of = [&](std::size_t k) { return after(others[k].interval, own); };
                place.assign(order_.size(own) + 2, 0);
                for (std::size_t k = 0; k < others.size(); ++k)
                    ++place[end_of(k) + 1];
                std::partial_sum(place.begin(), place.end(), place.begin());
                by_end.resize(others.size());
                for (std::size_t k = 0; k < others.size(); ++k)
                    by_end[place[end_of(k)]++] = k;
                auto over = by_end.begin();
                // The buffers of the first `begun` others that are not over where the mover begins.
                Bits alive(buffers.size());
                std::vector<Index> intervals(buffers.size(), 0); // by buffer, how many of those it has
                std::vector<bool> is_over(others.size(), false);
                std::size_t begun = 0;
                const auto add = [&](std::size_t k) {
                    if (!is_over[k] && intervals[others[k].buffer]++ == 0)
                        alive.set(others[k].buffer);
                };
                const auto remove = [&](std::size_t k) {
                    if (!is_over[k] && --intervals[others[k].buffer] == 0)
                        alive.reset(others[k].buffer);
                };
                for (const Begin& mover : movers[own]) {
                    for (; over != by_end.end() && end_of(*over) <= mover.position; ++over) {
                        if (*over < begun)
                            remove(*over);
                        is_over[*over] = true;
                    }
                    const Index end = after(mover.interval, queue);
                    for (; begun < others.size() && others[begun].position < end; ++begun)
                        add(begun);
                    for (; begun > 0 && others[begun - 1].position >= end; --begun)
                        remove(begun - 1);
                    alive.reset(mover.buffer); // its own
                    conflicts.add(mover.buffer, alive.words);
                    if (intervals[mover.buffer] > 0)
                        alive.set(mover.buffer);
                }
            }
    }

    /// HappensBefore::first_after() of an interval's last uses.
    Index after(std::size_t interval, std::size_t queue) const
    {
        return after_[interval * order_.queues() + queue];
    }

    Schedule& s_;
    const MemoryConfig& config_;
    HappensBefore order_;
    std::vector<First> firsts_; ///< of all intervals, buffer by buffer
    std::vector<Index> after_;  ///< by interval, then queue: HappensBefore::first_after() of its last uses
    std::vector<std::size_t> begins_; ///< index of each buffer's intervals in it
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
            if (added) {
                at->second.offset = end;
                highest = end + buffer.bytes;
                end += round_up(buffer.bytes + config.red_zone, config.alignment);
            }
            buffer.offset = at->second.offset;
        }
    plan.kept = highest;
    plan.arena = highest;
    std::vector<Schedule*> planned; // those that use this space
    std::vector<Planner> planners;
    for (Schedule* schedule : schedules) {
        const auto is_here = [&](const Buffer& buffer) { return buffer.space == config.space; };
        if (std::none_of(schedule->buffers.begin(), schedule->buffers.end(), is_here))
            continue;
        planned.push_back(schedule);
        planners.emplace_back(*schedule, config);
        const Peak peak = planners.back().peak();
        if (peak.bytes > plan.lower_bound) {
            plan.lower_bound = peak.bytes;
            std::copy(std::begin(peak.by_kind), std::end(peak.by_kind), std::begin(plan.by_kind));
        }
    }
    if (!config.place)
        plan.arena = std::max(plan.arena, plan.lower_bound);
    for (std::size_t i = 0; config.place && i < planned.size(); ++i) {
        planners[i].place(end, plan.lower_bound + plan.lower_bound / 100);
        for (const Buffer& buffer : planned[i]->buffers)
            if (buffer.space == config.space && buffer.bytes > 0)
                plan.arena = std::max(plan.arena, buffer.offset + buffer.bytes);
    }
    for (Schedule* schedule : planned) // an empty buffer needs no byte, but a place in the arena
        for (Buffer& buffer : schedule->buffers)
            if (buffer.space == config.space && buffer.bytes == 0)
                buffer.offset = std::min(buffer.offset, plan.arena);
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
             !remedy.empty() ? remedy
             : plan.kept > limit
                 ? "spread the model over more ranks (parallel.tensor, parallel.pipeline, parallel.zero), or "
                   "use a smaller model"
                 : "lower train.micro_batch or model.seq, use bf16, or spread the model over more ranks"});
}

} // namespace trivium
