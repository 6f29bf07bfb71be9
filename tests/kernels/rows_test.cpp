// embedding, norm, rope, cache: kernels that work row by row.
#include "kernels/cache.hpp"
#include "kernels/embedding.hpp"
#include "kernels/norm.hpp"
#include "kernels/rope.hpp"
#include "kernels/rope_table.hpp"
#include "reference.hpp"
#include "support.hpp"

using namespace trivium;
using namespace trivium::kernels;

namespace {
const i64 shapes[][2] = {{1, 1}, {3, 17}, {5, 1}, {17, 127}, {130, 64}, {2, 1000}};
}

TEMPLATE_TEST_CASE("embedding and its gradient, on a shard", "", TRV_STORAGE_TYPES)
{
    using T = TestType;
    for (const auto& [count, dim] : shapes) {
        const EmbeddingShape shape{count, 11, dim, 5};
        const auto table = random<T>(shape.rows * dim, "table"), dy = random<T>(count * dim, "dy");
        const auto before = random<Acc<T>>(shape.rows * dim, "before");
        const Tokens token = random_tokens(count, "token", 0, 20);
        const Doubles wide_table = wide(table), wide_dy = wide(dy);
        Doubles want(static_cast<std::size_t>(count * dim)), want_grad(before.size());
        for (i64 c = 0; c < count; ++c)
            for (i64 i = 0; i < dim; ++i)
                if (const i64 v = token[c] - 5; v >= 0 && v < 11) {
                    want[c * dim + i] = wide_table[v * dim + i];
                    want_grad[v * dim + i] += wide_dy[c * dim + i];
                }
        const auto [y, set, added] = stable([&, count = count, dim = dim](const Exec& exec) {
            std::vector<T> out(static_cast<std::size_t>(count * dim));
            std::vector<Acc<T>> first = before, second = before;
            embedding(exec, shape, table.data(), token.data(), out.data());
            embedding_grad(exec, shape, dy.data(), token.data(), first.data(), true);
            embedding_grad(exec, shape, dy.data(), token.data(), second.data(), false);
            return std::tuple(out, first, second);
        });
        require_close(y, want, 0);
        require_close(set, want_grad, tolerance<Acc<T>>);
        for (std::size_t i = 0; i < before.size(); ++i)
            want_grad[i] += static_cast<double>(before[i]);
        require_close(added, want_grad, tolerance<Acc<T>>);
    }
}

TEMPLATE_TEST_CASE("rms_norm", "", TRV_STORAGE_TYPES)
{
    using T = TestType;
    for (const auto& [rows, dim] : shapes)
        for (const double scale : {1.0, 1e-4, 1e4}) {
            const auto x = random<T>(rows * dim, "x", scale), w = random<T>(dim, "w");
            Doubles want_rstd;
            const Doubles want = reference::rms_norm(rows, dim, 1e-6, wide(x), wide(w), &want_rstd);
            const auto [y, rstd, in_place] = stable([&, rows = rows, dim = dim](const Exec& exec) {
                std::vector<T> out(x.size()), same = x;
                std::vector<Acc<T>> root(static_cast<std::size_t>(rows));
                rms_norm(exec, {rows, dim, 1e-6}, x.data(), w.data(), out.data(), root.data());
                rms_norm(exec, {rows, dim, 1e-6}, same.data(), w.data(), same.data(), root.data());
                return std::tuple(out, root, same);
            });
            require_close(y, want, tolerance<T>);
            require_close(rstd, want_rstd, tolerance<Acc<T>>);
            CHECK(same_bits(y, in_place));
        }
}

TEMPLATE_TEST_CASE("gradients of the norms", "", TRV_STORAGE_TYPES)
{
    using T = TestType;
    const i64 rows = 7, dim = 19;
    const auto x = random<T>(rows * dim, "x"), w = random<T>(dim, "w"), dy = random<T>(rows * dim, "dy");
    const Doubles zero(static_cast<std::size_t>(dim));
    const double tol = std::is_same_v<T, double> ? 1e-6 : tolerance<T>;
    const auto [rms_x, rms_w, rms_twice, layer_x, layer_w] = stable([&](const Exec& exec) {
        const NormShape shape{rows, dim, 1e-5};
        std::vector<Acc<T>> mean(rows), rstd(rows), dw(dim), dw2(dim), dv(dim);
        std::vector<T> y(x.size()), dx(dy), dz(x.size());
        rms_norm(exec, shape, x.data(), w.data(), y.data(), rstd.data());
        rms_norm_grad_x(exec, shape, dx.data(), x.data(), w.data(), rstd.data(), dx.data()); // in place
        rms_norm_grad_w(exec, shape, dy.data(), x.data(), rstd.data(), dw.data(), true);
        rms_norm_grad_w(exec, shape, dy.data(), x.data(), rstd.data(), dw2.data(), true);
        rms_norm_grad_w(exec, shape, dy.data(), x.data(), rstd.data(), dw2.data(), false);
        layer_norm<T>(exec, shape, x.data(), w.data(), nullptr, y.data(), mean.data(), rstd.data());
        layer_norm_grad_x(exec, shape, dy.data(), x.data(), w.data(), mean.data(), rstd.data(), dz.data());
        layer_norm_grad_w(exec, shape, dy.data(), x.data(), mean.data(), rstd.data(), dv.data(), true);
        return std::tuple(dx, dw, dw2, dz, dv);
    });
    const auto rms = [&](const Doubles& at_x, const Doubles& at_w) {
        return dot(wide(dy), reference::rms_norm(rows, dim, 1e-5, at_x, at_w));
    };
    const auto layer = [&](const Doubles& at_x, const Doubles& at_w) {
        return dot(wide(dy), reference::layer_norm(rows, dim, 1e-5, at_x, at_w, zero));
    };
    const double tol_w = std::is_same_v<T, double> ? 1e-6 : 1e-5;
    require_close(rms_x, slope([&](const Doubles& at) { return rms(at, wide(w)); }, wide(x)), tol, "rms dx");
    require_close(layer_x, slope([&](const Doubles& at) { return layer(at, wide(w)); }, wide(x)), tol, "layer dx");
    require_close(layer_w, slope([&](const Doubles& at) { return layer(wide(x), at); }, wide(w)), tol_w, "layer dw");
    Doubles want = slope([&](const Doubles& at) { return rms(wide(x), at); }, wide(w));
    require_close(rms_w, want, tol_w, "rms dw");
    for (double& value : want)
        value *= 2;
    require_close(rms_twice, want, tol_w, "rms dw, twice");
}

