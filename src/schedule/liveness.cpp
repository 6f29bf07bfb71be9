#include "schedule/liveness.hpp"

#include <algorithm>
#include <numeric>

namespace trivium {

std::vector<Intervals> find_intervals(const Schedule& schedule)
{
    std::vector<Intervals> uses(schedule.buffers.size());
    const auto touch = [&](BufferId id, StepId step, i64 microbatch) {
        const Buffer& buffer = schedule[id];
        Intervals& use = uses[id.index()];
        const bool scratch = buffer.kind == MemoryKind::scratch;
        const bool fresh = use.empty() || scratch ||
                           (buffer.lifetime == Lifetime::microbatch && use.back().microbatch != microbatch);
        if (fresh) {
            use.push_back({step, {step}, microbatch});
            return;
        }
        auto& last = use.back().last;
        const int queue = schedule.steps[step.index()].queue;
        const auto same =
            std::ranges::find_if(last, [&](StepId s) { return schedule.steps[s.index()].queue == queue; });
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

std::size_t end_of(const Interval& interval)
{
    std::size_t end = 0;
    for (const StepId last : interval.last)
        end = std::max(end, last.index() + 1);
    return end;
}

Execution one_by_one(const Schedule& schedule)
{
    Execution made;
    for (std::size_t i = 0; i < schedule.steps.size(); ++i)
        made.steps.push_back({i, i + 1});
    return made;
}

Execution long_transfers(const Schedule& schedule, const HappensBefore& order)
{
    // A Step of the compute queue at position p begins at moment (p, 3) and ends before moment (p + 1, 0).
    // Between them: (p, 0) begin the Steps that waited for the compute queue alone; at (p, 1), in list
    // order, end the Steps that must have ended, and begin those that waited for these.
    struct Event {
        std::size_t moment; // 4 position + phase
        std::size_t step;
        bool ends;
    };
    const std::size_t count = schedule.steps.size();
    std::vector<Event> events;              // of one moment, in the order in which they happen
    std::vector<std::size_t> end(count, 0); // of transfers: positions of the compute queue
    std::vector<std::size_t> previous(schedule.queues.size(), count);
    for (std::size_t i = 0; i < count; ++i) {
        const StepId id(i);
        const Step& step = schedule.steps[i];
        if (order.queue(id) == queue_compute) {
            events.push_back({4 * order.position(id) + 3, i, false});
            continue;
        }
        end[i] = order.first_after(id, queue_compute);
        const std::size_t computed = order.ended(id, queue_compute);
        std::size_t begin = computed, phase = 0;
        const auto after = [&](std::size_t other) {
            if (other < count && order.queue(StepId(other)) != queue_compute && end[other] >= begin) {
                begin = end[other];
                phase = 1;
            }
        };
        after(previous[order.queue(id)]);
        for (const StepId wait : step.waits)
            after(wait.index());
        previous[order.queue(id)] = i;
        events.push_back({4 * begin + phase, i, false});
        events.push_back({4 * end[i] + 1, i, true});
    }
    std::vector<std::size_t> place; // by moment: of its first event
    for (const Event& event : events) {
        place.resize(std::max(place.size(), event.moment + 2), 0);
        ++place[event.moment + 1];
    }
    std::partial_sum(place.begin(), place.end(), place.begin());
    std::vector<const Event*> sorted(events.size());
    for (const Event& event : events)
        sorted[place[event.moment]++] = &event;
    Execution made;
    made.steps.resize(count);
    std::size_t begun = 0;
    for (const Event* const event : sorted)
        if (event->ends)
            made.steps[event->step].end = begun;
        else {
            made.steps[event->step] = {begun, begun + 1};
            ++begun;
        }
    return made;
}

namespace {

Occupancy occupancy(const Schedule& schedule, const std::vector<Intervals>& uses, Execution execution,
                    Space space)
{
    Occupancy made;
    std::vector<Bytes> change(schedule.steps.size() + 1, 0);
    for (std::size_t b = 0; b < uses.size(); ++b) {
        if (schedule.buffers[b].lifetime == Lifetime::run || schedule.buffers[b].space != space)
            continue;
        for (const Interval& interval : uses[b]) {
            const std::vector<Execution::Span>& steps = execution.steps;
            const StepId last = *std::ranges::max_element(
                interval.last, {}, [&](StepId step) { return steps[step.index()].end; });
            const Alive alive{BufferId(b), steps[interval.first.index()].begin, steps[last.index()].end,
                              interval.first, last};
            change[alive.begin] += schedule.buffers[b].bytes;
            change[alive.end] -= schedule.buffers[b].bytes;
            made.alive.push_back(alive);
        }
    }
    std::partial_sum(change.begin(), change.end(), change.begin());
    const auto top = std::ranges::max_element(change);
    made.execution = std::move(execution);
    made.peak = static_cast<std::size_t>(top - change.begin());
    made.bytes = *top;
    return made;
}

} // namespace

Occupancy worst_occupancy(const Schedule& schedule, const HappensBefore& order,
                          const std::vector<Intervals>& intervals, Space space)
{
    Occupancy fast = occupancy(schedule, intervals, one_by_one(schedule), space),
              slow = occupancy(schedule, intervals, long_transfers(schedule, order), space);
    return slow.bytes >= fast.bytes ? slow : fast;
}

} // namespace trivium
