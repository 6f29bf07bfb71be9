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

/// On a machine that others use too, other ranks may look slow as well: it is enough that this finding is
/// there.
const Finding& require_found(const CheckReport& report, const std::vector<int>& ranks,
                             const std::string& words)
{
    INFO(to_text(report));
    const auto found = std::find_if(report.findings.begin(), report.findings.end(), [&](const Finding& f) {
        return f.part == CheckPart::rates && f.ranks == ranks && f.problem.find(words) != std::string::npos;
    });
    REQUIRE(found != report.findings.end());
    CHECK(report.status() == 1);
    return *found;
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

} // namespace

TEST_CASE("a rank that takes four times as long")
{
    const CheckReport report = rates(2, 2, [](Rank& me) {
        if (me.rank == 1)
            me.config.hooks.timed = [last = now()](const std::string& what) mutable {
                if (what.starts_with("products"))
                    spin(std::min(1.0, 3 * (now() - last)));
                last = now();
            };
    });
    const Finding& slow = require_found(report, {1}, "slow products in f32");
    CHECK(slow.expected.find("GFLOP/s") != std::string::npos);
    require_found(report, {1}, "slow products in bf16");
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
    const CheckReport link = rates(4, 4, [&](Rank& me) {
        delay(me, 3, 0);
        delay(me, 0, 3);
    });
    require_found(link, {0, 3}, "slow link between them within the node");
    const CheckReport rank = rates(4, 4, [&](Rank& me) {
        delay(me, 2, -1);
        if (me.rank != 2)
            delay(me, me.rank, 2);
    });
    require_found(rank, {2}, "slow links within the node");
    const CheckReport node = rates(3, 1, [&](Rank& me) {
        delay(me, 1, -1);
        if (me.rank != 1)
            delay(me, me.rank, 1);
    });
    require_found(node, {1}, "slow links to other nodes");
}

TEST_CASE("a bit that tips over on a link")
{
    const CheckReport report = rates(3, 3, [](Rank& me) {
        if (me.rank == 2)
            me.faults.received = [times = 0](const std::string&, int from, int, const Piece& piece) mutable {
                if (from == 0 && piece.bytes > 1000 && ++times == 2)
                    piece.data[123456] ^= std::byte{0x10};
            };
    });
    const Finding& changed = require_found(report, {2}, "received bytes differ from those sent");
    CHECK(changed.severity == Severity::fault);
    CHECK(changed.seen.find("1 of 2097152 bytes from rank 0 arrived changed; the first at 123456") !=
          std::string::npos);
}
