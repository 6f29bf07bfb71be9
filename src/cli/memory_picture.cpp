#include "cli/memory_picture.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"

namespace trivium {

ArenaChart memory_picture(const Schedule& schedule, const Graph& graph, const MemoryPlan& plan)
{
    const MemoryHistory history = memory_history(schedule, graph);
    ArenaChart chart;
    const Bytes peak = alive_at(history, schedule, history.peak).sum();
    chart.title = str("Memory of program ", graph.name, ": ", counted(schedule.buffers.size(), "buffer"));
    chart.x_label = "Steps that have begun";
    for (int kind = 0; kind < memory_kind_count; ++kind)
        chart.kinds.emplace_back(name_of(static_cast<MemoryKind>(kind)));
    for (const Alive& alive : history.alive) {
        const Buffer& buffer = schedule[alive.buffer];
        std::string hint = str(buffer.name, ", ", name_of(buffer.kind), ", ", format_bytes(buffer.bytes));
        hint += alive.first ? str(", Step ", alive.first, " to ", alive.last) : std::string(", kept");
        chart.rectangles.push_back({static_cast<double>(alive.begin), static_cast<double>(alive.end),
                                    buffer.offset, buffer.bytes, static_cast<int>(buffer.kind),
                                    std::move(hint)});
    }
    for (const StepPart& part : history.parts)
        chart.parts.push_back(
            {part.name, part.letter, static_cast<double>(part.begin), static_cast<double>(part.end)});
    chart.length = static_cast<double>(history.length);
    chart.arena = plan.arena;
    chart.peak = static_cast<double>(history.peak);
    chart.peak_label = str("peak ", format_bytes(peak), ", Step ", history.peak_step);
    return chart;
}

} // namespace trivium