TEMPLATE_TEST_CASE("layer_norm and column_sum", "", TRV_STORAGE_TYPES)
{
    using T = TestType;
    for (const auto& [rows, dim] : shapes) {
        const auto x = random<T>(rows * dim, "x", 3), w = random<T>(dim, "w"), b = random<T>(dim, "b");
        const auto [y, sum] = stable([&, rows = rows, dim = dim](const Exec& exec) {
            std::vector<T> out(x.size());
            std::vector<Acc<T>> mean(static_cast<std::size_t>(rows)), rstd(mean), total(static_cast<std::size_t>(dim));
            layer_norm(exec, {rows, dim, 1e-5}, x.data(), w.data(), b.data(), out.data(), mean.data(), rstd.data());
            column_sum(exec, rows, dim, x.data(), total.data(), true);
            column_sum(exec, rows, dim, x.data(), total.data(), false);
            return std::tuple(out, total);
        });
        // One column has variance 0: only the bias is left, up to rounding of eps.
        const Doubles wx = wide(x);
        require_close(y, reference::layer_norm(rows, dim, 1e-5, wx, wide(w), wide(b)), tolerance<T>);
        Doubles want(static_cast<std::size_t>(dim));
        for (i64 i = 0; i < rows * dim; ++i)
            want[i % dim] += 2 * wx[i];
        require_close(sum, want, tolerance<Acc<T>>);
    }
}

TEMPLATE_TEST_CASE("rope rotates, and its inverse rotates back", "", TRV_STORAGE_TYPES)
{
    using T = TestType;
    for (const i64 e : {2, 6, 64}) {
        const RopeShape shape{2, 5, 3, e, 40};
        const auto x = random<T>(2 * 5 * 3 * e, "x");
        const Tokens pos = random_tokens(10, "pos", 0, 40);
        std::vector<Acc<T>> table(static_cast<std::size_t>(40 * e));
        fill_rope_table({.head_dim = e, .theta = 500}, 40, table.data());
        const auto [y, back] = stable([&](const Exec& exec) {
            std::vector<T> out(x.size());
            rope(exec, shape, x.data(), pos.data(), table.data(), false, out.data());
            std::vector<T> in = out;
            rope(exec, shape, in.data(), pos.data(), table.data(), true, in.data());
            return std::tuple(out, in);
        });
        require_close(y, reference::rope(10, 3, e, 500, pos, wide(x)), tolerance<T>);
        require_close(back, wide(x), tolerance<T>);
    }
}

TEST_CASE("Llama 3 stretches the long wavelengths only")
{
    // transformers' _compute_llama3_parameters with Llama 3.1's numbers, worked by hand at the ends.
    const RopeFrequencies plain{.head_dim = 128, .theta = 500000};
    RopeFrequencies stretched = plain;
    stretched.factor = 8;
    stretched.low_freq_factor = 1;
    stretched.high_freq_factor = 4;
    stretched.original_seq = 8192;
    const auto a = rope_frequencies(plain), b = rope_frequencies(stretched);
    CHECK(a[0] == 1);
    CHECK(a[1] == Approx(std::pow(500000.0, -1.0 / 64)));
    CHECK(b[0] == a[0]);
    CHECK(b[63] == Approx(a[63] / 8));
    for (std::size_t i = 0; i < 64; ++i) {
        const double wavelength = 2 * 3.14159265358979323846 / a[i];
        if (wavelength < 2048)
            CHECK(b[i] == a[i]);
        else if (wavelength > 8192)
            CHECK(b[i] == Approx(a[i] / 8));
        else {
            const double smooth = (8192 / wavelength - 1) / 3;
            CHECK(b[i] == Approx((1 - smooth) * a[i] / 8 + smooth * a[i]));
        }
    }
    CHECK_THROWS_AS(rope_frequencies({.head_dim = 3}), InternalError);
}

TEMPLATE_TEST_CASE("cache_write", "", TRV_STORAGE_TYPES)
{
    using T = TestType;
    const auto x = random<T>(2 * 3 * 7, "x"), before = random<T>(2 * 9 * 7, "cache");
    const std::int32_t start = 4;
    const auto [cache] = stable([&](const Exec& exec) {
        std::vector<T> out = before;
        cache_write(exec, {2, 9, 3, 7}, x.data(), &start, out.data());
        return std::tuple(out);
    });
    for (i64 b = 0; b < 2; ++b)
        for (i64 t = 0; t < 9; ++t)
            for (i64 i = 0; i < 7; ++i) {
                const T want = t >= 4 && t < 7 ? x[(b * 3 + t - 4) * 7 + i] : before[(b * 9 + t) * 7 + i];
                REQUIRE(float(cache[(b * 9 + t) * 7 + i]) == float(want));
            }
}
