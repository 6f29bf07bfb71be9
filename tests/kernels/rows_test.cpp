// embedding, norm, cache: kernels that work row by row.
#include "kernels/cache.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/embedding.hpp"
#include "kernels/norm.hpp"
#include "kernels/rope.hpp"
#include "kernels/rope_table.hpp"
#include "reference.hpp"
#include "support.hpp"

#include <array>
#include <functional>

using namespace trivium;
using namespace trivium::kernels;

namespace {
std::vector<std::array<i64, 2>> make_shapes()
{
    std::vector<std::array<i64, 2>> shapes{{1, 1},    {3, 17},   {5, 1},   {17, 127},
                                           {130, 64}, {2, 1000}, {3, 2056}};
    if (on_device)
        shapes.insert(shapes.end(), {{4096, 1600}, {1003, 4096}, {5, 50257}});
    return shapes;
}
const auto shapes = make_shapes();
} // namespace

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
            embedding<T>(exec, shape, lend(table), lend(token), lend(out));
            embedding_grad<T>(exec, shape, lend(dy), lend(token), lend(first), true);
            embedding_grad<T>(exec, shape, lend(dy), lend(token), lend(second), false);
            return std::tuple(out, first, second);
        });
        require_close(y, want, 0);
        require_close(set, want_grad, tolerance<Acc<T>>);
        for (std::size_t i = 0; i < before.size(); ++i)
            want_grad[i] += static_cast<double>(before[i]);
        require_close(added, want_grad, tolerance<Acc<T>>);
    }
}

TEST_CASE("the gradient of an embedding adds distant occurrences in a long list")
{
    start_runtime();
    const EmbeddingShape shape{on_device ? 4500 : 2500, 16, 8, 0};
    const std::size_t last = static_cast<std::size_t>(shape.count) - 100;
    const auto dy = random<float>(shape.count * shape.dim, "dy");
    Tokens token = random_tokens(shape.count, "token", 0, 15);
    token[3] = token[last] = 15;
    std::vector<float> table(static_cast<std::size_t>(shape.rows * shape.dim), NAN);
    embedding_grad<float>(Exec{2}, shape, lend(dy), lend(token), lend(table), true);
    Doubles want(table.size());
    for (i64 c = 0; c < shape.count; ++c)
        for (i64 i = 0; i < shape.dim; ++i)
            want[token[c] * shape.dim + i] += static_cast<double>(dy[c * shape.dim + i]);
    require_close(table, want, tolerance<float>);
    for (i64 i = 0; i < shape.dim; ++i)
        CHECK(table[15 * shape.dim + i] == dy[3 * shape.dim + i] + dy[last * shape.dim + i]);
}

