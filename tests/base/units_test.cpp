#include "base/check.hpp"
#include "base/counted.hpp"
#include "base/units.hpp"
#include "catch.hpp"

using namespace trivium;

TEST_CASE("numbers print in a readable form")
{
    CHECK(format_bytes(512) == "512 B");
    CHECK(format_bytes(1536) == "1.50 KiB");
    CHECK(format_bytes(Bytes{3} << 40) == "3.00 TiB");
    CHECK(format_count(1234567) == "1,234,567");
    CHECK(format_count(-999) == "-999");
    CHECK(format_count(-1000) == "-1,000");
    CHECK(format_si(124439808) == "124.4 M");
    CHECK(format_seconds(3723) == "1:02:03");
    CHECK(format_seconds(245) == "4:05");
}

TEST_CASE("a count has the noun's singular or plural")
{
    CHECK(counted(1, "rank") == "1 rank");
    CHECK(counted(0, "rank") == "0 ranks");
    CHECK(counted(std::size_t{17}, "rank") == "17 ranks");
    CHECK(counted(1, "match", "matches") == "1 match");
    CHECK(counted(2, "match", "matches") == "2 matches");
}

TEST_CASE("an error names place, problem, reason and remedy, and has its exit status")
{
    const UserError error({"run.toml", "unknown key 'x'", "no table has it", "remove it"});
    CHECK(std::string(error.what()) ==
          "run.toml: unknown key 'x'\n  reason: no table has it\n  remedy: remove it");
    CHECK(error.exit_status() == 2);
    CHECK(IoError({"f", "p", "", ""}).exit_status() == 1);
    CHECK_THROWS_AS([] { TRV_CHECK(1 == 2, "numbers ", 7); }(), InternalError);
}
