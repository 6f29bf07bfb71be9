#include "schedule/schedule.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"

#include <span>

namespace trivium {

Bytes ScratchBudget::of(ScratchKind kind) const
{
    switch (kind) {
    case ScratchKind::product: return product;
    case ScratchKind::attention: return attention;
    case ScratchKind::reduction: return reduction;
    case ScratchKind::exchange: return exchange;
    case ScratchKind::none: break;
    }
    return 0;
}

namespace {

std::string buffers_text(const Schedule& s, std::span<const BufferId> ids)
{
    std::string text;
    for (const BufferId id : ids)
        text += str(text.empty() ? "" : " ", s[id].name, "@", s[id].space == Space::host ? "host:" : "",
                    s[id].offset);
    return text;
}

} // namespace

std::string to_text(const Schedule& s, const Graph& graph)
{
    std::string text =
        str("schedule of ", graph.name, ": ", counted(s.steps.size(), "step"), ", ",
            counted(s.buffers.size(), "buffer"), ", ", counted(s.microbatches, "microbatch", "microbatches"),
            " in ", counted(s.slots, "slot"), "\n");
    for (std::size_t i = 0; i < s.steps.size(); ++i) {
        const Step& step = s.steps[i];
        if (i == s.decision && i > 0)
            text += "-- agree: go on, or skip the rest --\n";
        text += str(i, " ", s.queues[static_cast<std::size_t>(step.queue)], " ");
        text += step.microbatch >= 0 ? str("mb", step.microbatch, " ") : std::string("step ");
        if (step.kind == StepKind::op)
            text += str(info(graph[step.op]).name, step.overwrite ? " (overwrite)" : "");
        else
            text += str(step.kind == StepKind::feed ? "feed %" : "fetch %", graph[step.value].name);
        text += str(" (", buffers_text(s, step.operands), ") -> (", buffers_text(s, step.results), ")");
        if (step.scratch)
            text += str(" scratch ", s[step.scratch].bytes, "@", s[step.scratch].offset);
        if (!step.waits.empty()) {
            text += " waits";
            for (const StepId wait : step.waits)
                text += str(" ", wait);
        }
        text += "\n";
    }
    return text;
}

} // namespace trivium
