#include "passes/local.hpp"

#include "passes/collectives/join.hpp"
#include "passes/fuse.hpp"
#include "passes/group.hpp"
#include "passes/memory/offload.hpp"
#include "passes/sharding/ring.hpp"
#include "passes/simplify.hpp"

namespace trivium {

Graph part_of_stage(const Graph& own, const PartitionConfig& config, const std::string& suffix,
                    PassRunner& runner)
{
    Graph graph = runner.derive("partition" + suffix, Level::local, own,
                                [&](const Graph& all) { return partition(all, config); });
    graph = runner.run("simplify-local" + suffix, Level::local, std::move(graph), without_idle_ops);
    return runner.run("join-reductions" + suffix, Level::local, std::move(graph), join_reductions);
}

Graph part_of_rank(const Graph& sharded, const PartitionConfig& config, StageGraphs* stages,
                   const std::string& suffix, PassRunner& runner)
{
    if (sharded.mesh.size(config.stage_axis) == 1)
        return part_of_stage(sharded, config, suffix, runner);
    const i64 rank = config.at[static_cast<std::size_t>(sharded.mesh.find(config.stage_axis))];
    const Graph own = runner.derive("stage" + suffix, Level::sharded, sharded,
                                    [&](const Graph&) { return stages->of(static_cast<int>(rank)); });
    return part_of_stage(own, config, suffix, runner);
}

Graph finish_local(Graph graph, const FinishConfig& config, const std::string& suffix, PassRunner& runner)
{
    const auto pass = [&](const char* name, const std::function<Graph(Graph)>& made) {
        graph = runner.run(name + suffix, Level::local, std::move(graph), made);
    };
    if (config.ring)
        pass("ring", ring);
    else if (!config.parts.empty())
        pass("overlap-gathers", [&](Graph g) { return overlap_gathers(std::move(g), config.parts); });
    pass("bucket", [&](Graph g) { return bucket(std::move(g), config.buckets); });
    if (config.overlap) {
        pass("fill-waits", [&](Graph g) { return fill_waits(std::move(g), config.overlap); });
        pass("overlap-halos", [&](Graph g) { return overlap_halos(std::move(g), config.overlap); });
    }
    if (config.group)
        pass("group", group_products);
    pass("fuse", fuse);
    if (config.offload)
        pass("offload", offload_optimizer);
    return graph;
}

} // namespace trivium
