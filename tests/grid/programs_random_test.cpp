// Drawn programs have the same losses, parameters and moments on drawn meshes as on one rank. TRIVIUM_SEED
// is the one seed to try; it prints the program.
#include "base/check.hpp"
#include "catch.hpp"
#include "grid/drawn_program.hpp"
#include "soak_settings.hpp"

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
        const ProgramDifferences d =
            differences(train_program(drawn.elsewhere, 5), train_program(drawn.one, 5));
        INFO(d.text());
        CHECK(d.most() < 1e-7);
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
