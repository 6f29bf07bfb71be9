#include "explain_text.hpp"

#include "ir/ops/op_table.hpp"
#include "ir/text/text.hpp"
#include "ir/verify.hpp"
#include "passes/sharding/axis_parts.hpp"
#include "plan/advice.hpp"
#include "plan/check_steps.hpp"
#include "plan/collective_list.hpp"
#include "plan/cost.hpp"
#include "plan/graph_file.hpp"
#include "plan/report.hpp"
#include "schedule/commands.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <stdexcept>
#include <vector>

namespace trivium {

namespace {

void require(bool holds, const char* promise)
{
    if (!holds)
        throw std::logic_error(promise);
}

void print_and_parse(const Graph& graph, Level level)
{
    const std::string printed = to_text(graph);
    const Graph again = parse_graph(printed, "printed.graph");
    require(to_text(again) == printed, "a graph prints as another one than it parses to");
    verify(again, level);
}

void report(const GraphProgram& made)
{
    const Graph& graph = made.program.graph;
    for (const std::string& text :
         {sharding_table(*made.program.sharded), communication_table(graph), flops_table(graph),
          memory_table(made.memory), to_text(made.program.schedule, graph),
          to_text(lower(made.program.schedule), made.program.schedule, graph)})
        require(text.empty() || text.back() == '\n', "a report ends within a line");
    for (const CommunicationTotal& total : communication_totals(graph, 3))
        require(total.bytes >= 0 && total.collectives >= 0, "a sum of bytes is negative");
    totals_table(communication_totals(graph, 3));
    for (const Buffer& buffer : made.program.schedule.buffers)
        require(buffer.bytes >= 0 && buffer.offset >= 0 &&
                    buffer.offset <=
                        (buffer.space == Space::device ? made.memory.arena : made.memory.host_arena) -
                            buffer.bytes,
                "a buffer lies outside of the arena");
    require(made.memory.lower_bound >= 0 && made.memory.lower_bound <= made.memory.arena,
            "the arena is smaller than what lives in it");
    const Timeline timeline = simulate(graph, made.program.schedule, Machine{}, 1);
    require(std::isfinite(timeline.length()) && timeline.length() >= 0, "a step takes no finite time");
}

/// The axes of `given` begin those of `made`; without `open` they are all.
bool kept(const AxisParts& parts, const DimSharding& given, const DimSharding& made)
{
    const PartList before = parts.parts_of(given.axes), after = parts.parts_of(made.axes);
    return after.size() >= before.size() && std::equal(before.begin(), before.end(), after.begin()) &&
           (given.open || after.size() == before.size());
}

/// What the text states, propagation keeps.
void require_annotations(const Graph& given, const Graph& sharded)
{
    require(given.values.size() == sharded.values.size(), "propagation changed the values");
    const AxisParts parts(given, true);
    for (std::size_t i = 0; i < given.values.size(); ++i) {
        const Sharding &before = given.values[i].sharding, &after = sharded.values[i].sharding;
        require(before.dims.empty() || before.dims.size() == after.dims.size(),
                "a sharding has other dimensions");
        require(before.partial == after.partial, "an annotated partial value is no longer partial");
        for (std::size_t d = 0; d < before.dims.size(); ++d)
            if (!kept(parts, before.dims[d], after.dims[d]))
                throw std::logic_error(
                    str("the annotation of %", given.values[i].name, " became ", to_text(after)));
        for (const std::string& axis : before.replicated)
            for (const DimSharding& dim : after.dims)
                for (const std::string& used : dim.axes)
                    require(!given.mesh.overlap(axis, used),
                            "a value is sharded over an axis that it excludes");
    }
}

/// Rank 0, the last and some in between; all of a small mesh.
std::vector<i64> some_ranks(i64 ranks)
{
    std::set<i64> some{0, ranks - 1};
    if (ranks <= 4)
        some.insert({1 % ranks, ranks / 2});
    else
        some.insert(ranks / 3);
    return {some.begin(), some.end()};
}

} // namespace

void explain_text(const std::string& text)
{
    const Machine machine;
    const GraphProgram first = compile_graph(text, "input.graph", machine, 0);
    const Graph whole = parse_graph(text, "input.graph");
    const bool local = !whole.at.empty();
    print_and_parse(whole, local ? Level::local : Level::global);
    const bool divided = !local && whole.mesh.ranks() > 1;
    print_and_parse(first.program.graph, local || divided ? Level::local : Level::global);
    report(first);
    collectives_of(first.program.graph);
    if (!divided)
        return;
    print_and_parse(*first.program.sharded, Level::sharded);
    require_annotations(whole, *first.program.sharded);
    if (text.size() % 3 != 0) // the rest takes most of the time
        return;
    const std::vector<i64> ranks = some_ranks(whole.mesh.ranks());
    const WorkPrices work = work_prices(machine, whole.mesh.ranks());
    std::vector<Graph> graphs;
    std::vector<Schedule> schedules;
    for (const i64 rank : ranks) {
        graphs.push_back(rank == 0 ? first.program.graph : rank_graph(*first.program.sharded, rank, work));
        schedules.push_back(build_schedule(graphs.back(), {}));
    }
    if (whole.mesh.ranks() == static_cast<i64>(ranks.size())) {
        std::vector<StageProgram> all;
        for (std::size_t i = 0; i < graphs.size(); ++i)
            all.push_back({&graphs[i], &schedules[i]});
        if (const auto fault = find_fault(all, true))
            throw std::logic_error("the ranks cannot run together: " + fault->problem);
    }
    const GraphProgram last = compile_graph(text, "input.graph", machine, ranks.back());
    report(last);
    print_and_parse(last.program.graph, Level::local);
    if (whole.mesh.size(pipeline_axis) == 1 && text.size() % 4 == 0) // slow: seldom
        for (const Advice& advice : advise(whole, decided_graph(sharded_graph(whole)), 0.1, 4))
            require(advice.saved >= 0 && (advice.annotation.empty() || advice.saved > 0),
                    "an annotation that saves nothing is proposed");
}

} // namespace trivium
