#include "kernels/general/pointwise.hpp"

#include "support.hpp"

#include <cmath>
#include <limits>

using namespace trivium;
using namespace trivium::kernels;

namespace {

/// Numbers of normal size and extreme ones; for int32 all sizes.
template <class T>
std::vector<T> varied(const char* name)
{
    std::vector<T> x = random<T>(3001, name, 3);
    if constexpr (std::is_integral_v<T>)
        for (const i64 extreme : {0L, 1L, -1L, 2147483647L, -2147483648L, 65536L, -77777L})
            x.push_back(static_cast<T>(extreme));
    else
        for (const float extreme : {0.0f, 1.0f, -1.0f, 1e-8f, 0.5f, 2.5f, -30.0f})
            x.push_back(T(extreme));
    return x;
}

struct UnaryCase {
    Unary op;
    double (*value)(double);
    bool positive;    ///< defined for positive numbers only
    bool on_integers; ///< defined for int32
};
const UnaryCase unary_cases[] = {
    {Unary::negate, [](double v) { return -v; }, false, true},
    {Unary::abs, [](double v) { return std::abs(v); }, false, true},
    {Unary::sign, [](double v) { return v > 0   ? 1.0
                                        : v < 0 ? -1.0
                                                : 0.0; }, false, true},
    {Unary::exp, [](double v) { return std::exp(v); }, false, false},
    {Unary::expm1, [](double v) { return std::expm1(v); }, false, false},
    {Unary::log, [](double v) { return std::log(v); }, true, false},
    {Unary::log1p, [](double v) { return std::log1p(v); }, true, false},
    {Unary::sqrt, [](double v) { return std::sqrt(v); }, true, false},
    {Unary::rsqrt, [](double v) { return 1 / std::sqrt(v); }, true, false},
    {Unary::tanh, [](double v) { return std::tanh(v); }, false, false},
    {Unary::sigmoid, [](double v) { return 1 / (1 + std::exp(-v)); }, false, false},
    {Unary::sin, [](double v) { return std::sin(v); }, false, false},
    {Unary::cos, [](double v) { return std::cos(v); }, false, false},
    {Unary::erf, [](double v) { return std::erf(v); }, false, false},
    {Unary::floor, [](double v) { return std::floor(v); }, false, true},
    {Unary::ceil, [](double v) { return std::ceil(v); }, false, true},
    {Unary::logical_not, [](double v) { return v == 0 ? 1.0 : 0.0; }, false, true},
};

template <class T>
bool close(T got, double want)
{
    if (std::isnan(want))
        return std::isnan(number(got));
    if (number(got) == want || number(got) == number(T(static_cast<Acc<T>>(want))))
        return true;
    return std::abs(number(got) - want) <=
           0.5 * tolerance<T> * std::abs(want) + 1e-37; // libm's own error is less
}

/// want, wrapped around to 32 bits.
double wrapped(i64 want) { return static_cast<double>(static_cast<std::int32_t>(static_cast<u64>(want))); }

double integer_result(Binary op, i64 a, i64 b)
{
    switch (op) {
    case Binary::add: return wrapped(a + b);
    case Binary::subtract: return wrapped(a - b);
    case Binary::multiply: return wrapped(a * b);
    case Binary::divide: return b == 0 ? -1 : wrapped(a / b);
    case Binary::maximum: return static_cast<double>(std::max(a, b));
    case Binary::minimum: return static_cast<double>(std::min(a, b));
    case Binary::remainder: return b == 0 ? static_cast<double>(a) : static_cast<double>(a % b);
    case Binary::logical_and: return wrapped(a & b);
    case Binary::logical_or: return wrapped(a | b);
    case Binary::logical_xor: return wrapped(a ^ b);
    case Binary::power: {
        if (b < 0)
            return a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
        u64 result = 1, factor = static_cast<u64>(a);
        for (i64 e = b; e > 0; e /= 2, factor *= factor)
            result *= e % 2 == 1 ? factor : 1;
        return wrapped(static_cast<i64>(result));
    }
    }
    return 0;
}

double real_result(Binary op, double a, double b)
{
    switch (op) {
    case Binary::add: return a + b;
    case Binary::subtract: return a - b;
    case Binary::multiply: return a * b;
    case Binary::divide: return a / b;
    case Binary::maximum: return std::isnan(a) || std::isnan(b) ? std::nan("") : std::max(a, b);
    case Binary::minimum: return std::isnan(a) || std::isnan(b) ? std::nan("") : std::min(a, b);
    case Binary::remainder: return std::fmod(a, b);
    case Binary::logical_and: return a != 0 && b != 0;
    case Binary::logical_or: return a != 0 || b != 0;
    case Binary::logical_xor: return (a != 0) != (b != 0);
    case Binary::power: return std::pow(a, b);
    }
    return 0;
}

} // namespace

