#include "check/slow.hpp"

#include "base/check.hpp"
#include "base/median.hpp"
#include "check/environment.hpp"

#include <fmt/format.h>
#include <map>
#include <set>

namespace trivium {

namespace {

constexpr double least_share = 0.8;    ///< of its cores' time: minimum for a reliable measurement
constexpr double full_share = 0.9;     ///< if most others have this, a rank with less is starved on its node
constexpr double high_latency = 4;     ///< times the median
constexpr Seconds low_latency = 20e-6; ///< below this, latency is never high

const std::string rank_remedy = "exclude the node, or have its clocks, cooling and memory checked; see "
                                "what else runs there (top), and how ranks are bound";
const std::string link_remedy = "exclude the node, or have its network card, cable and switch port "
                                "checked; make sure that MPI uses the fast network";

/// A share that is below a limit, with as many digits as show that it is.
std::string percent_below(double share, double limit)
{
    std::string text;
    for (int digits = 0; digits <= 6; ++digits) {
        text = fmt::format("{:.{}f}", 100 * share, digits);
        if (std::stod(text) < 100 * limit)
            break;
    }
    return text + " %";
}

struct Judge {
    CheckReport& report;

    /// Why the measurements of these ranks are not reliable; "" if they are. `share`: the smallest fraction
    /// of CPU time that one of them got.
    std::string why_uncertain(const std::vector<int>& ranks, double share) const
    {
        const std::vector<int> crowded = crowded_nodes(report);
        for (const int rank : ranks)
            if (std::find(crowded.begin(), crowded.end(), report.node_of(rank)) != crowded.end())
                return "not reliable: ranks share cores";
        return share < least_share ? fmt::format("not reliable: a rank got only {} of its cores' time",
                                                 percent_below(share, least_share))
                                   : "";
    }
    /// `share`: fraction of the cores' time that the ranks got during the measurement.
    void add(const std::vector<int>& ranks, double share, const std::string& problem,
             const std::string& expected, const std::string& seen, const std::string& remedy) const
    {
        const std::string unless = why_uncertain(ranks, share);
        report.findings.push_back({CheckPart::rates, unless.empty() ? Severity::fault : Severity::warning,
                                   ranks, problem, expected, seen + (unless.empty() ? "" : "; " + unless),
                                   remedy});
    }
};

std::string print_rate(double rate, const char* unit) { return fmt::format("{:.3g} G{}", rate / 1e9, unit); }

/// Evaluates one measurement of ranks with the same processor.
void judge_ranks(const Judge& judge, const std::vector<int>& ranks, double RankRates::*member,
                 const char* what, const char* unit, double slow)
{
    std::vector<double> all;
    for (const int rank : ranks)
        all.push_back(judge.report.rates[static_cast<std::size_t>(rank)].*member);
    const double middle = median(all);
    std::map<int, std::vector<int>> by_node, slow_by_node;
    std::map<int, double> least;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
        const int node = judge.report.node_of(ranks[i]);
        by_node[node].push_back(ranks[i]);
        if (all[i] < slow * middle) {
            slow_by_node[node].push_back(ranks[i]);
            least[node] = least.contains(node) ? std::min(least[node], all[i]) : all[i];
        }
    }
    for (const auto& [node, which] : slow_by_node) {
        double share = 1;
        for (const int rank : which)
            share = std::min(share, judge.report.rates[static_cast<std::size_t>(rank)].cpu_share);
        judge.add(
            which, share,
            str("slow ", what,
                which.size() > 1 && which.size() == by_node[node].size() ? " on the whole node" : ""),
            fmt::format("at least {:.4g} % of {}, the median rank", 100 * slow, print_rate(middle, unit)),
            fmt::format("{}, {}", print_rate(least[node], unit), percent_below(least[node] / middle, slow)),
            rank_remedy);
    }
}

// The ends of a LinkRate are ranks or, of links between nodes, nodes.

/// The typical link.
struct Standard {
    std::string where; ///< "within the node"
    double slow = 0.5;
    double rate = 0;
    Seconds latency = 0;

