#include "cli/schedule_picture.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "plan/rank_activity.hpp"
#include "schedule/unroll.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

namespace trivium {

namespace {

ScheduleMark mark_of(Work work) { return static_cast<ScheduleMark>(work); }
static_assert(static_cast<int>(ScheduleMark::weight_gradient) == static_cast<int>(Work::weight_gradient));

ScheduleChart::Row row_of(const SimulatedRank& rank, i64 stage_rank, i64 ranks, Seconds step)
{
    constexpr const char* names[] = {"forward", "backward", "input gradient", "weight gradient"};
    const Program& program = rank.program;
    const RankOrder tasks =
        program.tasks.empty() ? plain_order(program.graph, program.microbatches) : program.tasks;
    const RankActivity activity = rank_activity(program.graph, program.schedule, tasks, rank.timeline);
    ScheduleChart::Row row;
    row.name = std::to_string(stage_rank);
    for (const TaskSpan& t : activity.tasks)
        row.spans.push_back({mark_of(t.task.work), t.span.begin, t.span.end, t.task.stage / ranks,
                             t.task.microbatch,
                             str(names[static_cast<int>(t.task.work)], " of microbatch ", t.task.microbatch,
                                 ", stage ", t.task.stage)});
    for (const Span& span : activity.step)
        row.spans.push_back({ScheduleMark::step, span.begin, span.end, 0, -1, "rest of the step"});
    for (const Span& span : activity.collectives)
        row.spans.push_back({ScheduleMark::collective, span.begin, span.end, 0, -1, "collective"});
    for (const Span& span : activity.waits)
        row.spans.push_back({ScheduleMark::wait, span.begin, span.end, 0, -1, "waits"});
    row.idle = step - activity.busy;
    row.in_flight = in_flight(tasks);
    row.activations = rank.memory.by_kind[static_cast<int>(MemoryKind::activations)];
    return row;
}

} // namespace

ScheduleChart schedule_picture(const SimulatedStep& step)
{
    ScheduleChart chart;
    const auto ranks = static_cast<i64>(step.ranks.size());
    chart.length = step.length();
    chart.step = step.seconds;
    for (const SimulatedRank& rank : step.ranks)
        chart.rows.push_back(row_of(rank, static_cast<i64>(chart.rows.size()), ranks, chart.step));
    const Program& program = step.ranks.front().program;
    chart.title = str("schedule ", step.parallel.schedule, " of program ", program.graph.name, ": ",
                      counted(ranks, "pipeline rank"), ", ", counted(step.chunks, "chunk"), " each, ",
                      counted(program.microbatches, "microbatch", "microbatches"));
    return chart;
}

int terminal_columns()
{
    winsize size{};
    return ::isatty(STDOUT_FILENO) && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0
               ? size.ws_col
               : 100;
}

} // namespace trivium
