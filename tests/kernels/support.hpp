#pragma once
// Shared by the kernel tests: random tensors, comparisons, runs with several numbers of threads.
#include "base/check.hpp"
#include "base/rng.hpp"
#include "catch.hpp"
#include "kernels/exec.hpp"
#include "lend.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <tuple>
#include <vector>

namespace trivium::kernels {

using Doubles = std::vector<double>;
using Tokens = std::vector<std::int32_t>;

/// Tolerance of a result of type T, relative to the size of the expected values.
template <class T>
inline constexpr double tolerance = 1e-5;
template <>
inline constexpr double tolerance<double> = 1e-12;
template <>
inline constexpr double tolerance<bf16> = 2e-2;

/// n normal numbers times `scale`, rounded to T.
template <class T>
std::vector<T> random(i64 n, const std::string& name, double scale = 1)
{
    const RandomStream stream(42, name);
    std::vector<T> result;
    result.reserve(static_cast<std::size_t>(n)); // so that an address sanitizer detects accesses beyond it
    for (i64 i = 0; i < n; ++i)
        result.push_back(T(static_cast<Acc<T>>(scale * stream.normal_at(static_cast<u64>(i)))));
    return result;
}

/// n tokens in [low, high).
inline Tokens random_tokens(i64 n, const std::string& name, i64 low, i64 high)
{
    const RandomStream stream(43, name);
    Tokens result;
    for (i64 i = 0; i < n; ++i)
        result.push_back(static_cast<std::int32_t>(
            low + static_cast<i64>(stream.bits_at(static_cast<u64>(i)) % static_cast<u64>(high - low))));
    return result;
}

template <class T>
Doubles wide(const std::vector<T>& x)
{
    Doubles result;
    result.reserve(x.size());
    for (const T& value : x)
        result.push_back(static_cast<double>(static_cast<Acc<T>>(value)));
    return result;
}

template <class T>
std::vector<T> narrow(const Doubles& x)
{
    std::vector<T> result;
    result.reserve(x.size());
    for (const double value : x)
        result.push_back(T(static_cast<Acc<T>>(value)));
    return result;
}

inline double dot(const Doubles& a, const Doubles& b)
{
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        sum += a[i] * b[i];
    return sum;
}

/// Requires every element to be within `tol` of the expected one, relative to its size plus the root mean
/// square of all, or `least` if that is larger.
template <class T>
void require_close(const std::vector<T>& got, const Doubles& want, double tol, const char* what = "",
                   double least = 0)
{
    REQUIRE(got.size() == want.size());
    double square = 0;
    for (const double value : want)
        square += value * value;
    const double size =
        std::max(least, want.empty() ? 0 : std::sqrt(square / static_cast<double>(want.size())));
    for (std::size_t i = 0; i < want.size(); ++i) {
        const double value = static_cast<double>(static_cast<Acc<T>>(got[i]));
        if (!(std::abs(value - want[i]) <= tol * (std::abs(want[i]) + size) + 1e-300)) {
            INFO(what << "[" << i << "] of " << want.size() << ": got " << value << ", want " << want[i]);
            REQUIRE(false);
        }
    }
}

/// Largest relative error of rounding to T.
template <class T>
inline constexpr double rounding = std::numeric_limits<T>::epsilon() / 2;
template <>
inline constexpr double rounding<bf16> = 1.0 / 256;

/// Requires every element to be the expected one, up to errors of the accumulator and the rounding to T of
/// values whose sizes sum to `rounded`. If a kernel rounds a value and then adds one of the other sign, the
/// sum has the value's rounding error, which may be large relative to the sum.
template <class T>
void require_rounded(const std::vector<T>& got, const Doubles& want, const Doubles& rounded,
                     const char* what = "")
{
    REQUIRE(got.size() == want.size());
    const double size =
        std::sqrt(dot(want, want) / static_cast<double>(std::max<std::size_t>(want.size(), 1)));
    for (std::size_t i = 0; i < want.size(); ++i) {
        const double value = static_cast<double>(static_cast<Acc<T>>(got[i]));
        if (!(std::abs(value - want[i]) <=
              rounding<T> * rounded[i] + tolerance<Acc<T>> * (rounded[i] + size) + 1e-300)) {
            INFO(what << "[" << i << "] of " << want.size() << ": got " << value << ", want " << want[i]
                      << ", rounded " << rounded[i]);
            REQUIRE(false);
        }
    }
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b)
{
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// Runs f(exec), which returns a tuple of vectors, with 1, 2 and 3 threads, under sanitizers with 1 and 3;
/// the results are the same bits.
template <class F>
auto stable(F f)
{
    start_runtime();
    const auto first = f(Exec{1});
    for (const int threads : contracts_on ? std::vector{3} : std::vector{2, 3, 1}) {
        const auto again = f(Exec{threads});
        const bool same = std::apply(
            [&](const auto&... a) {
                return std::apply([&](const auto&... b) { return (same_bits(a, b) && ...); }, again);
            },
            first);
        INFO("threads " << threads);
        REQUIRE(same);
    }
    return first;
}

/// Each of several arrays.
template <class T>
std::vector<Lent<T>> lend_all(std::vector<std::vector<T>>& arrays)
{
    std::vector<Lent<T>> lent;
    for (std::vector<T>& array : arrays)
        lent.push_back(lend(array));
    return lent;
}
template <class T>
std::vector<Lent<const T>> lend_all(const std::vector<std::vector<T>>& arrays)
{
    std::vector<Lent<const T>> lent;
    for (const std::vector<T>& array : arrays)
        lent.push_back(lend(array));
    return lent;
}

/// Central differences of f at x.
inline Doubles slope(const std::function<double(const Doubles&)>& f, Doubles x)
{
    Doubles result;
    const double step = 1e-5;
    for (double& value : x) {
        const double at = value;
        value = at + step;
        const double up = f(x);
        value = at - step;
        const double down = f(x);
        value = at;
        result.push_back((up - down) / (2 * step));
    }
    return result;
}

} // namespace trivium::kernels

#define TRV_STORAGE_TYPES double, float, trivium::bf16
