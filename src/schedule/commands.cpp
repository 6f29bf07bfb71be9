#include "schedule/commands.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <functional>
#include <sstream>

namespace trivium {

namespace {

/// Number of launches and copies of each queue that have certainly ended.
using Clock = std::vector<std::size_t>;

class Lowering {
public:
    Lowering(const Schedule& schedule, const Joins& joins)
        : schedule_(schedule), joins_(joins), queues_(schedule.queues.size()),
          last_of_(schedule.steps.size()), event_of_(schedule.steps.size(), -1),
          position_(schedule.steps.size(), 0)
    {
    }

    DeviceProgram run()
    {
        const std::size_t decision = schedule_.decision, all = schedule_.steps.size();
        const Waits until = needed_waits(0, decision), after = needed_waits(decision, all);
        program_.until_decision = part(0, decision, until);
        std::vector<DeviceCommand>& commands = program_.until_decision.commands;
        const int decided = program_.events++;
        commands.push_back({CommandKind::record, queue_compute, {}, 1, decided});
        commands.push_back({CommandKind::synchronise, queue_compute, {}, 1, decided});
        program_.after_decision = part(decision, all, after);
        return std::move(program_);
    }

private:
    /// One past the last Step of [first, end) that can be launched together with `first`. Such a Step waits
    /// for nothing in this part for which `first` does not wait.
    std::size_t end_of_group(std::size_t begin, std::size_t first, std::size_t end) const
    {
        const Step& step = schedule_.steps[first];
        const auto goes_along = [&](std::size_t next) {
            const Step& other = schedule_.steps[next];
            return other.kind == StepKind::op && other.queue == step.queue &&
                   joins_(StepId(first), StepId(next)) && std::ranges::all_of(other.waits, [&](StepId wait) {
                       return wait.index() < begin || std::ranges::find(step.waits, wait) != step.waits.end();
                   });
        };
        std::size_t next = first + 1;
        while (joins_ && step.kind == StepKind::op && next < end && goes_along(next))
            ++next;
        return next;
    }

    /// Whether a Step may still run when the part after its own begins: an early decision does not wait for
    /// messages that peers receive after theirs.
    bool runs_on(std::size_t i) const
    {
        const Step& step = schedule_.steps[i];
        return schedule_.decides_early && i < schedule_.decision && step.kind == StepKind::op &&
               step.results.empty();
    }

    /// By the step that waits, less the begin of the part.
    using Waits = std::vector<std::vector<std::size_t>>;

    /// Waits that no other waits imply.
    Waits needed_waits(std::size_t begin, std::size_t end)
    {
        std::vector<Clock> now(queues_, Clock(queues_, 0)); // of each queue
        std::vector<Clock> then(end - begin);               // when a Step was launched
        Waits needed(end - begin);
        for (std::size_t first = begin; first < end;) {
            const std::size_t next = end_of_group(begin, first, end);
            const auto queue = static_cast<std::size_t>(schedule_.steps[first].queue);
            Clock& clock = now[queue];
            auto waits = schedule_.steps[first].waits;
            std::ranges::sort(waits, std::greater()); // latest first, because it may imply others
            for (const StepId wait : waits) {
                TRV_CHECK(wait.index() < first, "step ", first, " waits for step ", wait,
                          ", which comes later");
                const std::size_t other = last_of_[wait.index()];
                if (wait.index() < begin) { // parts run one after another
                    if (runs_on(wait.index()))
                        needed[first - begin].push_back(other);
                    continue;
                }
                if (clock[static_cast<std::size_t>(schedule_.steps[other].queue)] > position_[other])
                    continue;
                needed[first - begin].push_back(other);
                for (std::size_t q = 0; q < queues_; ++q)
                    clock[q] = std::max(clock[q], then[other - begin][q]);
            }
            for (std::size_t i = first; i < next; ++i) {
                last_of_[i] = next - 1;
                position_[i] = clock[queue];
            }
            ++clock[queue];
            then[next - 1 - begin] = clock;
            first = next;
        }
        for (const std::vector<std::size_t>& waits : needed)
            for (const std::size_t other : waits)
                if (event_of_[other] < 0)
                    event_of_[other] = program_.events++;
        return needed;
    }

    CommandList part(std::size_t begin, std::size_t end, const Waits& needed)
    {
        std::vector<bool> used(queues_, false), open(queues_, false);
        for (std::size_t i = begin; i < end; ++i)
            used[static_cast<std::size_t>(schedule_.steps[i].queue)] = true;
        for (std::size_t i = 0; i < schedule_.decision; ++i)
            if (runs_on(i))
                open[static_cast<std::size_t>(schedule_.steps[i].queue)] = true;
        const bool is_last = end == schedule_.steps.size();

        CommandList list;
        std::vector<DeviceCommand>& commands = list.commands;
        const auto order = [&](CommandKind kind, int queue, int event) {
            commands.push_back({kind, queue, {}, 1, event});
        };
        const auto others = [&](auto&& visit) {
            for (std::size_t q = 0; q < queues_; ++q)
                if ((used[q] || (is_last && open[q])) && q != queue_compute)
                    visit(static_cast<int>(q));
        };
        const int fork = program_.events++;
        order(CommandKind::record, queue_compute, fork);
        others([&](int queue) { order(CommandKind::wait, queue, fork); });
        for (std::size_t first = begin; first < end;) {
            const Step& step = schedule_.steps[first];
            for (const std::size_t other : needed[first - begin])
                order(CommandKind::wait, step.queue, event_of_[other]);
            const std::size_t last = last_of_[first];
            const CommandKind kind = step.kind == StepKind::feed    ? CommandKind::copy_in
                                     : step.kind == StepKind::fetch ? CommandKind::copy_out
                                                                    : CommandKind::launch;
            commands.push_back({kind, step.queue, StepId(first), last + 1 - first, -1});
            if (event_of_[last] >= 0)
                order(CommandKind::record, step.queue, event_of_[last]);
            first = last + 1;
        }
        others([&](int queue) {
            if (open[static_cast<std::size_t>(queue)] && !is_last)
                return;
            const int join = program_.events++;
            order(CommandKind::record, queue, join);
            order(CommandKind::wait, queue_compute, join);
        });
        list.end_of_work = commands.size();
        return list;
    }

    const Schedule& schedule_;
    const Joins& joins_;
    std::size_t queues_;
    std::vector<std::size_t> last_of_;  ///< by Step: the last Step of its launch
    std::vector<int> event_of_;         ///< by the last Step of a launch; -1: no command waits for it
    std::vector<std::size_t> position_; ///< by Step: index of its launch in its queue and part
    DeviceProgram program_;
};

} // namespace

DeviceProgram lower(const Schedule& schedule, const Joins& joins) { return Lowering(schedule, joins).run(); }

std::string to_text(const DeviceProgram& program, const Schedule& schedule, const Graph& graph)
{
    std::ostringstream out;
    const auto print = [&](const char* title, const CommandList& list) {
        out << title << "\n";
        for (const DeviceCommand& command : list.commands) {
            out << "  " << schedule.queues[static_cast<std::size_t>(command.queue)] << ": "
                << name_of(command.kind);
            if (command.event >= 0)
                out << " event " << command.event;
            if (command.step) {
                const Step& step = schedule.steps[command.step.index()];
                out << " step " << command.step << " "
                    << (step.kind == StepKind::op ? info(graph[step.op]).name : graph[step.value].name);
                if (command.count > 1)
                    out << " and " << command.count - 1 << " more";
            }
            out << "\n";
        }
    };
    print("until the decision", program.until_decision);
    print("after the decision", program.after_decision);
    return out.str();
}

} // namespace trivium
