#include "plan/rank_activity.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace trivium {

namespace {

/// The union of spans, as spans that do not touch.
std::vector<Span> united(std::vector<Span> spans)
{
    std::erase_if(spans, [](const Span& s) { return s.end <= s.begin; });
    std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
    std::vector<Span> made;
    for (const Span& span : spans)
        if (!made.empty() && span.begin <= made.back().end)
            made.back().end = std::max(made.back().end, span.end);
        else
            made.push_back(span);
    return made;
}

/// `all` without `covered`; both are unions.
std::vector<Span> outside(const std::vector<Span>& all, const std::vector<Span>& covered)
{
    std::vector<Span> made;
    std::size_t next = 0;
    for (Span rest : all) {
        while (next < covered.size() && covered[next].end <= rest.begin)
            ++next;
        for (std::size_t i = next; i < covered.size() && covered[i].begin < rest.end; ++i) {
            if (covered[i].begin > rest.begin)
                made.push_back({rest.begin, covered[i].begin});
            rest.begin = covered[i].end;
        }
        if (rest.begin < rest.end)
            made.push_back(rest);
    }
    return made;
}

using Place = std::tuple<Phase, int, i64>; ///< phase, stage, microbatch

std::map<Place, std::size_t> task_of_place(const RankOrder& tasks)
{
    std::map<Place, std::size_t> made;
    for (std::size_t t = 0; t < tasks.size(); ++t) {
        const auto add = [&](Phase phase) {
            made[{phase, static_cast<int>(tasks[t].stage), tasks[t].microbatch}] = t;
        };
        switch (tasks[t].work) {
        case Work::forward: add(Phase::forward); break;
        case Work::backward: add(Phase::weights); [[fallthrough]];
        case Work::input_gradient: add(Phase::backward); break;
        case Work::weight_gradient: add(Phase::weights); break;
        }
    }
    return made;
}

} // namespace

RankActivity rank_activity(const Graph& graph, const Schedule& schedule, const RankOrder& tasks,
                           const Timeline& timeline)
{
    const std::map<Place, std::size_t> places = task_of_place(tasks);
    RankActivity made;
    std::vector<Span> computed, moved;
    std::size_t latest = 0; // task
    for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
        const Step& step = schedule.steps[i];
        if (step.kind != StepKind::op)
            continue;
        const Op& op = graph[step.op];
        const Span& span = timeline.spans[i];
        if (info(op).communicates && !op.attrs->to && !op.attrs->from)
            moved.push_back(span);
        if (step.queue != queue_compute)
            continue;
        computed.push_back(span);
        const auto place = op.region == Region::microbatch
                               ? places.find({op.phase, stage_of(graph, op), step.microbatch})
                               : places.end();
        if (place == places.end()) {
            made.step.push_back(span);
            continue;
        }
        if (made.tasks.empty() || place->second > latest) {
            latest = place->second;
            made.tasks.push_back({tasks[latest], span});
        }
        made.tasks.back().span.end = span.end;
    }
    made.step = united(std::move(made.step));
    computed = united(std::move(computed));
    made.collectives = outside(united(std::move(moved)), computed);
    computed.insert(computed.end(), made.collectives.begin(), made.collectives.end());
    const std::vector<Span> busy = united(std::move(computed));
    for (const Span& span : busy)
        made.busy += span.end - span.begin;
    std::vector<Span> tasks_only;
    for (const TaskSpan& task : made.tasks)
        tasks_only.push_back(task.span);
    made.waits = outside(united(std::move(tasks_only)), busy);
    return made;
}

} // namespace trivium
