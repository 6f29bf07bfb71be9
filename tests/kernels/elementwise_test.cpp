#include "kernels/elementwise.hpp"

#include "kernels/math.hpp"
#include "reference.hpp"
#include "support.hpp"

#include <limits>

using namespace trivium;
using namespace trivium::kernels;

namespace {

template <class F>
Doubles mapped(const Doubles& x, F f)
{
    Doubles y;
    for (const double value : x)
        y.push_back(f(value));
    return y;
}

/// f(x + step) - f(x - step) over 2 step.
template <class F>
double derivative(F f, double x)
{
    return (f(x + 1e-5) - f(x - 1e-5)) / 2e-5;
}

/// Normal numbers, and extreme ones.
template <class T>
std::vector<T> inputs(const char* name)
{
    auto x = random<T>(3001, name, 3);
    for (const float extreme : {0.0f, -80.0f, 80.0f, 1e-20f, -300.0f, 300.0f})
        x.push_back(T(extreme));
    return x;
}

} // namespace

TEST_CASE("fast_exp has an error below 1e-6 and correct limits")
{
    double worst = 0;
    for (float x = -87.6f; x < 88.3f; x += 0.00137f)
        worst = std::max(worst,
                         std::abs(static_cast<double>(fast_exp(x)) / std::exp(static_cast<double>(x)) - 1));
    CHECK(worst < 5e-7);
    const float inf = std::numeric_limits<float>::infinity();
    CHECK(fast_exp(0.0f) == 1);
    CHECK(fast_exp(-inf) == 0);
    CHECK(fast_exp(-1000.0f) == 0);
    CHECK(fast_exp(inf) == inf);
    CHECK(fast_exp(100.0f) == inf);
    CHECK(std::isnan(fast_exp(std::numeric_limits<float>::quiet_NaN())));
}

TEMPLATE_TEST_CASE("gelu and swiglu with their gradients", "", TRV_STORAGE_TYPES)
{
    using T = TestType;
    const auto x = inputs<T>("x"), up = inputs<T>("up"), dy = inputs<T>("dy");
    const i64 n = static_cast<i64>(x.size());
    const auto [y, dx, z, dgate, dup, y2, dgate2] = stable([&](const Exec& exec) {
        std::vector<T> a(x.size()), b(a), c(a), d(a), e(a), f = x, g = dy, h(a);
        gelu<T>(exec, n, lend(x), lend(a));
        gelu_grad<T>(exec, n, lend(dy), lend(x), lend(b));
        swiglu<T>(exec, 1, n, {lend(x), n}, {lend(up), n}, {lend(c), n});
        swiglu_grad<T>(exec, 1, n, {lend(dy), n}, {lend(x), n}, {lend(up), n}, {lend(d), n}, {lend(e), n});
        gelu<T>(exec, n, lend(f), lend(f));
        swiglu_grad<T>(exec, 1, n, {lend(g), n}, {lend(x), n}, {lend(up), n}, {lend(g), n}, {lend(h), n});
        return std::tuple(a, b, c, d, e, f, g);
    });
    CHECK(same_bits(y, y2));
    CHECK(same_bits(dgate, dgate2));
    const double tol = tolerance<T>, tol_grad = std::max(tol, 1e-6);
    const Doubles wx = wide(x), wu = wide(up), wd = wide(dy);
    Doubles want_dx, want_z, want_dgate, want_dup;
    for (std::size_t i = 0; i < wx.size(); ++i) {
        want_dx.push_back(wd[i] * derivative(reference::gelu, wx[i]));
        want_z.push_back(reference::swiglu(wx[i], wu[i]));
        want_dgate.push_back(wd[i] *
                             derivative([&](double at) { return reference::swiglu(at, wu[i]); }, wx[i]));
        want_dup.push_back(wd[i] * reference::swiglu(wx[i], 1));
    }
    require_close(y, mapped(wx, reference::gelu), tol, "gelu");
    require_close(dx, want_dx, tol_grad, "gelu_grad");
    require_close(z, want_z, tol, "swiglu");
    require_close(dgate, want_dgate, tol_grad, "dgate");
    require_close(dup, want_dup, tol, "dup");
}

TEMPLATE_TEST_CASE("add, bias_add, fill, accumulate", "", TRV_STORAGE_TYPES)
{
    using T = TestType;
    const auto [rows, columns] = GENERATE(std::pair<i64, i64>(67, 31), std::pair<i64, i64>(5, 4104));
    const i64 n = rows * columns;
    const auto x = random<T>(n, "x"), y = random<T>(n, "y"), b = random<T>(columns, "b");
    const auto acc = random<Acc<T>>(n, "acc");
    const auto short_acc = random<bf16>(n, "bf16 acc");
    const auto [sum, biased, filled, set, added, short_set, short_added] =
        stable([&, rows = rows, columns = columns](const Exec& exec) {
            std::vector<T> s = x, t = x, v(x.size());
            std::vector<Acc<T>> first = acc, second = acc;
            std::vector<bf16> third = short_acc, fourth = short_acc;
            kernels::add<T>(exec, n, lend(s), lend(y), lend(s));
            bias_add<T>(exec, rows, columns, lend(t), lend(b), lend(t));
            fill<T>(exec, n, 1.25, lend(v));
            accumulate<T, Acc<T>>(exec, n, lend(first), lend(x), true);
            accumulate<T, Acc<T>>(exec, n, lend(second), lend(x), false);
            accumulate<T, bf16>(exec, n, lend(third), lend(x), true);
            accumulate<T, bf16>(exec, n, lend(fourth), lend(x), false);
            return std::tuple(s, t, v, first, second, third, fourth);
        });
    const Doubles wx = wide(x), wy = wide(y), wb = wide(b), wacc = wide(acc);
    Doubles want_sum, want_biased, want_added;
    for (i64 i = 0; i < n; ++i) {
        want_sum.push_back(wx[i] + wy[i]);
        want_biased.push_back(wx[i] + wb[i % columns]);
        want_added.push_back(wx[i] + wacc[i]);
    }
    require_close(sum, want_sum, tolerance<T>);
    require_close(biased, want_biased, tolerance<T>);
    require_close(filled, mapped(wx, [](double) { return 1.25; }), 0);
    require_close(set, wx, 0);
    require_close(added, want_added, tolerance<Acc<T>>);
    require_close(short_set, wx, tolerance<bf16>);
    const Doubles wshort = wide(short_acc);
    Doubles want_short;
    for (std::size_t i = 0; i < wx.size(); ++i)
        want_short.push_back(wx[i] + wshort[i]);
    require_close(short_added, want_short, tolerance<bf16>);
}

