#include "lifecycle/hang.hpp"

#include "base/check.hpp"
#include "mpi/patient_wait.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace trivium {

namespace {

constexpr std::size_t most_lines = 20;

std::string print_ranks_of(const std::vector<int>& ranks, const std::vector<RankNews>& news)
{
    std::vector<std::string> nodes;
    for (const int rank : ranks)
        if (const std::string& node = news[static_cast<std::size_t>(rank)].node;
            std::find(nodes.begin(), nodes.end(), node) == nodes.end())
            nodes.push_back(node);
    return str(print_ranks(ranks), " (", nodes.size() == 1 ? nodes.front() : str(nodes.size(), " nodes"),
               ")");
}

std::string activity_of(const RankNews& n) { return n.phase + (n.piece.empty() ? "" : ", " + n.piece); }

std::string what_it_does(const RankNews& n, Seconds limit)
{
    if (!n.heard)
        return "never heard";
    if (n.silent > limit)
        return "no sign of life; last in " + activity_of(n) +
               (n.waits.empty() ? "" : ", where it waited for " + n.waits);
    return n.waits.empty() ? "at work in " + activity_of(n)
                           : "waits for " + n.waits + " in " + activity_of(n);
}

std::string line_of(const std::string& ranks, const std::string& what, Seconds time)
{
    return fmt::format("{}: {}, for {:.0f} s", ranks, what, time);
}

/// Ranks that say the same share a line.
std::vector<std::string> describe(const std::vector<RankNews>& news, Seconds limit)
{
    std::map<std::string, std::vector<int>> groups;
    for (std::size_t rank = 0; rank < news.size(); ++rank) {
        const RankNews& n = news[rank];
        if (n.left)
            continue;
        const std::string what = what_it_does(n, limit);
        groups[what].push_back(static_cast<int>(rank));
    }
    std::vector<std::pair<int, std::string>> lines;
    for (const auto& [what, ranks] : groups) {
        Seconds silent = 1e30, stalled = 1e30;
        for (const int rank : ranks) {
            silent = std::min(silent, news[static_cast<std::size_t>(rank)].silent);
            stalled = std::min(stalled, news[static_cast<std::size_t>(rank)].stalled);
        }
        lines.emplace_back(silent > limit ? -1 : ranks.front(),
                           line_of(print_ranks_of(ranks, news), what, silent > limit ? silent : stalled));
    }
    std::stable_sort(lines.begin(), lines.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < lines.size(); ++i) {
        if (texts.size() == most_lines) {
            texts.push_back(str("… and ", lines.size() - i, " more"));
            break;
        }
        texts.push_back(lines[i].second);
    }
    return texts;
}

} // namespace

std::string describe_rank(int rank, const RankNews& n, Seconds limit)
{
    return line_of(str(print_ranks({rank}), " (", n.node, ")"), what_it_does(n, limit), n.stalled);
}

Diagnosis diagnose(const std::vector<RankNews>& news, Seconds limit, double much_longer)
{
    std::vector<int> silent, working, missed;
    Seconds shortest = 1e30; // without progress, of those that are heard
    for (std::size_t rank = 0; rank < news.size(); ++rank) {
        const RankNews& n = news[rank];
        if (n.left)
            continue;
        const bool is_heard = n.silent <= limit;
        if (!is_heard)
            missed.push_back(static_cast<int>(rank));
        if (!is_heard && n.heard)
            silent.push_back(static_cast<int>(rank));
        if (is_heard ? n.waits.empty() : !n.heard)
            working.push_back(static_cast<int>(rank));
        if (is_heard)
            shortest = std::min(shortest, n.stalled);
    }
    const bool known = shortest < 1e30, moves = known && shortest <= limit;
    Diagnosis d;
    if (known && shortest <= limit / 2 && !missed.empty()) { // the others stall soon after one that stopped
        d.health = Health::deaf;
        d.cause = str("the run gets on, but nothing is heard of ", print_ranks_of(missed, news),
                      ", so a hang there would not be told; UDP must pass between the nodes");
    } else if (!moves && !silent.empty()) {
        d.health = Health::hung;
        d.cause = str("no sign of life from ", print_ranks_of(silent, news));
    } else if (!moves && known) {
        d.health = working.empty() || shortest > much_longer * limit ? Health::hung : Health::slow;
        d.cause = working.empty()
                      ? "all ranks wait, and nothing moves"
                      : str(print_ranks_of(working, news), working.size() == 1 ? " works" : " work",
                            " at one thing, and all others wait");
    }
    if (d.health != Health::fine)
        d.ranks = describe(news, limit);
    return d;
}

} // namespace trivium
