// The evaluation of measurements, on invented numbers.
#include "base/check.hpp"
#include "catch.hpp"
#include "check/arithmetic.hpp"
#include "check/composition.hpp"
#include "check/environment.hpp"
#include "check/rates.hpp"
#include "check/report.hpp"
#include "check/slow.hpp"

#include <cmath>
#include <limits>
#include <set>

using namespace trivium;

namespace {

/// `nodes` nodes of `each` equal ranks with their own cores; all links and all throughputs are equal.
CheckReport cluster(int nodes, int each)
{
    CheckReport report;
    for (int rank = 0; rank < nodes * each; ++rank) {
        report.facts.push_back({str("n", rank / each), "a processor", "a build", "libm.so.6 1\n",
                                std::to_string(rank % each), 1, 0});
        report.node_of_rank.push_back(rank / each);
        report.rates.push_back({100e9, 200e9, 10e9, 1});
    }
    for (int node = 0; node < nodes; ++node)
        report.nodes.push_back(str("n", node));
    for (const auto& round : link_rounds(report.node_of_rank, 100))
        for (const RankPair& pair : round)
            report.links.push_back({pair.a, pair.b,
                                    report.node_of_rank[static_cast<std::size_t>(pair.a)] ==
                                            report.node_of_rank[static_cast<std::size_t>(pair.b)]
                                        ? 8e9
                                        : 2e9,
                                    2e-6});
    return report;
}

struct Expected {
    std::vector<int> ranks;
    std::string words;
    Severity severity = Severity::fault;
};

void check_findings(const CheckReport& report, const std::vector<Expected>& expected)
{
    INFO(to_text(report));
    REQUIRE(report.findings.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
        CHECK(report.findings[i].ranks == expected[i].ranks);
        CHECK(report.findings[i].problem.find(expected[i].words) != std::string::npos);
        CHECK((report.findings[i].severity == expected[i].severity));
    }
}

void change_links(CheckReport& report, const std::function<bool(int a, int b)>& which, double rate_factor,
                  double latency_factor)
{
    for (LinkRate& link : report.links)
        if (which(link.a, link.b)) {
            link.bytes_per_second *= rate_factor;
            link.latency *= latency_factor;
        }
}

} // namespace

TEST_CASE("every two ranks of a node meet once, and every two nodes")
{
    for (const int each : {1, 2, 3, 4, 7})
        for (const int nodes : {1, 2, 3, 5}) {
            std::vector<int> node_of_rank;
            for (int rank = 0; rank < nodes * each; ++rank)
                node_of_rank.push_back(rank / each);
            std::set<std::pair<int, int>> within, between;
            for (const auto& round : link_rounds(node_of_rank, 100)) {
                std::set<int> busy;
                for (const RankPair& pair : round) {
                    CHECK(pair.a < pair.b);
                    CHECK(busy.insert(pair.a).second);
                    CHECK(busy.insert(pair.b).second);
                    const bool same = pair.a / each == pair.b / each;
                    CHECK((same ? within : between).insert({pair.a, pair.b}).second);
                    CHECK((same || pair.a % each == pair.b % each));
                }
            }
            CHECK(within.size() == static_cast<std::size_t>(nodes * each * (each - 1) / 2));
            CHECK(between.size() == static_cast<std::size_t>(each * nodes * (nodes - 1) / 2));
        }
    CHECK(link_rounds(std::vector<int>(64, 0), 16).size() == 16);
    // Nodes of different sizes: every rank with a counterpart meets it.
    const auto uneven = link_rounds({0, 0, 0, 1}, 100);
    REQUIRE(uneven.size() == 4);
    CHECK((uneven.back() == std::vector<RankPair>{{0, 3}}));
}

TEST_CASE("a uniform machine has no findings")
{
    for (const int nodes : {1, 2, 5})
        for (const int each : {1, 2, 4}) {
            CheckReport report = cluster(nodes, each);
            judge_shares(report);
            judge_rates(report, 0.75, 0.5);
            judge_environment(report);
            check_findings(report, {});
        }
}