TEMPLATE_TEST_CASE("every unary op", "", TRV_TENSOR_TYPES)
{
    using T = TestType;
    for (const UnaryCase& c : unary_cases) {
        std::vector<T> x = varied<T>("x");
        if (c.positive)
            for (T& value : x)
                value = T(std::abs(static_cast<Acc<T>>(value)) + 1);
        INFO("unary op " << static_cast<int>(c.op));
        std::vector<T> y(x.size());
        if (std::is_integral_v<T> && !c.on_integers) {
            REQUIRE_THROWS_AS(unary<T>({}, c.op, 1, lend(x), lend(y)), InternalError);
            continue;
        }
        const auto got = std::get<0>(stable([&](const Exec& exec) {
            std::vector<T> result(x.size());
            unary<T>(exec, c.op, static_cast<i64>(x.size()), lend(x), lend(result));
            return std::tuple(result);
        }));
        for (std::size_t i = 0; i < x.size(); ++i) {
            double want = c.value(number(x[i]));
            if (std::is_integral_v<T>)
                want = wrapped(static_cast<i64>(want));
            if (!close(got[i], want)) {
                INFO("of " << number(x[i]) << ": got " << number(got[i]) << ", want " << want);
                REQUIRE(false);
            }
        }
    }
}

TEMPLATE_TEST_CASE("every binary op", "", TRV_TENSOR_TYPES)
{
    using T = TestType;
    std::vector<T> a = varied<T>("a"), b = varied<T>("b");
    // All pairs of the extreme ones.
    for (std::size_t i = 3001; i < 3008; ++i)
        for (std::size_t j = 3001; j < 3008; ++j) {
            a.push_back(a[i]);
            b.push_back(b[j]);
        }
    if constexpr (!std::is_integral_v<T>) {
        a.insert(a.end(), {T(std::nanf("")), T(1.0f), T(std::nanf(""))});
        b.insert(b.end(), {T(1.0f), T(std::nanf("")), T(std::nanf(""))});
    }
    for (int op = 0; op <= static_cast<int>(Binary::logical_xor); ++op) {
        const auto got = std::get<0>(stable([&](const Exec& exec) {
            std::vector<T> result(a.size());
            binary<T>(exec, static_cast<Binary>(op), static_cast<i64>(a.size()), lend(a), lend(b),
                      lend(result));
            return std::tuple(result);
        }));
        for (std::size_t i = 0; i < a.size(); ++i) {
            const double x = number(a[i]), y = number(b[i]);
            double want = 0;
            if constexpr (std::is_integral_v<T>)
                want = integer_result(static_cast<Binary>(op), a[i], b[i]);
            else
                want = real_result(static_cast<Binary>(op), x, y);
            if (!close(got[i], want)) {
                INFO("binary op " << op << " of " << x << " and " << y << ": got " << number(got[i])
                                  << ", want " << want);
                REQUIRE(false);
            }
        }
    }
}

