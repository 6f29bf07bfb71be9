#include "schedule/trace.hpp"

#include "base/check.hpp"

#include <cmath>
#include <iomanip>

namespace trivium {

namespace {

std::string name_of(const Graph& graph, const Step& step)
{
    if (step.kind == StepKind::op)
        return info(graph[step.op]).name;
    return (step.kind == StepKind::feed ? "feed " : "fetch ") + graph[step.value].name;
}

/// Integer nanoseconds after `start`. Begin and end are rounded, not begin and duration, because a slice must
/// not end after the next one begins.
i64 nanoseconds(Seconds time, Seconds start) { return std::llround(1e9 * (time - start)); }

/// Microseconds with three decimals.
std::string microseconds(i64 nanoseconds)
{
    const std::string digits = std::to_string(1000 + std::abs(nanoseconds) % 1000).substr(1);
    return str(nanoseconds < 0 ? "-" : "", std::abs(nanoseconds) / 1000, ".", digits);
}

} // namespace

std::string trace_events(const Graph& graph, const Schedule& schedule, const Timeline& timeline, i64 rank,
                         Seconds start)
{
    std::ostringstream out;
    out << std::fixed << std::setprecision(3) << R"({"ph":"M","pid":)" << rank
        << R"(,"name":"process_name","args":{"name":"rank )" << rank << "\"}}";
    for (std::size_t q = 0; q < schedule.queues.size(); ++q)
        out << ",\n"
            << R"({"ph":"M","pid":)" << rank << R"(,"tid":)" << q
            << R"(,"name":"thread_name","args":{"name":")" << schedule.queues[q] << "\"}}";
    for (std::size_t i = 0; i < timeline.spans.size(); ++i) {
        const Step& step = schedule.steps[i];
        const i64 begin = nanoseconds(timeline.spans[i].begin, start),
                  end = nanoseconds(timeline.spans[i].end, start);
        out << ",\n"
            << R"({"ph":"X","pid":)" << rank << R"(,"tid":)" << step.queue << R"(,"name":")"
            << name_of(graph, step) << R"(","ts":)" << microseconds(begin) << R"(,"dur":)"
            << microseconds(end - begin) << R"(,"args":{"step":)" << i << R"(,"microbatch":)"
            << step.microbatch;
        if (step.kind == StepKind::op) {
            const Op& op = graph[step.op];
            out << R"(,"scope":")" << op.scope << R"(","phase":")" << trivium::name_of(op.phase) << '"';
            if (!op.results.empty())
                out << R"(,"result":")" << graph[op.results[0]].type << '"';
            out << R"(,"flops":)" << flops_of(graph, op) << R"(,"bytes":)" << bytes_of(graph, op);
        }
        out << "}}";
    }
    return out.str();
}

std::string trace_json(const std::vector<std::string>& events)
{
    std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
    for (std::size_t rank = 0; rank < events.size(); ++rank)
        text += (rank ? ",\n" : "") + events[rank];
    return text + "\n]}\n";
}

} // namespace trivium
