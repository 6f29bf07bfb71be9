#include "schedule/memory.hpp"

#include "base/check.hpp"
#include "schedule/liveness.hpp"
#include "schedule/packing.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

namespace trivium {

namespace {

struct Peak {
    Bytes bytes = 0;
    Bytes by_kind[memory_kind_count] = {};
};

/// Numbers by Step.
class ListsOfSteps {
public:
    explicit ListsOfSteps(std::size_t steps) : first_(steps, none) {}
    void add(StepId step, std::size_t number)
    {
        all_.push_back({number, first_[step.index()]});
        first_[step.index()] = all_.size() - 1;
    }
    bool any(StepId step) const { return first_[step.index()] != none; }
    template <class Visit>
    void visit(StepId step, Visit visit) const
    {
        for (std::size_t at = first_[step.index()]; at != none; at = all_[at].next)
            visit(all_[at].number);
    }

private:
    static constexpr std::size_t none = ~std::size_t{0};
    struct Element {
        std::size_t number, next;
    };
    std::vector<std::size_t> first_; ///< by Step
    std::vector<Element> all_;
};

class Planner {
public:
    Planner(Schedule& schedule, const MemoryConfig& config)
        : s_(schedule), config_(config), order_(schedule), intervals_(find_intervals(schedule))
    {
    }

    /// Places all buffers except run-lifetime ones from `base` on; stops the search for better places when
    /// they end at or below `goal`, apart from alignment and red zones.
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
        const Occupancy occupancy = worst_occupancy(s_, order_, intervals_, config_.space);
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
    /// Whether a buffer is in the arena that is planned.
    bool is_here(const Buffer& buffer) const { return buffer.space == config_.space; }

    /// Buffers whose content may be needed when a Step of one queue begins.
    struct Needed {
        std::vector<std::size_t> intervals; ///< by buffer: how many of its intervals
        std::vector<std::uint64_t> bits;    ///< of the buffers with any
        std::vector<std::uint16_t> left;    ///< by interval: last Steps that may not have ended
        std::vector<std::size_t> ended;     ///< by queue: Steps that have

        void add(std::size_t buffer)
        {
            if (intervals[buffer]++ == 0)
                bits[buffer / 64] |= std::uint64_t{1} << buffer % 64;
        }
        void remove(std::size_t buffer)
        {
            if (--intervals[buffer] == 0)
                bits[buffer / 64] &= ~(std::uint64_t{1} << buffer % 64);
        }
    };

    /// Which of these buffers may be needed at the same time. Of two intervals, the one that begins later in
    /// the list does not end before the other begins, so they overlap unless the other has certainly ended.
    Conflicts conflicts_of(const std::vector<std::size_t>& buffers) const
    {
        std::vector<std::size_t> buffer_of;                        // by interval: place in `buffers`
        std::vector<std::uint16_t> lasts;                          // number of last Steps
        ListsOfSteps begin(s_.steps.size()), end(s_.steps.size()); // intervals
        for (std::size_t b = 0; b < buffers.size(); ++b)
            for (const Interval& interval : intervals_[buffers[b]]) {
                if (is_skipped(s_.buffers[buffers[b]], interval))
                    continue;
                begin.add(interval.first, buffer_of.size());
                for (const StepId last : interval.last)
                    end.add(last, buffer_of.size());
                buffer_of.push_back(b);
                lasts.push_back(static_cast<std::uint16_t>(interval.last.size()));
            }
        std::vector<std::optional<Needed>> needed(order_.queues()); // of queues on which intervals begin
        for (std::size_t i = 0; i < s_.steps.size(); ++i)
            if (std::optional<Needed>& made = needed[order_.queue(StepId(i))]; !made && begin.any(StepId(i)))
                made = Needed{std::vector<std::size_t>(buffers.size(), 0),
                              std::vector<std::uint64_t>((buffers.size() + 63) / 64, 0), lasts,
                              std::vector<std::size_t>(order_.queues(), 0)};
        Conflicts conflicts(buffers.size());
        for (std::size_t i = 0; i < s_.steps.size(); ++i) {
            std::optional<Needed>& own = needed[order_.queue(StepId(i))];
            for (std::size_t queue = 0; own && queue < order_.queues(); ++queue)
                for (std::size_t& at = own->ended[queue]; at < order_.ended(StepId(i), queue); ++at)
                    end.visit(order_.step(queue, at), [&](std::size_t interval) {
                        if (--own->left[interval] == 0)
                            own->remove(buffer_of[interval]);
                    });
            begin.visit(StepId(i), [&](std::size_t interval) {
                conflicts.add(buffer_of[interval], own->bits);
                for (std::optional<Needed>& each : needed)
                    if (each)
                        each->add(buffer_of[interval]);
            });
        }
        conflicts.complete();
        return conflicts;
    }

    /// Microbatches from Schedule::representative on are like those before, but the last overlap with the
    /// Steps after them.
    bool is_skipped(const Buffer& buffer, const Interval& interval) const
    {
        return buffer.lifetime == Lifetime::microbatch && interval.microbatch >= s_.representative &&
               interval.microbatch < s_.microbatches - s_.slots - 1;
    }

    Schedule& s_;
    const MemoryConfig& config_;
    HappensBefore order_;
    std::vector<Intervals> intervals_; ///< by buffer
};

} // namespace

std::vector<std::vector<BufferId>> dying_buffers(const Schedule& schedule)
{
    std::vector<std::vector<BufferId>> dying(schedule.steps.size());
    const std::vector<Intervals> uses = find_intervals(schedule);
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