TEMPLATE_TEST_CASE("compare and select", "", TRV_TENSOR_TYPES)
{
    using T = TestType;
    Draw draw("compare");
    std::vector<T> a = draw.tensor<T>(3000, -2, 2), b = draw.tensor<T>(3000, -2, 2);
    if constexpr (!std::is_integral_v<T>)
        a[7] = b[7] = a[8] = T(std::nanf(""));
    const i64 n = 3000;
    bool (*const relations[])(double, double) = {
        [](double x, double y) { return x == y; }, [](double x, double y) { return x != y; },
        [](double x, double y) { return x < y; },  [](double x, double y) { return x <= y; },
        [](double x, double y) { return x > y; },  [](double x, double y) { return x >= y; },
    };
    for (int direction = 0; direction < 6; ++direction) {
        const auto [mask, chosen] = stable([&](const Exec& exec) {
            Tokens result(3000);
            std::vector<T> y(3000);
            {
                compare<T>(exec, static_cast<Direction>(direction), n, lend(a), lend(b), lend(result));
            }
            select<T>(exec, n, lend(result), lend(a), lend(b), lend(y));
            return std::tuple(result, y);
        });
        for (std::size_t i = 0; i < 3000; ++i) {
            const bool holds = relations[direction](number(a[i]), number(b[i]));
            const T& want = holds ? a[i] : b[i];
            const bool same =
                std::memcmp(&chosen[i], &want, sizeof(T)) == 0 || // a device has one NaN of bf16
                (std::isnan(number(want)) && std::isnan(number(chosen[i])));
            if (mask[i] != (holds ? 1 : 0) || !same) {
                INFO("direction " << direction << ", element " << i);
                REQUIRE(false);
            }
        }
    }
}

TEMPLATE_TEST_CASE("convert, splat and iota", "", TRV_TENSOR_TYPES)
{
    using T = TestType;
    const std::vector<T> x = varied<T>("x");
    const i64 n = static_cast<i64>(x.size());
    const auto [f64, f32, b16, i32, sevens, index] = stable([&](const Exec& exec) {
        std::vector<double> d(x.size());
        std::vector<float> f(x.size());
        std::vector<bf16> h(x.size());
        Tokens i(x.size());
        std::vector<T> s(1500), w(60);
        convert<T>(exec, n, lend(x), static_cast<double*>(lend(d)));
        convert<T>(exec, n, lend(x), static_cast<float*>(lend(f)));
        convert<T>(exec, n, lend(x), static_cast<bf16*>(lend(h)));
        convert<T>(exec, n, lend(x), static_cast<std::int32_t*>(lend(i)));
        splat<T>(exec, 1500, -7.0, lend(s));
        iota<T>(exec, 3, 4, 5, 10, lend(w));
        return std::tuple(d, f, h, i, s, w);
    });
    for (std::size_t i = 0; i < x.size(); ++i) {
        const double v = number(x[i]);
        CHECK(f64[i] == v);
        CHECK(f32[i] == static_cast<float>(v));
        CHECK(number(b16[i]) == number(bf16(static_cast<float>(v))));
        CHECK(i32[i] == static_cast<std::int32_t>(v));
    }
    CHECK(sevens == std::vector<T>(1500, T(static_cast<Acc<T>>(-7))));
    for (std::size_t i = 0; i < 60; ++i)
        CHECK(number(index[i]) == static_cast<double>(10 + i / 5 % 4));
}

TEMPLATE_TEST_CASE("real numbers outside of int32 saturate", "", TRV_STORAGE_TYPES)
{
    using T = TestType;
    const float inf = std::numeric_limits<float>::infinity();
    const std::vector<T> x = {T(3e9f),          T(-3e9f),  T(inf),          T(-inf),
                              T(std::nanf("")), T(-1.75f), T(2147483648.0f)};
    const auto got = std::get<0>(stable([&](const Exec& exec) {
        Tokens y(x.size());
        convert<T>(exec, static_cast<i64>(x.size()), lend(x), static_cast<std::int32_t*>(lend(y)));
        return std::tuple(y);
    }));
    CHECK(got == Tokens{INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN, 0, -1, INT32_MAX});
}