    void set(const std::vector<LinkRate>& of)
    {
        std::vector<double> rates, latencies;
        for (const LinkRate& link : of) {
            rates.push_back(link.bytes_per_second);
            latencies.push_back(-link.latency);
        }
        rate = median(rates);
        latency = -median(latencies);
    }
    bool is_slow(const LinkRate& l) const { return l.bytes_per_second < slow * rate; }
    bool is_late(const LinkRate& l) const
    {
        return l.latency > high_latency * latency && l.latency > low_latency;
    }
    bool is_bad(const LinkRate& l) const { return is_slow(l) || is_late(l); }
};

void report_bad(const Judge& judge, const Standard& usual, const std::vector<int>& ranks,
                const std::string& what, const LinkRate& seen)
{
    const bool slow = usual.is_slow(seen);
    judge.add(ranks, seen.cpu_share, str(slow ? "slow" : "high-latency", " ", what, " ", usual.where),
              slow ? fmt::format("at least {:.4g} % of {:.3g} GB/s, the median link", 100 * usual.slow,
                                 usual.rate / 1e9)
                   : fmt::format("a latency of at most {} times {:.3g} us, the median link", high_latency,
                                 1e6 * usual.latency),
              slow ? fmt::format("{:.3g} GB/s, {}", seen.bytes_per_second / 1e9,
                                 percent_below(seen.bytes_per_second / usual.rate, usual.slow))
                   : fmt::format("{:.3g} us", 1e6 * seen.latency),
              link_remedy);
}

const LinkRate& worst_of(const std::vector<LinkRate>& all)
{
    return *std::ranges::min_element(
        all, {}, [](const LinkRate& link) { return link.bytes_per_second / link.latency; });
}

/// Reports paths between two nodes, measured at the same time, that are far below the others. The paths share
/// the nodes' bandwidth, not always evenly, so the limit is low. One finding for the worst.
void judge_paths(const Judge& judge, const std::vector<std::vector<LinkRate>>& by_nodes, double slow_link)
{
    std::vector<LinkRate> bad;
    Standard usual_of_worst;
    for (const std::vector<LinkRate>& paths : by_nodes) {
        Standard usual{"to another node, compared with parallel paths", slow_link / 2};
        usual.set(paths);
        for (const LinkRate& path : paths)
            if (usual.is_bad(path)) {
                bad.push_back(path);
                if (worst_of(bad).a == path.a && worst_of(bad).b == path.b)
                    usual_of_worst = usual;
            }
    }
    if (bad.empty())
        return;
    const LinkRate& worst = worst_of(bad);
    report_bad(judge, usual_of_worst, {worst.a, worst.b},
               str("path between them", bad.size() > 1 ? str(" (the worst of ", bad.size(), " such)") : ""),
               worst);
}

/// An end whose best link is bad is bad itself; otherwise the link is. `ranks_of`: ranks of an end.
void judge_links(const Judge& judge, const std::vector<LinkRate>& links, Standard usual,
                 const std::function<std::vector<int>(int)>& ranks_of)
{
    if (links.size() < 2)
        return;
    std::map<int, LinkRate> best;
    for (const LinkRate& link : links)
        for (const int end : {link.a, link.b})
            keep_best(best.try_emplace(end, link).first->second, link);
    std::vector<LinkRate> bests;
    for (const auto& [end, b] : best)
        bests.push_back(b);
    usual.set(bests);
    std::set<int> named;
    for (const auto& [end, b] : best)
        if (usual.is_bad(b)) {
            named.insert(end);
            report_bad(judge, usual, ranks_of(end), "links", b);
        }
    std::vector<LinkRate> others;
    std::copy_if(links.begin(), links.end(), std::back_inserter(others),
                 [&](const LinkRate& link) { return !named.contains(link.a) && !named.contains(link.b); });
    if (others.empty())
        return;
    usual.set(others); // some ends may be closer to each other than others
    // One finding for the worst of all single links: on a busy network there may be many.
    std::vector<LinkRate> bad;
    std::copy_if(others.begin(), others.end(), std::back_inserter(bad),
                 [&](const LinkRate& link) { return usual.is_bad(link); });
    if (bad.empty())
        return;
    const LinkRate& worst = worst_of(bad);
    std::vector<int> both = ranks_of(worst.a);
    for (const int rank : ranks_of(worst.b))
        both.push_back(rank);
    report_bad(judge, usual, both,
               str("link between them", bad.size() > 1 ? str(" (the worst of ", bad.size(), " such)") : ""),
               worst);
}

} // namespace

void judge_shares(CheckReport& report)
{
    const std::vector<int> crowded = crowded_nodes(report); // already reported
    for (int node = 0; node < static_cast<int>(report.nodes.size()); ++node) {
        std::vector<int> ranks;
        std::vector<double> others;
        double least = 1;
        for (std::size_t rank = 0; rank < report.rates.size(); ++rank) {
            const double share = report.rates[rank].cpu_share;
            if (report.node_of_rank[rank] != node || share >= least_share) {
                others.push_back(share);
                continue;
            }
            ranks.push_back(static_cast<int>(rank));
            least = std::min(least, share);
        }
        if (ranks.empty() || std::find(crowded.begin(), crowded.end(), node) != crowded.end())
            continue;
        const bool alone =
            !others.empty() && median(others) >= full_share; // otherwise the whole machine is busy
        report.findings.push_back(
            {CheckPart::rates, alone ? Severity::fault : Severity::warning, ranks,
             "cores used by other processes",
             fmt::format("at least {:.0f} % of the cores' time{}", 100 * least_share,
                         alone ? fmt::format("; most others have {:.0f} %", 100 * median(others)) : ""),
             percent_below(least, least_share),
             "see what runs there (top), and whether the job has a CPU limit (cpu.max of its cgroup); "
             "request whole nodes (--exclusive)"});
    }
}

