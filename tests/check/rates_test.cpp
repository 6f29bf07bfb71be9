// Ranks and links that are really slow, and data that are really changed.
#include "base/check.hpp"
#include "base/clock.hpp"
#include "catch.hpp"
#include "check/report.hpp"
#include "faulty_comm.hpp"

#include <algorithm>

using namespace trivium;
using namespace trivium::faults;

namespace {

/// Computes, as a slow processor would, rather than sleeps.
void spin(Seconds seconds)
{
    for (const Seconds end = now() + seconds; now() < end;)
        ;
}

CheckReport rates(int ranks, int per_node, const std::function<void(Rank&)>& fault)
{
    return check_on_threads(ranks, [&](Rank& me) {
        me.facts.node = str("n", me.rank / per_node);
        me.config.parts = {CheckPart::rates};
        me.config.strict = true;
        fault(me);
    });
}

/// Ranks, and words of the problem that they have.
using Expected = std::pair<std::vector<int>, std::string>;

const Finding* find(const CheckReport& report, const Expected& expected)
{
    const auto found = std::find_if(report.findings.begin(), report.findings.end(), [&](const Finding& f) {
        return f.part == CheckPart::rates && f.ranks == expected.first &&
               f.problem.find(expected.second) != std::string::npos;
    });
    return found == report.findings.end() ? nullptr : &*found;
}

/// The report of a check that finds all of this. Other programs on the machine may slow down other ranks:
/// further findings do not matter, and the check has several attempts.
CheckReport require_found(int ranks, int per_node, const std::function<void(Rank&)>& fault,
                          const std::vector<Expected>& expected)
{
    for (int attempt = 1;; ++attempt) {
        CheckReport report = rates(ranks, per_node, fault);
        const bool all = std::all_of(expected.begin(), expected.end(),
                                     [&](const Expected& e) { return find(report, e) != nullptr; });
        if (all || attempt == 5) {
            INFO(to_text(report));
            REQUIRE(all);
            CHECK(report.status() == 1);
            return report;
        }
    }
}

} // namespace

TEST_CASE("a rank that takes four times as long")
{
    const auto slow = [](Rank& me) {
        if (me.rank == 1)
            me.config.hooks.timed = [last = now()](const std::string& what) mutable {
                if (what.starts_with("products"))
                    spin(std::min(1.0, 3 * (now() - last)));
                last = now();
            };
    };
    const Expected in_f32{{1}, "slow products in f32"};
    const CheckReport report = require_found(2, 2, slow, {in_f32, {{1}, "slow products in bf16"}});
    CHECK(find(report, in_f32)->expected.find("GFLOP/s") != std::string::npos);
    CHECK(report.rates[1].flops_f32 < 0.6 * report.rates[0].flops_f32);
}

TEST_CASE("a slow link, and a rank whose links are all slow")
{
    const auto delay = [](Rank& me, int rank, int from) {
        if (me.rank == rank)
            me.faults.received = [from](const std::string&, int sender, int, const Piece& piece) {
                if ((from < 0 || sender == from) && piece.bytes > 1000)
                    spin(0.02);
            };
    };
    const auto link = [&](Rank& me) {
        delay(me, 3, 0);
        delay(me, 0, 3);
    };
    const auto links_of = [&](int slow) {
        return [&delay, slow](Rank& me) { delay(me, me.rank, me.rank == slow ? -1 : slow); };
    };
    require_found(4, 4, link, {{{0, 3}, "slow link between them within the node"}});
    require_found(4, 4, links_of(2), {{{2}, "slow links within the node"}});
    require_found(3, 1, links_of(1), {{{1}, "slow links to other nodes"}});
}

TEST_CASE("a bit that tips over on a link")
{
    const auto fault = [](Rank& me) {
        if (me.rank == 2)
            me.faults.received = [times = 0](const std::string&, int from, int, const Piece& piece) mutable {
                if (from == 0 && piece.bytes > 1000 && ++times == 2)
                    piece.data[123456] ^= std::byte{0x10};
            };
    };
    const Expected differ{{2}, "received bytes differ from those sent"};
    const CheckReport report = rates(3, 3, fault);
    INFO(to_text(report));
    REQUIRE(find(report, differ));
    const Finding& changed = *find(report, differ);
    CHECK(changed.severity == Severity::fault);
    CHECK(changed.seen.find("1 of 2097152 bytes from rank 0 arrived changed; the first at 123456") !=
          std::string::npos);
}
