// Which rank causes a hang, from the ranks' reports.
#include "catch.hpp"
#include "lifecycle/hang.hpp"

using namespace trivium;

namespace {

RankReport rank(Seconds silent, Seconds stalled, const std::string& waits,
                const std::string& piece = "matmul")
{
    RankReport n;
    n.silent = silent;
    n.stalled = stalled;
    n.node = "n1";
    n.phase = "step 7";
    n.piece = piece;
    n.waits = waits;
    return n;
}

} // namespace

TEST_CASE("ranks that make progress are fine, whoever waits")
{
    CHECK(diagnose({rank(0, 0.1, ""), rank(0.4, 0.4, "")}, 30).health == Health::fine);
    CHECK(diagnose({rank(0, 100, "rank 1"), rank(0, 0.1, "")}, 30).health == Health::fine); // a long pipeline
    CHECK(diagnose({}, 30).health == Health::fine);
}

TEST_CASE("a silent rank is the cause once the others stall")
{
    const Diagnosis d = diagnose({rank(0, 30.5, "rank 2", "all_reduce over data of a"),
                                  rank(0, 30.5, "rank 2", "all_reduce over data of a"), rank(31, 31, "")},
                                 30);
    CHECK(d.health == Health::hung);
    CHECK(d.cause == "no heartbeat from rank 2 (n1)");
    REQUIRE(d.ranks.size() == 2);
    CHECK(d.ranks[0] == "rank 2 (n1): no heartbeat; last in step 7, matmul, for 31 s");
    CHECK(d.ranks[1] == "ranks 0, 1 (n1): waits for rank 2 in step 7, all_reduce over data of a, for 30 s");
}

TEST_CASE("a rank that does not return from a poll hangs, and does not compute")
{
    RankReport caught = rank(0, 31, "");
    caught.call = "MPI_Testall";
    const Diagnosis d = diagnose({caught, rank(0, 30.5, "rank 0")}, 30);
    CHECK(d.health == Health::hung);
    CHECK(d.cause == "rank 0 (n1) does not return from MPI_Testall, and no data moves");
    CHECK(d.ranks.front() == "rank 0 (n1): does not return from MPI_Testall in step 7, matmul, for 31 s");
    caught.waits = "rank 1"; // it polls
    CHECK(diagnose({caught, rank(0, 31, "")}, 30).health == Health::slow);
    CHECK(diagnose({caught, rank(0, 31, "rank 0")}, 30).cause == "all ranks wait, and no data moves");
}

TEST_CASE("where datagrams are blocked, a run with progress continues")
{
    RankReport unheard = rank(31, 31, "", "");
    unheard.heard = false;
    const Diagnosis d = diagnose({rank(0, 1, ""), unheard, unheard}, 30);
    CHECK(d.health == Health::heartbeats_lost);
    CHECK(d.cause.find("no heartbeat arrives from ranks 1, 2 (n1)") != std::string::npos);
    CHECK(diagnose({rank(0, 1, ""), rank(31, 31, "")}, 30).health == Health::heartbeats_lost);
    CHECK(diagnose({rank(0, 29, "rank 1"), rank(31, 31, "")}, 30).health ==
          Health::fine); // not yet: it stopped, and they have waited just long enough
    // It may be busy for long, for example loading.
    const Diagnosis slow = diagnose({rank(0, 31, "rank 1"), unheard}, 30);
    CHECK(slow.health == Health::slow);
    CHECK(slow.cause == "rank 1 (n1) computes in one operation, and all other ranks wait");
    CHECK(slow.ranks.front() == "rank 1 (n1): no heartbeat so far, for 31 s");
    CHECK(diagnose({rank(0, 700, "rank 1"), unheard}, 30).health == Health::hung);
    // Others do not hide a silent rank.
    CHECK(diagnose({rank(0, 31, "rank 1"), unheard, rank(32, 32, "")}, 30).cause ==
          "no heartbeat from rank 2 (n1)");
}

TEST_CASE("a rank that has ended is not missed")
{
    RankReport gone = rank(100, 100, "");
    gone.left = true;
    CHECK(diagnose({rank(0, 1, ""), gone}, 30).health == Health::fine);
    CHECK(diagnose({gone, gone}, 30).health == Health::fine);
}

TEST_CASE(
    "if all wait for each other, it is a hang; if one works, it is slow, and counts as hung only much later")
{
    const Diagnosis knot = diagnose({rank(0, 31, "rank 1", "recv"), rank(0, 31, "rank 0", "recv")}, 30);
    CHECK(knot.health == Health::hung);
    CHECK(knot.cause == "all ranks wait, and no data moves");
    const std::vector<RankReport> slow{rank(0, 40, "rank 1"), rank(0, 40, "", "")};
    CHECK(diagnose(slow, 30).health == Health::slow);
    CHECK(diagnose(slow, 30).cause == "rank 1 (n1) computes in one operation, and all other ranks wait");
    CHECK(diagnose({rank(0, 700, "rank 1"), rank(0, 700, "")}, 30).health == Health::hung);
    CHECK(diagnose({rank(0, 61, "rank 1"), rank(0, 61, "")}, 30).health == Health::slow);
    CHECK(diagnose({rank(0, 61, "rank 1"), rank(0, 61, "")}, 30, 2).health == Health::hung);
}

TEST_CASE("a thousand ranks give only a few lines")
{
    std::vector<RankReport> reports(1000, rank(0, 40, "rank 999", "all_gather over data of w"));
    reports.back() = rank(50, 50, "");
    Diagnosis d = diagnose(reports, 30);
    CHECK(d.ranks.size() == 2);
    for (std::size_t r = 0; r < 999; ++r)
        reports[r].piece += std::to_string(r);
    d = diagnose(reports, 30);
    CHECK(d.ranks.size() == 21);
    CHECK(d.ranks.back() == "… and 980 more");
}