TEMPLATE_TEST_CASE("cast", "", TRV_STORAGE_TYPES)
{
    using T = TestType;
    const auto x = inputs<T>("x");
    const i64 n = static_cast<i64>(x.size());
    const auto [d, f, h] = stable([&](const Exec& exec) {
        Doubles a(x.size());
        std::vector<float> b(x.size());
        std::vector<bf16> c(x.size());
        cast<T, double>(exec, n, lend(x), lend(a));
        cast<T, float>(exec, n, lend(x), lend(b));
        cast<T, bf16>(exec, n, lend(x), lend(c));
        return std::tuple(a, b, c);
    });
    require_close(d, wide(x), 0);
    for (std::size_t i = 0; i < x.size(); ++i) {
        REQUIRE(f[i] == static_cast<float>(d[i]));
        REQUIRE(h[i].bits == bf16(static_cast<float>(d[i])).bits);
    }
}

TEMPLATE_TEST_CASE("casts of several arrays are those of each", "", TRV_STORAGE_TYPES)
{
    using T = TestType;
    std::vector<i64> sizes{0, 1, 17, 16384, 0, 0, 50001};
    for (int i = 0; i < 250; ++i) // more than fit in one launch
        sizes.push_back(i % 7);
    std::vector<std::vector<T>> x;
    for (const i64 n : sizes)
        x.push_back(random<T>(n + 4, "x" + std::to_string(x.size())));
    const auto check = [&](auto to) {
        using To = decltype(to);
        const auto [together, single] = stable([&](const Exec& exec) {
            std::vector<std::vector<To>> y;
            for (const auto& each : x)
                y.emplace_back(each.size());
            auto z = y;
            {
                const auto on_x = lend_all(std::as_const(x));
                const auto on_y = lend_all(y), on_z = lend_all(z);
                std::vector<CastOf<T, To>> arrays;
                for (std::size_t i = 0; i < sizes.size(); ++i) { // aligned alike, differently, or not at all
                    const std::size_t from = i % 4, into = i % 3;
                    arrays.push_back({on_x[i] + from, on_y[i] + into, sizes[i]});
                    cast<T, To>(exec, sizes[i], on_x[i] + from, on_z[i] + into);
                }
                cast_all<T, To>(exec, arrays);
            }
            std::vector<To> flat_y, flat_z;
            for (std::size_t i = 0; i < y.size(); ++i) {
                flat_y.insert(flat_y.end(), y[i].begin(), y[i].end());
                flat_z.insert(flat_z.end(), z[i].begin(), z[i].end());
            }
            return std::tuple(flat_y, flat_z);
        });
        CHECK(same_bits(together, single));
    };
    check(double{});
    check(float{});
    check(bf16{});
}

TEST_CASE("NaN and infinity pass through")
{
    start_runtime();
    const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> x(64, 1.0f);
    x[3] = nan;
    x[40] = inf;
    std::vector<bf16> y(64);
    std::vector<float> z(64);
    cast<float, bf16>({}, 64, lend(x), lend(y));
    gelu<float>({}, 64, lend(x), lend(z));
    CHECK(std::isnan(float(y[3])));
    CHECK(float(y[40]) == inf);
    CHECK(std::isnan(z[3]));
    CHECK(z[40] == inf);
}

TEMPLATE_TEST_CASE("copied rows are those of a plain copy, and nothing else changes", "", TRV_STORAGE_TYPES,
                   std::int32_t)
{
    using T = TestType;
    struct Case {
        i64 rows, stride, offset, columns, gap; // gap: between the rows of the copy
    };
    for (const Case& c :
         {Case{1, 1, 0, 1, 0}, Case{1, 4001, 17, 3000, 0}, Case{7, 5, 0, 5, 3}, Case{7, 5, 2, 3, 0},
          Case{301, 37, 36, 1, 2}, Case{5, 999, 1, 998, 7}, Case{3, 6, 2, 0, 1}}) {
        const i64 width = c.columns + c.gap;
        std::vector<T> x, want;
        for (i64 i = 0; i < c.rows * c.stride; ++i)
            x.push_back(T(static_cast<float>(i % 199 - 99))); // small integers are exact in every type
        for (i64 row = 0; row < c.rows; ++row)
            for (i64 column = 0; column < width; ++column)
                want.push_back(column < c.columns
                                   ? x[static_cast<std::size_t>(row * c.stride + c.offset + column)]
                                   : T(-7.0f));
        const auto got = stable([&](const Exec& exec) {
            std::vector<T> y(want.size(), T(-7.0f));
            copy_rows<T>(exec, c.rows, c.columns, lend(x) + c.offset, c.stride, lend(y), width);
            return std::tuple(y);
        });
        INFO(c.rows << " rows of " << c.stride << ", " << c.columns << " from " << c.offset);
        REQUIRE(same_bits(std::get<0>(got), want));
    }
}
