#include "where.hpp"

#include "base/check.hpp"
#include "choose/decide.hpp"
#include "ir/ops/product_form.hpp"
#include "plan/cost.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace trivium {

namespace {

std::string kind_of(const Graph& graph, const Op& op, bool shapes)
{
    const std::string name = info(op).name;
    if (!shapes || info(op).scratch != ScratchKind::product)
        return name;
    const std::optional<ProductForm> f = find_product_form(rule_of(graph, op));
    return f ? fmt::format("{} {} x {} x {} {}{}", name, f->m, f->n, f->k, f->trans_a ? 't' : 'n',
                           f->trans_b ? 't' : 'n')
             : name;
}

} // namespace

std::map<std::string, Spent> by_kind(const Program& program, const Timeline& timeline, bool shapes)
{
    std::map<std::string, Spent> kinds;
    for (std::size_t i = 0; i < timeline.spans.size(); ++i) {
        const Step& step = program.schedule.steps[i];
        const bool op = step.kind == StepKind::op;
        Spent& spent = kinds[op ? kind_of(program.graph, program.graph[step.op], shapes) : "feed and fetch"];
        spent.seconds += timeline.spans[i].end - timeline.spans[i].begin;
        spent.flops += op ? flops_of(program.graph, program.graph[step.op]) : 0;
    }
    return kinds;
}

Parts parts_of(const Program& program, const Timeline& timeline, Seconds exposed)
{
    Parts parts;
    Seconds begin = 1e300, end = 0;
    for (std::size_t i = 0; i < timeline.spans.size(); ++i) {
        const Step& step = program.schedule.steps[i];
        begin = std::min(begin, timeline.spans[i].begin);
        end = std::max(end, timeline.spans[i].end);
        if (step.kind != StepKind::op || step.queue != queue_compute)
            continue;
        const ScratchKind kind = info(program.graph[step.op]).scratch;
        (kind == ScratchKind::product     ? parts.products
         : kind == ScratchKind::attention ? parts.attention
                                          : parts.other) += timeline.spans[i].end - timeline.spans[i].begin;
    }
    parts.exposed = std::max(0.0, exposed);
    parts.total = end - begin;
    parts.idle = std::max(0.0, parts.total - parts.products - parts.attention - parts.other - parts.exposed);
    return parts;
}

std::vector<Seconds> durations_of(const Timeline& timeline)
{
    std::vector<Seconds> made;
    for (const Span& span : timeline.spans)
        made.push_back(span.end - span.begin);
    return made;
}

SimulatedParts simulated_parts(const RunConfig& config, const Machine& machine, int threads,
                               const std::vector<std::vector<Seconds>>& measured)
{
    std::vector<Compiled> compiled;
    std::vector<Timeline> timelines(measured.size());
    CompileConfig options;
    options.machine = machine;
    compile_ranks(
        decide(config, machine), options, [](const Mesh&, i64) { return true; },
        [&](i64, Compiled& one) {
            compiled.push_back(std::move(one));
            return true;
        });
    std::vector<StageProgram> programs;
    for (std::size_t rank = 0; rank < measured.size(); ++rank) {
        const Program& train = compiled.at(rank).programs[train_program];
        TRV_CHECK(measured[rank].size() == train.schedule.steps.size(), "rank ", rank, " has other Steps");
        for (const Seconds seconds : measured[rank])
            timelines[rank].spans.push_back({0, seconds});
        programs.push_back({&train.graph, &train.schedule, &timelines[rank]});
    }
    const Timeline first = simulate(programs, machine, threads).front();
    return {first.length(), first.length() - first.busy(*programs.front().schedule, queue_compute)};
}

} // namespace trivium