TEST_CASE("slow ranks and nodes")
{
    CheckReport report = cluster(4, 2);
    report.rates[5].flops_f32 = 74e9;
    report.rates[2].bytes_per_second = report.rates[3].bytes_per_second = 5e9;
    report.rates[7].flops_bf16 = 151e9; // above the threshold
    judge_rates(report, 0.75, 0.5);
    check_findings(report, {{{5}, "slow products in f32"}, {{2, 3}, "slow memory on the whole node"}});
    CHECK(report.status() == 1);
    // Ranks that did not get their cores may be healthy.
    report.findings.clear();
    report.rates[5].cpu_share = 0.4;
    judge_rates(report, 0.75, 0.5);
    check_findings(report, {{{5}, "slow products", Severity::warning}, {{2, 3}, "slow memory"}});
    CHECK(report.findings[0].seen.find("only 40 % of its cores' time") != std::string::npos);
    report.findings.clear();
    judge_shares(report);
    check_findings(report, {{{5}, "cores used by other processes"}}); // the other ranks have their own
    report.findings.clear();
    for (RankRates& rates : report.rates)
        rates.cpu_share = std::min(rates.cpu_share, 0.85);
    judge_shares(report); // the whole machine is busy
    check_findings(report, {{{5}, "cores used by other processes", Severity::warning}});
    CHECK(verdict(report).find("some measurements are not reliable; 1 warning") != std::string::npos);
    // If ranks share cores, nothing is certain.
    report.findings.clear();
    for (RankFacts& facts : report.facts)
        facts.cores = "0";
    judge_shares(report);
    judge_rates(report, 0.75, 0.5);
    check_findings(report,
                   {{{5}, "slow products", Severity::warning}, {{2, 3}, "slow memory", Severity::warning}});
    CHECK(report.status() == 0);
    report.strict = true;
    CHECK(report.status() == 1);
    // Of two ranks, the faster one is the reference; processors of another kind are not.
    CheckReport two = cluster(1, 2);
    two.rates[0].flops_f32 = 70e9;
    judge_rates(two, 0.75, 0.5);
    check_findings(two, {{{0}, "slow products in f32"}});
    two.findings.clear();
    two.facts[0].processor = "another";
    judge_rates(two, 0.75, 0.5);
    check_findings(two, {});
}

TEST_CASE("exactly the limit is enough, and a value below it is printed as such")
{
    CheckReport report = cluster(4, 2);
    report.rates[5].flops_f32 = 75e9;
    judge_rates(report, 0.75, 0.5);
    check_findings(report, {});
    report.rates[5].flops_f32 = 74.96e9;
    judge_rates(report, 0.75, 0.5);
    REQUIRE(report.findings.size() == 1);
    CHECK(report.findings[0].expected.find("at least 75 % of") != std::string::npos);
    CHECK(report.findings[0].seen.find(", 74.96 %") != std::string::npos);
}

TEST_CASE("links with low bandwidth or high latency")
{
    CheckReport link = cluster(4, 2);
    change_links(
        link, [](int a, int b) { return a == 2 && b == 6; }, 0.3,
        1); // one of the two pairs of a pair of nodes
    judge_rates(link, 0.75, 0.5);
    check_findings(link, {}); // pairs share what two nodes have, not always evenly
    change_links(
        link, [](int a, int b) { return a == 3 && b == 7; }, 0.3, 1);
    judge_rates(link, 0.75, 0.5);
    check_findings(link, {{{2, 3, 6, 7}, "slow link between them to other nodes"}});
    // One path of those between two nodes is far below the others.
    for (const int nodes : {2, 4}) {
        CheckReport path = cluster(nodes, 4);
        change_links(
            path, [](int a, int b) { return a == 2 && b == 6; }, 0.2, 1);
        judge_rates(path, 0.75, 0.5);
        check_findings(path, {{{2, 6}, "slow path between them"}});
        path.findings.clear();
        for (LinkRate& l : path.links)
            if (l.a == 2 && l.b == 6)
                l.cpu_share = 0.5;
        judge_rates(path, 0.75, 0.5);
        check_findings(path, {{{2, 6}, "slow path between them", Severity::warning}});
    }
    // Problems elsewhere do not make the fault of a link doubtful.
    CheckReport elsewhere = cluster(4, 2);
    change_links(
        elsewhere, [](int a, int b) { return a / 2 == 1 && b / 2 == 3; }, 0.3, 1);
    elsewhere.rates[0].cpu_share = 0.3;
    elsewhere.facts[4].cores = elsewhere.facts[5].cores = "0";
    for (LinkRate& l : elsewhere.links)
        l.cpu_share = l.a == 0 ? 0.3 : 1;
    judge_rates(elsewhere, 0.75, 0.5);
    check_findings(elsewhere, {{{2, 3, 6, 7}, "slow link between them to other nodes"}});
    elsewhere.findings.clear();
    for (LinkRate& l : elsewhere.links)
        l.cpu_share = 0.3;
    judge_rates(elsewhere, 0.75, 0.5);
    check_findings(elsewhere, {{{2, 3, 6, 7}, "slow link between them to other nodes", Severity::warning}});
    CheckReport node = cluster(4, 2);
    change_links(
        node, [](int a, int b) { return a / 2 != b / 2 && (a / 2 == 1 || b / 2 == 1); }, 0.4, 1);
    judge_rates(node, 0.75, 0.5);
    check_findings(node, {{{2, 3}, "slow links to other nodes"}});
    CheckReport late = cluster(1, 4);
    change_links(
        late, [](int a, int b) { return a == 0 && b == 1; }, 1, 50);
    judge_rates(late, 0.75, 0.5);
    check_findings(late, {{{0, 1}, "high-latency link between them within the node"}});
    late.findings.clear();
    change_links(
        late, [](int a, int b) { return a == 0 && b == 1; }, 1, 0.1); // 10 us: never too high
    judge_rates(late, 0.75, 0.5);
    check_findings(late, {});
    // With three nodes, the two links of one node are most of all links.
    CheckReport three = cluster(3, 1);
    change_links(
        three, [](int a, int b) { return a == 1 || b == 1; }, 0.1, 1);
    judge_rates(three, 0.75, 0.5);
    check_findings(three, {{{1}, "slow links to other nodes"}});
    // Two sockets: ranks of one socket are closer to each other.
    CheckReport sockets = cluster(1, 8);
    change_links(
        sockets, [](int a, int b) { return a / 4 != b / 4; }, 0.4, 1.5);
    judge_rates(sockets, 0.75, 0.5);
    check_findings(sockets, {});
    // Many single links are one finding.
    CheckReport many = cluster(1, 6);
    change_links(
        many, [](int a, int b) { return b == a + 1 && a % 2 == 0; }, 0.2, 1);
    judge_rates(many, 0.75, 0.5);
    REQUIRE(many.findings.size() == 1);
    CHECK(many.findings[0].problem.find("the worst of 3") != std::string::npos);
}

