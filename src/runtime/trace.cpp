#include "runtime/trace.hpp"

#include "base/check.hpp"

#include <iomanip>

namespace trivium {

namespace {

std::string name_of(const Graph& graph, const Step& step)
{
    if (step.kind == StepKind::op)
        return info(graph[step.op]).name;
    return (step.kind == StepKind::feed ? "feed " : "fetch ") + graph[step.value].name;
}

} // namespace

std::string trace_json(const Graph& graph, const Schedule& schedule, const Timeline& timeline)
{
    std::ostringstream out;
    out << std::fixed << std::setprecision(3) << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
    for (std::size_t q = 0; q < schedule.queues.size(); ++q)
        out << (q ? ",\n" : "") << R"({"ph":"M","pid":0,"tid":)" << q << R"(,"name":"thread_name","args":{"name":")" << schedule.queues[q] << "\"}}";
    const Seconds start = timeline.spans.empty() ? 0 : timeline.spans.front().begin;
    for (std::size_t i = 0; i < timeline.spans.size(); ++i) {
        const Step& step = schedule.steps[i];
        const Span& span = timeline.spans[i];
        out << ",\n" << R"({"ph":"X","pid":0,"tid":)" << step.queue << R"(,"name":")" << name_of(graph, step) << R"(","ts":)"
            << 1e6 * (span.begin - start) << R"(,"dur":)" << 1e6 * (span.end - span.begin) << R"(,"args":{"step":)" << i
            << R"(,"microbatch":)" << step.microbatch;
        if (step.kind == StepKind::op) {
            const Op& op = graph[step.op];
            out << R"(,"scope":")" << op.scope << R"(","phase":")" << trivium::name_of(op.phase) << R"(","result":")"
                << graph[op.results[0]].type << R"(","flops":)" << flops_of(graph, op) << R"(,"bytes":)" << bytes_of(graph, op);
        }
        out << "}}";
    }
    out << "\n]}\n";
    return out.str();
}

} // namespace trivium