TEST_CASE("the gradient of an embedding adds rare and frequent tokens, from any address")
{
    const EmbeddingShape shape{1000, 700, 264, 9};
    Tokens token = random_tokens(shape.count, "token", 0, 720); // some are outside the table
    for (std::size_t c = 0; c < token.size(); c += 8)
        token[c] = c % 3 == 0 ? 300 : 44; // of one bucket of 64, or of 256
    const auto dy = random<bf16>(shape.count * shape.dim + 1, "dy");
    for (const i64 off : {0, 1}) { // in packs, or one by one
        Doubles want(static_cast<std::size_t>(shape.rows * shape.dim));
        for (i64 c = 0; c < shape.count; ++c)
            for (i64 i = 0; i < shape.dim; ++i)
                if (const i64 v = token[c] - shape.row_offset; v >= 0 && v < shape.rows)
                    want[v * shape.dim + i] += static_cast<double>(float(dy[off + c * shape.dim + i]));
        const auto [got] = stable([&](const Exec& exec) {
            std::vector<float> table(want.size(), NAN);
            embedding_grad<bf16>(exec, shape, lend(dy) + off, lend(token), lend(table), true);
            return std::tuple(table);
        });
        require_close(got, want, tolerance<float>);
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
                rms_norm<T>(exec, {rows, dim, 1e-6}, lend(x), lend(w), lend(out), lend(root));
                rms_norm<T>(exec, {rows, dim, 1e-6}, lend(same), lend(w), lend(same), lend(root));
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
        rms_norm<T>(exec, shape, lend(x), lend(w), lend(y), lend(rstd));
        rms_norm_grad_x<T>(exec, shape, lend(dx), lend(x), lend(w), lend(rstd), lend(dx)); // in place
        rms_norm_grad_w<T>(exec, shape, lend(dy), lend(x), lend(rstd), lend(dw), true);
        rms_norm_grad_w<T>(exec, shape, lend(dy), lend(x), lend(rstd), lend(dw2), true);
        rms_norm_grad_w<T>(exec, shape, lend(dy), lend(x), lend(rstd), lend(dw2), false);
        layer_norm<T>(exec, shape, lend(x), lend(w), nullptr, lend(y), lend(mean), lend(rstd));
        layer_norm_grad_x<T>(exec, shape, lend(dy), lend(x), lend(w), lend(mean), lend(rstd), lend(dz));
        layer_norm_grad_w<T>(exec, shape, lend(dy), lend(x), lend(mean), lend(rstd), lend(dv), true);
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
    require_close(layer_x, slope([&](const Doubles& at) { return layer(at, wide(w)); }, wide(x)), tol,
                  "layer dx");
    require_close(layer_w, slope([&](const Doubles& at) { return layer(wide(x), at); }, wide(w)), tol_w,
                  "layer dw");
    Doubles want = slope([&](const Doubles& at) { return rms(wide(x), at); }, wide(w));
    require_close(rms_w, want, tol_w, "rms dw");
    for (double& value : want)
        value *= 2;
    require_close(rms_twice, want, tol_w, "rms dw, twice");
}

TEMPLATE_TEST_CASE("norms fused with the residual sum equal add followed by the norm", "", TRV_STORAGE_TYPES)
{
    using T = TestType;
    for (const auto& [rows, dim] : shapes) {
        const i64 n = rows * dim;
        const NormShape shape{rows, dim, 1e-5};
        const auto x = random<T>(n, "x"), r = random<T>(n, "r"), w = random<T>(dim, "w"),
                   b = random<T>(dim, "b");
        const auto dy = random<T>(n, "dy"), dres = random<T>(n, "dres");
        const auto all = [&, rows = rows](auto f) {
            return stable([&](const Exec& exec) {
                std::vector<T> y(x.size()), rms(y), layer(y), rms_dx(y), layer_dx(y);
                std::vector<Acc<T>> root(static_cast<std::size_t>(rows)), mean(root), rstd(root);
                f(exec, y, rms, layer, rms_dx, layer_dx, root, mean, rstd);
                return std::tuple(y, rms, layer, rms_dx, layer_dx, root, mean, rstd);
            });
        };
        const auto apart = all([&, n = n](const Exec& exec, auto& y, auto& rms, auto& layer, auto& rms_dx,
                                          auto& layer_dx, auto& root, auto& mean, auto& rstd) {
            kernels::add<T>(exec, n, lend(x), lend(r), lend(y));
            rms_norm<T>(exec, shape, lend(y), lend(w), lend(rms), lend(root));
            rms_norm_grad_x<T>(exec, shape, lend(dy), lend(y), lend(w), lend(root), lend(rms_dx));
            kernels::add<T>(exec, n, lend(rms_dx), lend(dres), lend(rms_dx));
            layer_norm<T>(exec, shape, lend(y), lend(w), lend(b), lend(layer), lend(mean), lend(rstd));
            layer_norm_grad_x<T>(exec, shape, lend(dy), lend(y), lend(w), lend(mean), lend(rstd),
                                 lend(layer_dx));
            kernels::add<T>(exec, n, lend(dres), lend(layer_dx), lend(layer_dx));
        });
        const auto along = all([&](const Exec& exec, auto& y, auto& rms, auto& layer, auto& rms_dx,
                                   auto& layer_dx, auto& root, auto& mean, auto& rstd) {
            y = x;
            rms = r;
            add_rms_norm<T>(exec, shape, lend(y), lend(rms), lend(w), lend(y), lend(rms),
                            lend(root)); // in place
            rms_norm_grad_x_add<T>(exec, shape, lend(dy), lend(y), lend(w), lend(root), lend(dres),
                                   lend(rms_dx));
            add_layer_norm<T>(exec, shape, lend(x), lend(r), lend(w), lend(b), lend(y), lend(layer),
                              lend(mean), lend(rstd));
            layer_dx = dres;
            layer_norm_grad_x_add<T>(exec, shape, lend(dy), lend(y), lend(w), lend(mean), lend(rstd),
                                     lend(layer_dx), lend(layer_dx));
        });
        INFO(rows << " rows of " << dim);
        const auto agree = [](const auto& a, const auto& c) {
            if constexpr (on_device) // compilers may contract the same expression in two ways
                require_close(a, wide(c), tolerance<T>);
            else
                REQUIRE(same_bits(a, c));
        };
        std::apply(
            [&](const auto&... a) { std::apply([&](const auto&... c) { (agree(a, c), ...); }, apart); },
            along);
    }
}

TEMPLATE_TEST_CASE("norms of rows that fit registers or not, their weights aligned or not", "",
                   TRV_STORAGE_TYPES)
{
    using T = TestType;
    const auto combined = [](Doubles a, const Doubles& b, auto f) {
        for (std::size_t i = 0; i < a.size(); ++i)
            a[i] = f(a[i], b[i]);
        return a;
    };
    const auto sum = [&](const Doubles& a, const Doubles& b) { return combined(a, b, std::plus<>()); };
    const auto size = [&](const Doubles& a, const Doubles& b) {
        return combined(a, b, [](double v, double u) { return std::abs(v) + std::abs(u); });
    };
    // A device's lanes keep up to 4 packs of an array, or 2 of each of three. 4096 and 16384 elements fill
    // them for some type and number of lanes; 4104 and 16392 are a pack too many.
    for (const auto& [rows, dim] :
         {std::array<i64, 2>{2, 1600}, {2, 4096}, {1, 4104}, {1, 16384}, {1, 16392}})
        for (const i64 off : {0, 1}) {
            const i64 n = rows * dim;
            const NormShape shape{rows, dim, 1e-5};
            const auto x = random<T>(n, "x"), r = random<T>(n, "r"), w = random<T>(dim + off, "w"),
                       b = random<T>(dim + off, "b"), dy = random<T>(n, "dy"), dres = random<T>(n, "dres");
            const auto [y, rms, rms_dx, rms_sum, layer, layer_dx, layer_sum] =
                stable([&, rows = rows, off = off](const Exec& exec) {
                    std::vector<T> y1(x), y2(x.size()), a1(r), a2(r), d1(dy), d2(dy), s1(dres), s2(dres);
                    std::vector<Acc<T>> mean(static_cast<std::size_t>(rows)), rstd(mean);
                    add_rms_norm<T>(exec, shape, lend(y1), lend(a1), lend(w, off), lend(y1), lend(a1),
                                    lend(rstd)); // these are all in place
                    rms_norm_grad_x<T>(exec, shape, lend(d1), lend(y1), lend(w, off), lend(rstd), lend(d1));
                    rms_norm_grad_x_add<T>(exec, shape, lend(dy), lend(y1), lend(w, off), lend(rstd),
                                           lend(s1), lend(s1));
                    add_layer_norm<T>(exec, shape, lend(x), lend(a2), lend(w, off), lend(b, off), lend(y2),
                                      lend(a2), lend(mean), lend(rstd));
                    layer_norm_grad_x<T>(exec, shape, lend(d2), lend(y2), lend(w, off), lend(mean),
                                         lend(rstd), lend(d2));
                    layer_norm_grad_x_add<T>(exec, shape, lend(dy), lend(y2), lend(w, off), lend(mean),
                                             lend(rstd), lend(s2), lend(s2));
                    REQUIRE(same_bits(y1, y2));
                    return std::tuple(y1, a1, d1, s1, a2, d2, s2);
                });
            INFO(rows << " rows of " << dim << ", weights from " << off);
            Doubles ww = wide(w), wb = wide(b);
            ww.erase(ww.begin(), ww.begin() + off);
            wb.erase(wb.begin(), wb.begin() + off);
            const Doubles zero(x.size()), wy = wide(y), exact = sum(wide(x), wide(r));
            require_rounded(y, exact, size(exact, zero), "sum");
            const auto check = [&, rows = rows, dim = dim](bool centred, const Doubles& want,
                                                           const auto& norm, const auto& dx,
                                                           const auto& added) {
                require_rounded(norm, want, size(want, zero), "norm");
                const Doubles grad = reference::norm_grad_x(rows, dim, 1e-5, centred, wide(dy), wy, ww),
                              total = sum(grad, wide(dres));
                require_rounded(dx, grad, size(grad, zero), "dx");
                require_rounded(added, total, size(grad, total), "dx + dres"); // both are rounded
            };
            check(false, reference::rms_norm(rows, dim, 1e-5, wy, ww), rms, rms_dx, rms_sum);
            check(true, reference::layer_norm(rows, dim, 1e-5, wy, ww, wb), layer, layer_dx, layer_sum);
        }
}

TEMPLATE_TEST_CASE("sums of the columns of tall matrices", "", TRV_STORAGE_TYPES)
{
    using T = TestType;
    // Rows for several rounds of a device's loads, in packs and one by one; and one row more or less.
    for (const auto& [rows, columns] :
         {std::array<i64, 2>{4097, 8}, {2047, 8}, {513, 9}, {257, 9}, {255, 9}}) {
        const NormShape shape{rows, columns, 1e-5};
        const auto x = random<T>(rows * columns, "x"), dy = random<T>(rows * columns, "dy");
        const auto mean = random<Acc<T>>(rows, "mean"), rstd = random<Acc<T>>(rows, "rstd");
        const auto [total, rms_dw, layer_dw] = stable([&, rows = rows, columns = columns](const Exec& exec) {
            std::vector<Acc<T>> a(static_cast<std::size_t>(columns)), b(a), c(a);
            column_sum<T>(exec, rows, columns, lend(x), lend(a), true);
            rms_norm_grad_w<T>(exec, shape, lend(dy), lend(x), lend(rstd), lend(b), true);
            layer_norm_grad_w<T>(exec, shape, lend(dy), lend(x), lend(mean), lend(rstd), lend(c), true);
            return std::tuple(a, b, c);
        });
        Doubles sum(static_cast<std::size_t>(columns)), rms(sum), layer(sum);
        const Doubles wx = wide(x), wdy = wide(dy), wmean = wide(mean), wrstd = wide(rstd);
        for (i64 i = 0; i < rows * columns; ++i) {
            sum[i % columns] += wx[i];
            rms[i % columns] += wdy[i] * wx[i] * wrstd[i / columns];
            layer[i % columns] += wdy[i] * (wx[i] - wmean[i / columns]) * wrstd[i / columns];
        }
        INFO(rows << " rows of " << columns);
        require_close(total, sum, tolerance<Acc<T>>, "sum");
        require_close(rms_dw, rms, tolerance<Acc<T>>, "rms dw");
        require_close(layer_dw, layer, tolerance<Acc<T>>, "layer dw");
    }
}

TEMPLATE_TEST_CASE("layer_norm and column_sum", "", TRV_STORAGE_TYPES)
{
    using T = TestType;
    for (const auto& [rows, dim] : shapes) {
        const auto x = random<T>(rows * dim, "x", 3), w = random<T>(dim, "w"), b = random<T>(dim, "b");
        const auto [y, sum] = stable([&, rows = rows, dim = dim](const Exec& exec) {
            std::vector<T> out(x.size());
            std::vector<Acc<T>> mean(static_cast<std::size_t>(rows)), rstd(mean),
                total(static_cast<std::size_t>(dim));
            layer_norm<T>(exec, {rows, dim, 1e-5}, lend(x), lend(w), lend(b), lend(out), lend(mean),
                          lend(rstd));
            column_sum<T>(exec, rows, dim, lend(x), lend(total), true);
            column_sum<T>(exec, rows, dim, lend(x), lend(total), false);
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

TEMPLATE_TEST_CASE("cache_write", "", TRV_STORAGE_TYPES)
{
    using T = TestType;
    const auto x = random<T>(2 * 3 * 7, "x"), before = random<T>(2 * 9 * 7, "cache");
    const Tokens start{4, 6};
    const auto [cache] = stable([&](const Exec& exec) {
        std::vector<T> out = before;
        cache_write<T>(exec, {2, 9, 3, 7}, lend(x), lend(start), lend(out));
        return std::tuple(out);
    });
    for (i64 b = 0; b < 2; ++b)
        for (i64 t = 0; t < 9; ++t)
            for (i64 i = 0; i < 7; ++i) {
                const i64 first = start[static_cast<std::size_t>(b)];
                const T want = t >= first && t < first + 3 ? x[(b * 3 + t - first) * 7 + i]
                                                           : before[(b * 9 + t) * 7 + i];
                REQUIRE(float(cache[(b * 9 + t) * 7 + i]) == float(want));
            }
}

TEMPLATE_TEST_CASE("select_row", "", TRV_STORAGE_TYPES)
{
    using T = TestType;
    const auto x = random<T>(2 * 5 * 7, "x");
    const Tokens row{4, 1};
    const auto [y] = stable([&](const Exec& exec) {
        std::vector<T> out(2 * 7);
        select_row<T>(exec, {2, 5, 1, 7}, lend(x), lend(row), lend(out));
        return std::tuple(out);
    });
    for (i64 b = 0; b < 2; ++b)
        for (i64 i = 0; i < 7; ++i)
            REQUIRE(float(y[b * 7 + i]) == float(x[(b * 5 + row[static_cast<std::size_t>(b)]) * 7 + i]));
}

namespace {

/// `columns` elements of each row from `first` on.
template <class T>
std::vector<T> columns_of(const std::vector<T>& from, i64 row, i64 first, i64 columns)
{
    std::vector<T> made;
    for (auto at = from.begin(); at != from.end(); at += row)
        made.insert(made.end(), at + first, at + first + columns);
    return made;
}

} // namespace

TEMPLATE_TEST_CASE("rope, swiglu and column_sum of columns have the bits of dense ones", "",
                   TRV_STORAGE_TYPES)
{
    using T = TestType;
    for (const auto& [rows, n, gap] : {std::tuple<i64, i64, i64>{10, 48, 16}, {70, 192, 8}, {3, 6, 5}}) {
        const i64 row = 2 * n + gap;
        const auto whole = random<T>(rows * row, "x");
        const auto left = columns_of(whole, row, 0, n), right = columns_of(whole, row, n, n);
        const auto dy = random<T>(rows * n, "dy");
        const Tokens pos = random_tokens(rows, "pos", 0, 40);
        const i64 e = n / 3;
        std::vector<Acc<T>> table(static_cast<std::size_t>(40 * e));
        fill_rope_table({.theta = 500}, e / 2, 40, table.data());
        const auto [turned, y, dgate, dup, sum] = stable([&, rows = rows, n = n](const Exec& exec) {
            std::vector<T> a = right, b(left.size()), c(left.size()), d(left.size());
            std::vector<Acc<T>> total(static_cast<std::size_t>(n));
            rope<T>(exec, {1, rows, 3, e, e / 2}, lend(right), lend(pos), lend(table), false, lend(a));
            const i64 size = rows * n;
            swiglu<T>(exec, 1, size, {lend(left), size}, {lend(right), size}, {lend(b), size});
            swiglu_grad<T>(exec, 1, size, {lend(dy), size}, {lend(left), size}, {lend(right), size},
                           {lend(c), size}, {lend(d), size});
            column_sum<T>(exec, rows, n, lend(right), lend(total), true);
            return std::tuple(a, b, c, d, total);
        });
        const auto [turned_at, y_at, both, sum_of] = stable([&, rows = rows, n = n](const Exec& exec) {
            std::vector<T> a = whole, b = whole, c = whole;
            std::vector<Acc<T>> total(static_cast<std::size_t>(n));
            RopeShape shape{1, rows, 3, e, e / 2};
            shape.x_row = shape.y_row = row;
            {
                auto&& x = lend(a);
                rope<T>(exec, shape, x + n, lend(pos), lend(table), false, x + n);
            }
            {
                auto&& x = lend(b);
                swiglu<T>(exec, rows, n, {x, row}, {x + n, row}, {x, row}); // in the place of gate
            }
            {
                auto&& x = lend(c);
                swiglu_grad<T>(exec, rows, n, {lend(dy), n}, {x, row}, {x + n, row}, {x, row}, {x + n, row});
            }
            {
                auto&& x = lend(whole);
                column_sum<T>(exec, rows, n, x + n, lend(total), true, row);
            }
            return std::tuple(a, b, c, total);
        });
        CHECK(same_bits(columns_of(turned_at, row, n, n), turned));
        CHECK(same_bits(columns_of(y_at, row, 0, n), y));
        CHECK(same_bits(columns_of(both, row, 0, n), dgate));
        CHECK(same_bits(columns_of(both, row, n, n), dup));
        CHECK(same_bits(sum_of, sum));
        for (const auto* result : {&turned_at, &y_at, &both}) // nothing else is written
            CHECK(same_bits(columns_of(*result, row, 2 * n, gap), columns_of(whole, row, 2 * n, gap)));
    }
}
