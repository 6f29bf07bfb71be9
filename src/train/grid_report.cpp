#include "train/grid_report.hpp"

#include "base/counted.hpp"
#include "compile/describe.hpp"
#include "mpi/records.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <functional>

namespace trivium {

namespace {

/// One rank's data for the report.
struct RankSizes {
    i64 stage = 0, parameters = 0;
    Bytes arena = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankSizes, stage, parameters, arena)

std::string range(i64 least, i64 most, const std::function<std::string(i64)>& print)
{
    return least == most ? print(most) : print(least) + " to " + print(most);
}

} // namespace

std::vector<std::string> grid_report(const Grid& grid, const RunConfig& config, const Compiled& compiled)
{
    const Graph& g = compiled.programs[train_program].graph;
    i64 parameters = 0;
    for (const ValueId id : g.with_role(Role::parameter))
        parameters += g[id].type.elements();
    const i64 stage = g.at[static_cast<std::size_t>(g.mesh.find(pipeline_axis))];
    const std::vector<RankSizes> facts =
        gather_records_to_first(grid.world(), RankSizes{stage, parameters, compiled.memory.arena});
    if (grid.world().rank() != 0)
        return {};
    std::string crossing;
    for (const MeshAxis& axis : grid.mesh().axes)
        if (grid.crosses_nodes(axis.name))
            crossing += (crossing.empty() ? "" : ", ") + axis.name;
    std::vector<std::string> lines{fmt::format("grid     {} on {}: {}", counted(facts.size(), "rank"),
                                               counted(grid.nodes(), "node"),
                                               describe_grid(config.parallel))};
    if (const std::string chosen = describe_choices(compiled.parallel); !chosen.empty())
        lines.push_back("         " + chosen);
    if (grid.nodes() > 1)
        lines.push_back("         across nodes: " + (crossing.empty() ? "no axis" : crossing));
    for (i64 s = 0; facts.size() > 1 && s < g.mesh.size(pipeline_axis); ++s) {
        std::vector<RankSizes> mine;
        std::copy_if(facts.begin(), facts.end(), std::back_inserter(mine),
                     [&](const RankSizes& f) { return f.stage == s; });
        const auto [fewest, most] =
            std::minmax_element(mine.begin(), mine.end(),
                                [](const auto& a, const auto& b) { return a.parameters < b.parameters; });
        const auto [small, large] = std::minmax_element(
            mine.begin(), mine.end(), [](const auto& a, const auto& b) { return a.arena < b.arena; });
        lines.push_back(fmt::format(
            "{} {:<30} {} parameters and an arena of {} per rank",
            g.mesh.size(pipeline_axis) > 1 ? fmt::format("stage {:<2}", s) : "        ",
            g.mesh.size(pipeline_axis) > 1 ? blocks_of_rank(compiled.rank_of_block, s) : "all layers",
            range(fewest->parameters, most->parameters,
                  [](i64 n) { return format_si(static_cast<double>(n)); }),
            range(small->arena, large->arena,
                  [](i64 n) { return fmt::format("{} ({} bytes)", format_bytes(n), n); })));
    }
    return lines;
}

} // namespace trivium
