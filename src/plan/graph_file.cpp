#include "plan/graph_file.hpp"

#include "base/check.hpp"
#include "ir/general/manual.hpp"
#include "ir/text/text.hpp"
#include "ir/verify.hpp"
#include "passes/local.hpp"
#include "passes/pipeline/balance_stages.hpp"
#include "passes/sharding/lookahead.hpp"
#include "passes/sharding/moves.hpp"
#include "passes/sharding/propagate.hpp"
#include "plan/check_steps.hpp"
#include "plan/cost.hpp"

#include <algorithm>
#include <optional>

namespace trivium {

namespace {

/// Along the axis of pipeline stages ranks run different ops, so no value may be sharded over it.
void require_no_stage_axis(const Graph& graph)
{
    if (graph.mesh.size(pipeline_axis) == 1)
        return;
    const auto refuse = [&](const std::string& place, const char* how) {
        throw UserError({place, str("is ", how, " over '", pipeline_axis, "'"),
                         "the ranks of that axis are the stages of a pipeline, which run different ops",
                         "use another axis, or rename this one in the line `mesh` if it has no stages"});
    };
    const auto names_it = [&](const std::vector<DimSharding>& dims) {
        return std::ranges::any_of(dims, [&](const DimSharding& dim) {
            return std::ranges::any_of(
                dim.axes, [&](const auto& axis) { return graph.mesh.overlap(axis, pipeline_axis); });
        });
    };
    for (const Value& v : graph.values) {
        const std::string place = source_place(graph, v.line) + "%" + v.name;
        if (names_it(v.sharding->dims))
            refuse(place, "sharded");
        for (const Partial& p : v.sharding->partial)
            if (graph.mesh.overlap(p.axis, pipeline_axis))
                refuse(place, "partial");
    }
    for (const Op& op : graph.ops)
        if (info(op).manual && names_it(manual_sharding(graph, op).dims))
            refuse(place_of(graph, op), "manual");
}

} // namespace

void require_rank(i64 rank, i64 ranks)
{
    if (rank < 0 || rank >= ranks)
        throw UserError({"--rank", str("there is no rank ", rank), str("the grid has ", ranks),
                         str("choose a rank from 0 to ", ranks - 1)});
}

Graph read_graph(std::string_view text, const std::string& file)
{
    Graph graph = parse_graph(text, file);
    const bool local = !graph.at.empty();
    verify(graph, local ? Level::local : Level::global);
    if (!local)
        require_no_stage_axis(graph);
    // Others are what the partitioner makes.
    const auto message = std::ranges::find_if(
        graph.ops, [](const Op& op) { return info(op).communicates && !info(op).localize; });
    if (message != graph.ops.end() && !local)
        throw UserError({place_of(graph, *message),
                         "communicates, but the graph is not that of a single rank",
                         "the graph has no line `at`",
                         "use the graph of all ranks, or the output of a later pass (explain --dump)"});
    return graph;
}

Graph sharded_graph(Graph graph, PassRunner* runner)
{
    if (graph.mesh.ranks() == 1)
        return graph;
    PassRunner alone;
    return (runner ? *runner : alone).run("propagate", Level::sharded, std::move(graph), propagate);
}

namespace {

PartitionConfig partition_config(const Graph& sharded, Coordinates at, const WorkPrices& work)
{
    return {std::move(at), pipeline_axis, sharded.carries.empty(), {}, work};
}

/// The stages of a pipeline send each other values in the order of the text, which may make them wait for
/// each other forever.
void require_runnable(const Graph& decided, const WorkPrices& work)
{
    const std::vector<i64> stages =
        decided.mesh.group(decided.mesh.coordinates(0), {std::string(pipeline_axis)});
    std::vector<Graph> graphs;
    std::vector<Schedule> schedules;
    for (const i64 stage : stages) {
        graphs.push_back(rank_graph(decided, stage, work));
        schedules.push_back(build_schedule(graphs.back(), {}));
    }
    std::vector<StageProgram> all;
    for (std::size_t i = 0; i < graphs.size(); ++i)
        all.push_back({&graphs[i], &schedules[i]});
    const std::optional<StepFault> fault = find_fault(all, true);
    if (!fault)
        return;
    throw UserError(
        {source_place(decided, decided.mesh_line) + "mesh axis " + pipeline_axis,
         "the stages of the pipeline cannot run together", fault->problem,
         "compute values that another stage reads in the order in which it reads them, and let "
         "values go to later stages in the forward phase and to earlier ones in the backward phase"});
}

} // namespace

Graph decided_graph(const Graph& sharded, const WorkPrices& work, PassRunner* runner)
{
    if (sharded.mesh.ranks() == 1)
        return sharded;
    PassRunner alone;
    Graph decided =
        (runner ? *runner : alone).derive("look-ahead", Level::sharded, sharded, [&](const Graph& g) {
            return look_ahead(g, partition_config(g, {}, work));
        });
    if (decided.mesh.size(pipeline_axis) > 1)
        require_runnable(decided, work);
    return decided;
}

Graph local_graph(const Graph& sharded, i64 rank, const WorkPrices& work)
{
    return rank_graph(decided_graph(sharded, work), rank, work);
}

Graph rank_graph(const Graph& decided, i64 rank, const WorkPrices& work, PassRunner* given)
{
    PassRunner alone;
    PassRunner& runner = given ? *given : alone;
    const Mesh& mesh = decided.mesh;
    if (mesh.ranks() == 1)
        return finish_local(decided, {}, "", runner);
    StageConfig stages;
    for (i64 stage = 0; stage < mesh.size(pipeline_axis); ++stage)
        stages.rank_of_stage.push_back(static_cast<int>(stage));
    std::optional<StageGraphs> staged;
    if (stages.rank_of_stage.size() > 1) {
        stages.stage_of_block = balance_stages(decided, stages.rank_of_stage);
        staged.emplace(decided, std::move(stages));
    }
    Graph graph = part_of_rank(decided, partition_config(decided, mesh.coordinates(rank), work),
                               staged ? &*staged : nullptr, "", runner);
    return finish_local(std::move(graph), {}, "", runner);
}

GraphProgram compile_graph(std::string_view text, const std::string& file, const Machine& machine, i64 rank,
                           const RunnerConfig& config)
{
    GraphProgram made;
    PassRunner runner(config);
    Graph graph = read_graph(text, file);
    if (graph.at.empty()) {
        require_rank(rank, graph.mesh.ranks());
        const WorkPrices work = work_prices(machine, graph.mesh.ranks());
        const Graph propagated = sharded_graph(std::move(graph), &runner);
        Graph decided = decided_graph(propagated, work, &runner);
        for (std::size_t i = 0; i < propagated.values.size(); ++i)
            if (dim_axes(propagated.values[i].sharding) != dim_axes(decided.values[i].sharding))
                made.propagated[ValueId(i)] = propagated.values[i].sharding;
        made.program.graph = rank_graph(decided, rank, work, &runner);
        graph = std::move(decided);
    } else {
        made.program.graph = graph;
    }
    made.program.sharded = std::make_shared<const Graph>(std::move(graph));
    made.memory = lay_out({&made.program, 1}, {machine.scratch}).device;
    made.passes = runner.records();
    return made;
}

} // namespace trivium
