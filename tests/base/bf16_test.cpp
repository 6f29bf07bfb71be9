#include "base/bf16.hpp"
#include "catch.hpp"

#include <bit>
#include <cmath>
#include <limits>

using namespace trivium;

TEST_CASE("bf16 rounds to the nearest value, ties to even")
{
    for (std::uint32_t high = 0; high < 0xffff; ++high) {
        const float value = std::bit_cast<float>(high << 16), next = std::bit_cast<float>((high + 1) << 16);
        if (!std::isfinite(value) || !std::isfinite(next) || (high & 0x7fff) == 0x7fff)
            continue;
        REQUIRE(bf16(value).bits == high);
        REQUIRE(bf16(std::bit_cast<float>((high << 16) | 0x7fff)).bits == high);
        REQUIRE(bf16(std::bit_cast<float>((high << 16) | 0x8001)).bits == high + 1);
        REQUIRE(bf16(std::bit_cast<float>((high << 16) | 0x8000)).bits == high + (high & 1));
    }
    CHECK(std::isnan(float(bf16(std::numeric_limits<float>::quiet_NaN()))));
    CHECK(std::isnan(float(bf16(std::bit_cast<float>(0x7fffffffu)))));
    CHECK(std::isinf(float(bf16(std::numeric_limits<float>::max()))));
}
