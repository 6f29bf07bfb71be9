// Drawn programs have the same losses, parameters and moments on drawn meshes as on one rank. TRIVIUM_SEED
// is the one seed to try; it prints the program.
#include "base/check.hpp"
#include "catch.hpp"
#include "grid/drawn_program.hpp"
#include "soak_settings.hpp"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

using namespace trivium;
using namespace trivium::grids;

namespace {

std::string at_work; // for the handler

void too_long(int)
{
    const char text[] = "no end within a minute: ";
    if (write(2, text, sizeof(text) - 1) < 0 || write(2, at_work.data(), at_work.size()) < 0)
        _exit(3);
    _exit(2);
}

/// Of numbers below 1e-6 the absolute difference; infinite ones, of a program that grows, in the same steps.
void check_alike(const std::vector<double>& got, const std::vector<double>& want)
{
    REQUIRE(got.size() == want.size());
    for (std::size_t i = 0; i < want.size(); ++i) {
        CHECK(std::isfinite(got[i]) == std::isfinite(want[i]));
        if (std::isfinite(want[i]))
            CHECK(std::abs(got[i] - want[i]) <= 1e-7 * std::max(std::abs(want[i]), 1e-6));
    }
}

void compare(u64 seed, bool prints = false)
{
    const DrawnProgram drawn = drawn_program(seed);
    at_work = drawn.about + "\n";
    if (prints)
        std::printf("%s# %s", drawn.text.c_str(), at_work.c_str());
    std::fflush(stdout);
    INFO(drawn.about);
    std::signal(SIGALRM, too_long);
    alarm(60);
    try {
        const ProgramOutcome want = train_program(drawn.one, 5), got = train_program(drawn.elsewhere, 5);
        const ProgramDifferences d = differences(got, want);
        INFO(d.text());
        check_alike(got.losses, want.losses);
        check_alike(got.norms, want.norms);
        CHECK(std::max({d.evaluation, d.parameters, d.moments}) < 1e-7);
    } catch (const std::exception& error) {
        FAIL_CHECK(error.what());
    }
    alarm(0);
}

} // namespace

TEST_CASE("drawn programs, a few")
{
    for (u64 seed = 1; seed <= 12; ++seed)
        compare(seed);
}

TEST_CASE("drawn programs", "[.soak]")
{
    if (const char* one = std::getenv("TRIVIUM_SEED"))
        return compare(std::strtoull(one, nullptr, 10), true);
    const soak::Budget budget;
    const u64 first = soak::seed();
    u64 seed = first;
    for (; budget.left(); ++seed)
        compare(seed);
    std::printf("%llu programs from seed %llu\n", static_cast<unsigned long long>(seed - first),
                static_cast<unsigned long long>(first));
}
