#include "lifecycle/hang.hpp"

#include "base/check.hpp"
#include "mpi/patient_wait.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace trivium {

namespace {

constexpr std::size_t max_lines = 20;

std::string print_ranks_of(const std::vector<int>& ranks, const std::vector<RankReport>& reports)
{
    std::vector<std::string> nodes;
    for (const int rank : ranks)
        if (const std::string& node = reports[static_cast<std::size_t>(rank)].node;
            std::ranges::find(nodes, node) == nodes.end())
            nodes.push_back(node);
    return str(print_ranks(ranks), " (", nodes.size() == 1 ? nodes.front() : str(nodes.size(), " nodes"),
               ")");
}

std::string activity_of(const RankReport& n) { return n.phase + (n.piece.empty() ? "" : ", " + n.piece); }

std::string state_of(const RankReport& n, Seconds limit)
{
    if (!n.heard)
        return "no heartbeat so far";
    if (n.silent > limit)
        return "no heartbeat; last in " + activity_of(n) +
               (n.waits.empty() ? "" : ", where it waited for " + n.waits);
    return (!n.waits.empty()  ? "waits for " + n.waits
            : !n.call.empty() ? "does not return from " + n.call
                              : "computes") +
           " in " + activity_of(n);
}

std::string line_of(const std::string& ranks, const std::string& what, Seconds time)
{
    return fmt::format("{}: {}, for {:.0f} s", ranks, what, time);
}

/// Ranks in the same state share a line.
std::vector<std::string> describe(const std::vector<RankReport>& reports, Seconds limit)
{
    std::map<std::string, std::vector<int>> groups;
    for (std::size_t rank = 0; rank < reports.size(); ++rank)
        if (!reports[rank].left)
            groups[state_of(reports[rank], limit)].push_back(static_cast<int>(rank));
    std::vector<std::pair<int, std::string>> lines;
    for (const auto& [what, ranks] : groups) {
        Seconds silent = 1e30, stalled = 1e30;
        for (const int rank : ranks) {
            silent = std::min(silent, reports[static_cast<std::size_t>(rank)].silent);
            stalled = std::min(stalled, reports[static_cast<std::size_t>(rank)].stalled);
        }
        lines.emplace_back(silent > limit ? -1 : ranks.front(),
                           line_of(print_ranks_of(ranks, reports), what, silent > limit ? silent : stalled));
    }
    std::ranges::stable_sort(lines, [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < std::min(lines.size(), max_lines); ++i)
        texts.push_back(lines[i].second);
    if (lines.size() > max_lines)
        texts.push_back(str("… and ", lines.size() - max_lines, " more"));
    return texts;
}

} // namespace

std::string describe_rank(int rank, const RankReport& n, Seconds limit)
{
    return line_of(str(print_ranks({rank}), " (", n.node, ")"), state_of(n, limit), n.stalled);
}

Diagnosis diagnose(const std::vector<RankReport>& reports, Seconds limit, double much_longer)
{
    std::vector<int> silent, working, caught, missed;
    Seconds shortest = 1e30; // without progress, among ranks with heartbeats
    for (std::size_t rank = 0; rank < reports.size(); ++rank) {
        const RankReport& n = reports[rank];
        if (n.left)
            continue;
        const bool is_heard = n.silent <= limit;
        if (!is_heard)
            missed.push_back(static_cast<int>(rank));
        if (!is_heard && n.heard)
            silent.push_back(static_cast<int>(rank));
        if (is_heard ? n.waits.empty() && n.call.empty() : !n.heard)
            working.push_back(static_cast<int>(rank));
        if (is_heard && n.waits.empty() && !n.call.empty())
            caught.push_back(static_cast<int>(rank));
        if (is_heard)
            shortest = std::min(shortest, n.stalled);
    }
    const bool known = shortest < 1e30, moves = known && shortest <= limit;
    Diagnosis d;
    if (known && shortest <= limit / 2 && !missed.empty()) { // the others stall soon after a rank hangs
        d.health = Health::heartbeats_lost;
        d.cause = str("the run continues, but no heartbeat arrives from ", print_ranks_of(missed, reports),
                      ": a hang there would not be detected; allow UDP between the nodes");
    } else if (!moves && !silent.empty()) {
        d.health = Health::hung;
        d.cause = str("no heartbeat from ", print_ranks_of(silent, reports));
    } else if (!moves && known) {
        d.health = working.empty() || shortest > much_longer * limit ? Health::hung : Health::slow;
        d.cause = !caught.empty()
                      ? str(print_ranks_of(caught, reports), caught.size() == 1 ? " does" : " do",
                            " not return from ", reports[static_cast<std::size_t>(caught.front())].call,
                            ", and no data moves")
                  : working.empty()
                      ? "all ranks wait, and no data moves"
                      : str(print_ranks_of(working, reports), working.size() == 1 ? " computes" : " compute",
                            " in one operation, and all other ranks wait");
    }
    if (d.health != Health::fine)
        d.ranks = describe(reports, limit);
    return d;
}

} // namespace trivium
