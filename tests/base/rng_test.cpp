#include "base/rng.hpp"
#include "catch.hpp"

#include <cmath>

using namespace trivium;

TEST_CASE("philox gives the published test vectors")
{
    // Random123's known answers for philox4x32-10.
    CHECK(philox(0, {0, 0, 0, 0}) == PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
    CHECK(philox(0xffffffffffffffffull, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}) ==
          PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
    CHECK(philox(0x299f31d0a4093822ull, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}) ==
          PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("streams differ by seed and name, and normals have the right moments")
{
    const RandomStream a(1, "wq"), b(1, "wk"), c(2, "wq");
    CHECK(a.bits_at(7) != b.bits_at(7));
    CHECK(a.bits_at(7) != c.bits_at(7));
    CHECK(a.bits_at(7) == RandomStream(1, "wq").bits_at(7));
    const int count = 200000;
    double sum = 0, squares = 0, fourth = 0;
    for (int i = 0; i < count; ++i) {
        const double x = a.normal_at(i);
        sum += x;
        squares += x * x;
        fourth += x * x * x * x;
    }
    CHECK(std::abs(sum / count) < 5 / std::sqrt(count));
    CHECK(squares / count == Approx(1).margin(0.02));
    CHECK(fourth / count == Approx(3).margin(0.15));
}