TEST_CASE("the machine file has the values of the median rank, per thread")
{
    CheckReport report = cluster(2, 2);
    for (RankFacts& facts : report.facts)
        facts.threads = 4;
    report.rates[0].flops_f32 = 1;
    const Machine machine = machine_measured(report, Machine{});
    CHECK(machine.name == "a processor");
    CHECK(machine.flops_f32 == 25e9);
    CHECK(machine.flops_bf16 == 50e9);
    CHECK(machine.bytes_per_second == 10e9);
    CHECK(machine.link_bytes_per_second == 8e9); // within a node
    CHECK(machine.link_latency == 2e-6);
    CHECK(machine.node_link_bytes_per_second == 2e9); // between nodes
    CHECK(machine.node_link_latency == 2e-6);
    CHECK(machine.ranks_per_node == 2);
    CHECK(machine.memory == 0); // unknown
    CHECK(machine.flops_f64 == Machine{}.flops_f64);
    Machine device;
    device.is_device = true;
    CHECK(machine_measured(report, device).flops_f32 == 100e9);
    CHECK(machine_measured(cluster(1, 2), {}).link_bytes_per_second == 8e9);
    CHECK(machine_measured(cluster(1, 2), {}).node_link_bytes_per_second == 0); // as within a node
    CHECK(machine_measured(cluster(1, 2), {}).ranks_per_node == 0);
    CHECK(machine_measured(cluster(3, 1), {}).link_bytes_per_second == 2e9); // nothing else was measured
    CHECK(machine_measured(cluster(3, 1), {}).ranks_per_node == 1);
    for (std::size_t rank = 0; rank < report.facts.size(); ++rank)
        report.facts[rank].memory = Bytes{10} * static_cast<Bytes>(rank + 3);
    CHECK(machine_measured(report, {}).memory == 30); // the minimum
    CHECK(machine_measured(cluster(1, 1), {}).link_bytes_per_second == Machine{}.link_bytes_per_second);
}

TEST_CASE("what ranks wait for the slowest of them is in the machine file")
{
    // Two programs, of 1 and 3 seconds by their ops; two runs of each, twice, of which the second time is
    // disturbed.
    const OpRates steady{{}, 4, {{{1, 1}, {3, 3}}, {{1, 1}, {3, 3}}}},
        late{{}, 4, {{{1, 1.4}, {3.2, 3.4}}, {{2, 2}, {6, 6}}}};
    CHECK(stragglers_of({steady}) == 0);
    CHECK(stragglers_of({steady, steady}) == 0);
    CHECK(stragglers_of({{{}, 4, {}}, {{}, 4, {}}}) == 0); // more ranks than cores
    // The medians of the slower of two are 1.4 and 3.4 s.
    CHECK(stragglers_of({steady, late}) == Approx((4.8 / 4 - 1) / std::sqrt(2 * std::log(2))));
    CheckReport report = cluster(1, 2);
    Machine like;
    like.stragglers = 0.01;
    CHECK(machine_measured(report, like).stragglers == 0.01); // not measured
    report.stragglers = 0.02;
    CHECK(machine_measured(report, like).stragglers == 0.02);
}

