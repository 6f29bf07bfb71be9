#include "passes/local.hpp"

#include "passes/collectives/join.hpp"
#include "passes/fuse.hpp"
#include "passes/group.hpp"
#include "passes/memory/offload.hpp"
#include "passes/sharding/ring.hpp"
#include "passes/simplify.hpp"

namespace trivium {

Graph part_of_rank(const Graph& sharded, const PartitionConfig& config, StageConfig stages,
                   const std::string& suffix, PassRunner& runner)
{
    const auto own = [&](const Graph& graph) {
        return runner.derive("partition" + suffix, Level::local, graph,
                             [&](const Graph& all) { return partition(all, config); });
    };
    Graph graph;
    if (sharded.mesh.size(config.stage_axis) > 1) {
        stages.rank =
            static_cast<int>(config.at[static_cast<std::size_t>(sharded.mesh.find(config.stage_axis))]);
        graph = own(runner.derive("stage" + suffix, Level::sharded, sharded,
                                  [&](const Graph& all) { return extract_stages(all, stages); }));
    } else {
        graph = own(sharded);
    }
    graph = runner.run("simplify-local" + suffix, Level::local, std::move(graph), without_idle_ops);
    return runner.run("join-reductions" + suffix, Level::local, std::move(graph), join_reductions);
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