void judge_rates(CheckReport& report, double slow_rank, double slow_link)
{
    TRV_EXPECT(report.rates.size() == report.facts.size(), "rates of ", report.rates.size(), " ranks");
    const Judge judge{report};
    std::vector<std::string> kinds;
    for (const RankFacts& facts : report.facts)
        kinds.push_back(str(facts.processor, facts.threads));
    for (const auto& [kind, ranks] : group_ranks(kinds)) {
        judge_ranks(judge, ranks, &RankRates::flops_f32, "products in f32", "FLOP/s", slow_rank);
        judge_ranks(judge, ranks, &RankRates::flops_bf16, "products in bf16", "FLOP/s", slow_rank);
        judge_ranks(judge, ranks, &RankRates::bytes_per_second, "memory", "B/s", slow_rank);
    }
    std::map<std::pair<int, int>, std::vector<LinkRate>> between_nodes;
    std::vector<LinkRate> within, between;
    for (const LinkRate& link : report.links) {
        const int a = report.node_of(link.a), b = report.node_of(link.b);
        (a == b ? within : between_nodes[{std::min(a, b), std::max(a, b)}]).push_back(link);
    }
    std::vector<std::vector<LinkRate>> paths;
    for (const auto& [nodes, pairs] :
         between_nodes) { // measured at the same time: they share the bandwidth of the nodes
        LinkRate link{nodes.first, nodes.second, 0, pairs.front().latency};
        for (const LinkRate& pair : pairs) {
            link.bytes_per_second += pair.bytes_per_second / static_cast<double>(pairs.size());
            link.latency = std::min(link.latency, pair.latency);
            link.cpu_share = std::min(link.cpu_share, pair.cpu_share);
        }
        between.push_back(link);
        paths.push_back(pairs);
    }
    judge_links(judge, within, {"within the node", slow_link},
                [](int rank) { return std::vector<int>{rank}; });
    judge_links(judge, between, {"to other nodes", slow_link},
                [&](int node) { return report.ranks_on(node); });
    judge_paths(judge, paths, slow_link);
}

Machine machine_measured(const CheckReport& report, Machine like)
{
    const auto middle = [&](const std::function<double(const RankRates&)>& rate, double otherwise) {
        std::vector<double> all;
        for (const RankRates& rank : report.rates)
            all.push_back(rate(rank));
        return all.empty() ? otherwise : median(all);
    };
    const double workers = static_cast<double>(like.workers(report.facts[0].threads));
    like.name = report.facts[0].processor;
    like.flops_f32 = middle([&](const RankRates& r) { return r.flops_f32 / workers; }, like.flops_f32);
    like.flops_bf16 = middle([&](const RankRates& r) { return r.flops_bf16 / workers; }, like.flops_bf16);
    like.bytes_per_second =
        middle([](const RankRates& r) { return r.bytes_per_second; }, like.bytes_per_second);
    const auto measured = [&](bool between, double& bytes_per_second, Seconds& latency) {
        std::vector<double> rates, latencies;
        for (const LinkRate& link : report.links)
            if ((report.node_of(link.a) != report.node_of(link.b)) == between) {
                rates.push_back(link.bytes_per_second);
                latencies.push_back(link.latency);
            }
        if (!rates.empty()) {
            bytes_per_second = median(rates);
            latency = median(latencies);
        }
        return !rates.empty();
    };
    const bool within = measured(false, like.link_bytes_per_second, like.link_latency);
    if (measured(true, like.node_link_bytes_per_second, like.node_link_latency) && !within &&
        !like.is_device) {
        like.link_bytes_per_second =
            like.node_link_bytes_per_second; // one rank per node: nothing else is known
        like.link_latency = like.node_link_latency;
    }
    if (report.nodes.size() > 1) { // a single node may not be full
        std::vector<i64> ranks(report.nodes.size(), 0);
        for (const int node : report.node_of_rank)
            ++ranks[static_cast<std::size_t>(node)];
        like.ranks_per_node = *std::max_element(ranks.begin(), ranks.end());
    }
    if (within && !like.is_device) // the ends of these links are cores, which copy
        like.copy_bytes_per_second = like.link_bytes_per_second;
    like.ops = lines_of(report.ops);
    if (report.stragglers > 0)
        like.stragglers = report.stragglers;
    like.ops_threads = report.facts[0].threads;
    Bytes memory = -1;
    for (const RankFacts& facts : report.facts)
        if (facts.memory > 0)
            memory = memory < 0 ? facts.memory : std::min(memory, facts.memory);
    if (memory > 0)
        like.memory = memory;
    return like;
}

} // namespace trivium
