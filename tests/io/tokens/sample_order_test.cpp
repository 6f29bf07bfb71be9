#include "catch.hpp"
#include "io/tokens/sample_order.hpp"

#include <cmath>
#include <vector>

using namespace trivium;

TEST_CASE("each epoch visits each window once")
{
    const auto check = [](i64 samples, i64 epoch) {
        const SampleOrder order(samples, 42);
        std::vector<int> seen(std::size_t(samples), 0);
        for (i64 i = 0; i < samples; ++i) {
            const i64 window = order.at(epoch * samples + i);
            if (window < 0 || window >= samples || seen[std::size_t(window)]++ != 0)
                return false;
        }
        return true;
    };
    for (i64 samples = 1; samples <= 300; ++samples) {
        INFO(samples);
        REQUIRE((check(samples, 0) && check(samples, 1) && check(samples, 1000000)));
    }
    for (const i64 samples : {1023, 1024, 1025, 4095, 4096, 4097, 65537, 100003})
        CHECK(check(samples, 3));
}

TEST_CASE("the order depends on seed and epoch alone")
{
    const i64 n = 1000;
    const SampleOrder a(n, 1), again(n, 1), b(n, 2);
    const i64 late = a.at(7 * n + 5); // the same at any time
    int same_epoch = 0, same_seed = 0, same_place = 0;
    for (i64 i = 0; i < n; ++i) {
        CHECK(a.at(i) == again.at(i));
        same_epoch += a.at(i) == a.at(n + i);
        same_seed += a.at(i) == b.at(i);
        same_place += a.at(i) == i;
    }
    CHECK(a.at(7 * n + 5) == late);
    // A random permutation has one fixed point on average.
    CHECK(same_epoch < 10);
    CHECK(same_seed < 10);
    CHECK(same_place < 10);
    // Golden values: a change of the order would break every run that resumes.
    const std::vector<i64> first{SampleOrder(1000, 0).at(0), SampleOrder(1000, 0).at(1),
                                 SampleOrder(1000, 0).at(1000)};
    CHECK(first == std::vector<i64>{2, 166, 366});
}

TEST_CASE("successive samples are uncorrelated and uniformly distributed")
{
    const i64 n = 20000;
    const SampleOrder order(n, 3);
    double product = 0, quarter = 0;
    for (i64 i = 0; i + 1 < n; ++i) {
        const double x = double(order.at(i)) / double(n) - 0.5, y = double(order.at(i + 1)) / double(n) - 0.5;
        product += 12 * x * y;
        quarter += i < n / 4 ? x : 0;
    }
    CHECK(std::abs(product / double(n)) < 5 / std::sqrt(double(n)));
    CHECK(std::abs(quarter) / double(n / 4) < 5 * 0.29 / std::sqrt(double(n / 4)));
}

TEST_CASE("windows overlap in one token and do not pass the end")
{
    CHECK(window_count(0, 4) == 0);
    CHECK(window_count(4, 4) == 0);
    CHECK(window_count(5, 4) == 1);
    CHECK(window_count(8, 4) == 1);
    CHECK(window_count(9, 4) == 2);
    for (i64 tokens = 5; tokens < 100; ++tokens)
        CHECK((window_count(tokens, 4) - 1) * 4 + 5 <= tokens);
}