TEST_CASE("the environment must be equal on all ranks")
{
    CheckReport report = cluster(3, 2);
    report.facts[4].build = report.facts[5].build = "an older build";
    report.facts[1].libraries = "libm.so.6 1\nlibmpi.so.40 2\n";
    report.facts[3].libraries = "libm.so.6 2\n";
    report.facts[0].processor = "a different processor";
    judge_environment(report);
    check_findings(report, {{{4, 5}, "a different build"},
                            {{1}, "different libraries"},
                            {{3}, "different libraries", Severity::warning},
                            {{0}, "a different processor", Severity::warning}});
    CHECK(report.findings[0].expected == "a build");
    CHECK(report.findings[0].seen == "an older build");
    CHECK(report.findings[1].seen == "libmpi.so.40 2 bytes");
    CheckReport shared = cluster(2, 2);
    shared.facts[2].cores = shared.facts[3].cores = "0,1,2";
    shared.facts[2].threads = shared.facts[3].threads = 2;
    for (RankFacts& facts : shared.facts)
        facts.threads = facts.node == "n0" ? 1 : 2;
    judge_environment(shared);
    REQUIRE(shared.findings.size() == 2); // also the threads
    CHECK(shared.findings[1].seen == "4 threads of 2 ranks on 3 cores");
    CHECK((shared.findings[1].severity == Severity::warning));
    CHECK(crowded_nodes(shared) == std::vector<int>{1});
    CheckReport late = cluster(2, 2);
    late.clocks = {0, 0.1, -7, -7.5};
    judge_clocks(late, 1);
    check_findings(late, {{{2, 3}, "clock"}});
    CHECK(late.findings[0].seen == "7.5 s behind");
}

TEST_CASE("votes on arithmetic")
{
    const auto words = [](const std::vector<std::string>& bits) {
        std::vector<std::vector<KernelRecord>> all;
        for (const std::string& b : bits)
            all.push_back({{"product", b, 0, 1e-5, true}});
        return all;
    };
    CheckReport most = cluster(1, 4);
    judge_arithmetic(most, words({"a", "a", "b", "a"}));
    check_findings(most, {{{2}, "product"}});
    CheckReport two = cluster(1, 2);
    judge_arithmetic(two, words({"a", "b"}));
    check_findings(two, {{{0}, "product"}, {{1}, "product"}});
    CHECK(two.findings[0].seen.find("which is right is unknown") != std::string::npos);
    // A result that is known to be wrong is not evidence against the other.
    CheckReport one = cluster(1, 2);
    auto wrong = words({"a", "b"});
    wrong[1][0].error = 0.1;
    judge_arithmetic(one, wrong);
    check_findings(one, {{{1}, "product"}});
    wrong[1][0].error = std::numeric_limits<double>::quiet_NaN();
    one.findings.clear();
    judge_arithmetic(one, wrong);
    check_findings(one, {{{1}, "product"}});
    CheckReport unlike = cluster(1, 2);
    unlike.facts[1].processor = "another";
    judge_arithmetic(unlike, words({"a", "b"}));
    check_findings(unlike, {});
    CheckReport unstable = cluster(1, 1);
    auto shaky = words({"a"});
    shaky[0][0].stable = false;
    judge_arithmetic(unstable, shaky);
    check_findings(unstable, {{{0}, "product"}});
}

TEST_CASE("ranks and verdicts as text")
{
    CheckReport report = cluster(2, 4);
    CHECK(describe_ranks(report, {3}) == "rank 3 (n0)");
    CHECK(describe_ranks(report, {1, 2, 5}) == "ranks 1, 2 (n0), rank 5 (n1)");
    CHECK(describe_ranks(report, {0, 1, 2, 3, 4, 5, 6, 7}) == "every rank");
    CHECK(verdict(report).find("check: passed; ") != std::string::npos);
    report.findings.push_back({CheckPart::rates, Severity::fault, {3}, "slow", "a", "b", "c"});
    CHECK(verdict(report).find("check: failed: 1 fault, 0 warnings") != std::string::npos);
    CHECK(
        to_text(report).find("FAULT rates, rank 3 (n0): slow\n  expected a\n  found    b\n  remedy   c\n") !=
        std::string::npos);
}
