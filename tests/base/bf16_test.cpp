#include "base/bf16.hpp"
#include "base/f16.hpp"
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

TEST_CASE("f16 rounds to the nearest value, ties to even")
{
    for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) { // with the subnormal ones
        const auto at = [](std::uint32_t of) {
            f16 half;
            half.bits = static_cast<std::uint16_t>(of);
            return static_cast<float>(half);
        };
        const float value = at(bits), next = bits == 0x7bff ? 65536 : at(bits + 1),
                    middle = (value + next) / 2;
        REQUIRE(value == std::ldexp(static_cast<float>(bits < 0x400 ? bits : 0x400 | (bits & 0x3ff)),
                                    static_cast<int>(bits < 0x400 ? 1 : bits >> 10) - 25));
        REQUIRE(f16(value).bits == bits);
        REQUIRE(f16(-value).bits == (bits | 0x8000));
        REQUIRE(f16(std::nextafter(middle, 0.0f)).bits == bits);
        REQUIRE(f16(middle).bits == bits + (bits & 1));
        REQUIRE(f16(std::nextafter(middle, 1e9f)).bits == bits + 1);
    }
    CHECK(f16(f16::limit).bits == 0x7c00);
    CHECK(f16(-std::numeric_limits<float>::infinity()).bits == 0xfc00);
    CHECK(std::isnan(float(f16(std::numeric_limits<float>::quiet_NaN()))));
}
