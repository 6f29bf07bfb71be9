#include "check/run.hpp"

#include "base/activity.hpp"
#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "check/parts.hpp"
#include "mpi/records.hpp"

namespace trivium {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankFacts, node, processor, build, libraries, cores, threads, memory)

std::vector<int> CheckReport::ranks_on(int node) const
{
    std::vector<int> ranks;
    for (int rank = 0; rank < static_cast<int>(node_of_rank.size()); ++rank)
        if (node_of(rank) == node)
            ranks.push_back(rank);
    return ranks;
}

int CheckReport::count(Severity severity) const
{
    return static_cast<int>(std::count_if(findings.begin(), findings.end(),
                                          [&](const Finding& f) { return f.severity == severity; }));
}

int CheckReport::status() const
{
    return count(Severity::fault) > 0 || (strict && !findings.empty()) ? 1 : 0;
}

CheckReport run_check(Comm& world, const CheckConfig& config, const RankFacts& facts)
{
    const Seconds begin = now();
    const Grid grid(world, {{{data_axis, world.size()}}}, facts.node);
    const CheckGround ground{world, grid, config, facts};
    CheckReport report;
    report.strict = config.strict;
    report.node_of_rank = grid.node_of_rank();
    report.facts = gather_records_to_first(world, facts);
    report.nodes.resize(static_cast<std::size_t>(grid.nodes()));
    for (std::size_t rank = 0; rank < report.facts.size(); ++rank)
        report.nodes[static_cast<std::size_t>(report.node_of_rank[rank])] = report.facts[rank].node;
    constexpr std::array runs{check_environment, check_folder, check_arithmetic, check_composition,
                              check_rates}; // by CheckPart
    for (std::size_t i = 0; i < runs.size(); ++i) {
        const auto part = static_cast<CheckPart>(i);
        if (!config.has(part))
            continue;
        if (ground.first())
            log_progress(std::string(name_of(part)));
        Activity::of_process().enter(str("part '", name_of(part), "' of the check"));
        const std::size_t done = report.parts.size();
        runs[i](ground, report);
        for (std::size_t line = done; line < report.parts.size(); ++line)
            log_info(report.parts[line]);
    }
    report.seconds = now() - begin;
    return report;
}

} // namespace trivium
