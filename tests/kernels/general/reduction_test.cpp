#include "kernels/general/reduction.hpp"

#include "kernels/general/einsum.hpp"
#include "support.hpp"

#include <limits>

using namespace trivium;
using namespace trivium::kernels;

namespace {

double combined(Combine how, double a, double b)
{
    switch (how) {
    case Combine::sum: return a + b;
    case Combine::product: return a * b;
    case Combine::max: return std::isnan(a) || std::isnan(b) ? std::nan("") : std::max(a, b);
    default: return std::isnan(a) || std::isnan(b) ? std::nan("") : std::min(a, b);
    }
}

template <class T>
double identity(Combine how)
{
    if (how == Combine::sum || how == Combine::product)
        return how == Combine::sum ? 0 : 1;
    const bool lowest = how == Combine::max;
    if (std::is_integral_v<T>)
        return lowest ? INT32_MIN : INT32_MAX;
    const double inf = std::numeric_limits<double>::infinity();
    return lowest ? -inf : inf;
}

template <class T>
std::vector<T> reduced(const ReduceShape& shape, Combine how, const std::vector<T>& x, i64 results)
{
    return std::get<0>(stable([&](const Exec& exec) {
        std::vector<T> y(static_cast<std::size_t>(results));
        reduce<T>(exec, shape, how, lend(x), lend(y));
        return std::tuple(y);
    }));
}

template <class T>
void check_reduce(const Index& extents, const std::vector<bool>& over, Combine how)
{
    Draw draw("x");
    // Products of small numbers: mostly 1.
    std::vector<T> x = draw.tensor<T>(volume(extents), how == Combine::product ? 0 : -3, 3);
    if (how == Combine::product)
        for (std::size_t i = 0; i < x.size(); ++i)
            if (i % 5 != 0)
                x[i] = T(static_cast<Acc<T>>(1));
    ReduceShape shape;
    Index kept;
    for (std::size_t d = 0; d < extents.size(); ++d) {
        shape.extents[d] = extents[d];
        shape.reduced[d] = over[d];
        if (!over[d])
            kept.push_back(extents[d]);
    }
    shape.rank = static_cast<int>(extents.size());
    Doubles want(static_cast<std::size_t>(volume(kept)), identity<T>(how));
    each_index(extents, [&](const Index& index) {
        Index to;
        for (std::size_t d = 0; d < index.size(); ++d)
            if (!over[d])
                to.push_back(index[d]);
        double& value = want[at(kept, to)];
        value = combined(how, value, number(x[at(extents, index)]));
        if (std::is_integral_v<T>) // wraps around
            value = static_cast<double>(static_cast<std::int32_t>(static_cast<i64>(value)));
    });
    const auto y = reduced(shape, how, x, volume(kept));
    if (how == Combine::product)
        require_close(y, want, tolerance<T>);
    else
        require_equal(y, narrow<T>(want));
}

} // namespace

TEMPLATE_TEST_CASE("reduce over any dimensions", "", TRV_TENSOR_TYPES)
{
    using T = TestType;
    Draw draw("reduce");
    for (int round = 1; round <= 42; ++round) {
        const i64 rank = draw(0, 5);
        Index extents = draw.list(rank, 1, 4);
        std::vector<bool> over;
        for (i64 d = 0; d < rank; ++d)
            over.push_back(draw(0, 1) == 1);
        if (rank > 0 && round % 2 == 0)
            extents.back() = draw(1, 200);
        if (rank > 1 && rank <= 3 && round % 3 == 0)
            extents[0] = draw(1, 150);
        if (rank > 0 && round % 7 == 0)
            extents[static_cast<std::size_t>(draw(0, rank - 1))] = 0;
        for (const Combine how : {Combine::sum, Combine::max, Combine::min, Combine::product}) {
            INFO("round " << round << ", combine " << static_cast<int>(how));
            check_reduce<T>(extents, over, how);
        }
    }
}

TEMPLATE_TEST_CASE("max and min of NaN are NaN", "", TRV_STORAGE_TYPES)
{
    using T = TestType;
    for (const i64 n : {5, 300})
        for (const bool last : {false, true})
            for (const Combine how : {Combine::max, Combine::min}) {
                std::vector<T> x(static_cast<std::size_t>(3 * n), T(1.0f));
                x[static_cast<std::size_t>(last ? n + 2 : 7)] = T(std::nanf("")); // of result 1
                ReduceShape shape{2, {last ? 3 : n, last ? n : 3}, {!last, last}};
                const auto y = reduced<T>(shape, how, x, 3);
                CHECK(number(y[0]) == 1);
                CHECK(std::isnan(number(y[1])));
                CHECK(number(y[2]) == 1);
            }
}

TEST_CASE("a sum of many equal numbers stays accurate")
{
    const i64 n = 1 << 16;
    const std::vector<float> x(static_cast<std::size_t>(2 * n), 0.1f);
    for (const bool last : {false, true}) {
        ReduceShape shape{2, {last ? 2 : n, last ? n : 2}, {!last, last}};
        const auto y = reduced<float>(shape, Combine::sum, x, 2);
        CHECK(std::abs(number(y[1]) / (0.1 * static_cast<double>(n)) - 1) < 2e-5);
    }
}

TEMPLATE_TEST_CASE("einsum of any factors", "", TRV_TENSOR_TYPES)
{
    using T = TestType;
    Draw draw("einsum");
    for (int round = 1; round <= 40; ++round) {
        EinsumShape shape;
        shape.factors = static_cast<int>(draw(1, 6));
        shape.reduced = static_cast<int>(draw(0, shape.factors));
        // Row-major tensors with their factors in the order of the shape; a diagonal every fifth time.
        Index sizes, of[3];
        for (int f = 0; f < shape.factors; ++f) {
            shape.size[f] = round % 9 == 0 && f == 1 ? 0 : draw(1, f + 1 == shape.factors ? 40 : 5);
            sizes.push_back(shape.size[f]);
        }
        i64 extent[3] = {1, 1, 1};
        for (int f = shape.factors - 1; f >= 0; --f)
            for (int t = 0; t < 3; ++t) {
                const bool has = t == 2 ? f < shape.factors - shape.reduced : draw(0, 2) > 0;
                i64& stride = (t == 0 ? shape.a : t == 1 ? shape.b : shape.c)[f];
                stride = has ? extent[t] : 0;
                extent[t] *= has ? shape.size[f] : 1;
                if (has && t == 0 && round % 5 == 0) {
                    stride += extent[t];
                    extent[t] *= shape.size[f];
                }
            }
        const auto a = draw.tensor<T>(extent[0], -2, 2), b = draw.tensor<T>(extent[1], -2, 2);
        Doubles want(static_cast<std::size_t>(extent[2]), 0);
        each_index(sizes, [&](const Index& index) {
            i64 i = 0, j = 0, k = 0;
            for (std::size_t f = 0; f < index.size(); ++f) {
                i += index[f] * shape.a[f];
                j += index[f] * shape.b[f];
                k += index[f] * shape.c[f];
            }
            want[static_cast<std::size_t>(k)] +=
                number(a[static_cast<std::size_t>(i)]) * number(b[static_cast<std::size_t>(j)]);
        });
        const auto c = std::get<0>(stable([&](const Exec& exec) {
            std::vector<T> y(want.size());
            einsum<T, T>(exec, shape, lend(a), lend(b), lend(y));
            return std::tuple(y);
        }));
        INFO("round " << round);
        require_equal(c, narrow<T>(want));
    }
}
