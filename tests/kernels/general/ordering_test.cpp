#include "kernels/general/ordering.hpp"

#include "support.hpp"

#include <algorithm>
#include <numeric>

using namespace trivium;
using namespace trivium::kernels;

namespace {

/// Small integers with many equal ones, and a few NaN.
template <class T>
std::vector<T> keys_of(Draw& draw, i64 n)
{
    std::vector<T> keys = draw.tensor<T>(n, -9, 9);
    if constexpr (!std::is_integral_v<T>)
        for (i64 i = 0; i < n; i += 11)
            keys[size(i)] = T(std::nanf(""));
    return keys;
}

/// The indices of a line in their order.
std::vector<i64> sorted(const Doubles& line, bool descending)
{
    std::vector<i64> order(line.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](i64 i, i64 j) {
        const double a = line[size(i)], b = line[size(j)];
        if (std::isnan(a) || std::isnan(b))
            return !std::isnan(a) && std::isnan(b);
        return descending ? a > b : a < b;
    });
    return order;
}

const Lines line_cases[] = {{1, 1, 1},   {3, 57, 1}, {1, 300, 1}, {2, 20, 3},
                            {1, 33, 40}, {4, 0, 2},  {0, 5, 1},   {2, 5, 17}};

} // namespace

TEMPLATE_TEST_CASE("sort with a payload", "", TRV_TENSOR_TYPES)
{
    using T = TestType;
    Draw draw("sort");
    for (const Lines& lines : line_cases)
        for (const bool descending : {false, true}) {
            const i64 count = lines.outer * lines.n * lines.inner;
            const auto keys = keys_of<T>(draw, count);
            const auto payload = draw.tensor<T>(count, -99, 99);
            const auto [order, taken] = stable([&](const Exec& exec) {
                Tokens indices(size(count));
                std::vector<T> y(size(count));
                sort_order<T>(exec, lines, descending, lend(keys), lend(indices));
                take_along<T>(exec, lines, lend(payload), static_cast<const std::int32_t*>(lend(indices)),
                              lend(y));
                return std::tuple(indices, y);
            });
            for (i64 o = 0; o < lines.outer; ++o)
                for (i64 j = 0; j < lines.inner; ++j) {
                    const auto at = [&](i64 i) { return size((o * lines.n + i) * lines.inner + j); };
                    Doubles line;
                    for (i64 i = 0; i < lines.n; ++i)
                        line.push_back(number(keys[at(i)]));
                    const std::vector<i64> want = sorted(line, descending);
                    for (i64 i = 0; i < lines.n; ++i)
                        if (order[at(i)] != want[size(i)] ||
                            number(taken[at(i)]) != number(payload[at(want[size(i)])])) {
                            INFO("line " << o << " " << j << " of " << lines.n << ", element " << i);
                            REQUIRE(false);
                        }
                }
        }
}

TEMPLATE_TEST_CASE("top_k", "", TRV_TENSOR_TYPES)
{
    using T = TestType;
    Draw draw("top_k");
    for (const auto& [rows, n, k] : {std::tuple<i64, i64, i64>{5, 40, 7},
                                     {1, 1, 1},
                                     {3, 300, 300},
                                     {9, 50, 1},
                                     {2, 6, 0},
                                     {0, 4, 2},
                                     {6, 100, 60}}) {
        const auto x = keys_of<T>(draw, rows * n);
        const auto [values, indices] = stable([&, rows = rows, n = n, k = k](const Exec& exec) {
            std::vector<T> y(size(rows * k));
            Tokens at(size(rows * k));
            top_k<T>(exec, rows, n, k, 1000, lend(x), lend(y), lend(at));
            return std::tuple(y, at);
        });
        for (i64 r = 0; r < rows; ++r) {
            Doubles line;
            for (i64 i = 0; i < n; ++i)
                line.push_back(number(x[size(r * n + i)]));
            const std::vector<i64> want = sorted(line, true);
            for (i64 i = 0; i < k; ++i) {
                CHECK(indices[size(r * k + i)] == 1000 + want[size(i)]);
                CHECK(std::memcmp(&values[size(r * k + i)], &x[size(r * n + want[size(i)])], sizeof(T)) == 0);
            }
        }
    }
    std::vector<T> one(1);
    Tokens index(2);
    CHECK_THROWS_AS(top_k<T>({}, 1, 1, 2, 0, lend(one), lend(one), lend(index)), InternalError);
}

TEMPLATE_TEST_CASE("cumsum in both directions", "", TRV_TENSOR_TYPES)
{
    using T = TestType;
    Draw draw("cumsum");
    for (const Lines& lines : line_cases)
        for (const bool backwards : {false, true}) {
            const i64 count = lines.outer * lines.n * lines.inner;
            const auto x = draw.tensor<T>(count, -3, 3);
            const auto [y, in_place] = stable([&](const Exec& exec) {
                std::vector<T> result(size(count)), same = x;
                cumsum<T>(exec, lines, backwards, lend(x), lend(result));
                cumsum<T>(exec, lines, backwards, lend(same), lend(same));
                return std::tuple(result, same);
            });
            std::vector<T> want(size(count));
            for (i64 o = 0; o < lines.outer; ++o)
                for (i64 j = 0; j < lines.inner; ++j) {
                    double sum = 0;
                    for (i64 step = 0; step < lines.n; ++step) {
                        const i64 i = backwards ? lines.n - 1 - step : step;
                        const std::size_t at = size((o * lines.n + i) * lines.inner + j);
                        sum += number(x[at]);
                        want[at] = narrow<T>({sum})[0];
                    }
                }
            require_equal(y, want);
            require_equal(in_place, want);
        }
}
