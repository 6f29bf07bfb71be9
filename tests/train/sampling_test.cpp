#include "catch.hpp"
#include "train/sampler.hpp"

#include <array>
#include <cmath>

using namespace trivium;

TEST_CASE("sampling follows the tempered, truncated distribution")
{
    const std::array<float, 4> logits{1.0f, 3.0f, 2.0f, 9.0f}; // the last one is not a token
    CHECK(Sampler({0, 0, 1, 0}).pick(logits, 3) == 1);
    Sampler sampler({1, 0, 1, 7});
    std::array<int, 3> counts{};
    const int draws = 60000;
    for (int i = 0; i < draws; ++i)
        ++counts[static_cast<std::size_t>(sampler.pick(logits, 3))];
    const double sum = std::exp(1.0) + std::exp(3.0) + std::exp(2.0);
    for (std::size_t i = 0; i < 3; ++i) {
        const double p = std::exp(static_cast<double>(logits[i])) / sum;
        CHECK(std::abs(counts[i] / double(draws) - p) < 4 * std::sqrt(p * (1 - p) / draws));
    }
    Sampler top({1, 2, 1, 7});
    Sampler nucleus({1, 0, 0.5, 7});
    for (int i = 0; i < 100; ++i) {
        CHECK(top.pick(logits, 3) != 0);
        CHECK(nucleus.pick(logits, 3) == 1);
    }
}
