// Norms, elementwise kernels, rotary embedding: rows [tokens, width] in bf16.
#include "bench.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/norm.hpp"
#include "kernels/reference.hpp"
#include "kernels/rope.hpp"
#include "kernels/rope_table.hpp"

#include <fmt/format.h>

namespace trivium {

using namespace kernels;
using Doubles = std::vector<double>;

namespace {

constexpr double eps = 1e-5;

/// Shared by the norms of one model: inputs and results, of which a case uses some.
struct NormArrays {
    NormArrays(const Bench& bench, i64 rows, i64 dim, int sets)
        : x(Array<bf16>(bench.bed, rows * dim, sets).random("x")),
          r(Array<bf16>(bench.bed, rows * dim, sets).random("r")),
          dy(Array<bf16>(bench.bed, rows * dim, sets).random("dy")),
          w(Array<bf16>(bench.bed, dim, sets).random("w", 0.2, 1)),
          b(Array<bf16>(bench.bed, dim, sets).random("b", 0.2)),
          mean_in(Array<float>(bench.bed, rows, sets).random("mean", 0.1)),
          rstd_in(Array<float>(bench.bed, rows, sets).random("rstd", 0.1, 1)), y(bench.bed, rows * dim, sets),
          n(bench.bed, rows * dim, sets), mean(bench.bed, rows, sets), rstd(bench.bed, rows, sets),
          dw(Array<float>(bench.bed, dim, sets).random("dw"))
    {
    }
    Array<bf16> x, r, dy, w, b;
    Array<float> mean_in, rstd_in;
    Array<bf16> y, n;
    Array<float> mean, rstd, dw;
};

/// The gradient of a norm for its input, for the row `row`; a mean of 0 is RMSNorm's.
Doubles norm_grad_x(const NormArrays& a, i64 row, i64 dim, bool centred)
{
    const Doubles dy = a.dy.filled(row * dim, dim), x = a.x.filled(row * dim, dim), w = a.w.filled(0, dim);
    const double mean = centred ? a.mean_in.at(row) : 0, rstd = a.rstd_in.at(row),
                 count = static_cast<double>(dim);
    double sum = 0, dot = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        sum += dy[i] * w[i] / count;
        dot += dy[i] * w[i] * (x[i] - mean) * rstd / count;
    }
    Doubles dx(x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
        dx[i] = rstd * (dy[i] * w[i] - (centred ? sum : 0) - (x[i] - mean) * rstd * dot);
    return dx;
}

void bench_norms(Bench& bench, const Sizes& z)
{
    const bool centred = z.name == std::string("gpt2");
    const i64 rows = z.tokens(), dim = z.dim;
    const double tensor = 2.0 * static_cast<double>(rows * dim);
    const NormArrays a(bench, rows, dim, bench.sets(2 * tensor));
    const NormShape shape{rows, dim, eps};
    const std::vector<i64> some = bench.sample(rows, 8);
    const std::string norm = centred ? "layer_norm" : "rms_norm", at = fmt::format(" {}x{}", rows, dim);

    const auto forward = [&](const Doubles& x) {
        return centred ? reference::layer_norm(1, dim, eps, x, a.w.filled(0, dim), a.b.filled(0, dim))
                       : reference::rms_norm(1, dim, eps, x, a.w.filled(0, dim));
    };
    bench.measure({norm + at, 2 * tensor, 0, tolerance_bf16,
                   [&](const Exec& e, int s) {
                       if (centred)
                           layer_norm(e, shape, a.x.get(s), a.w.get(s), a.b.get(s), a.y.get(s), a.mean.get(s),
                                      a.rstd.get(s));
                       else
                           rms_norm(e, shape, a.x.get(s), a.w.get(s), a.y.get(s), a.rstd.get(s));
                   },
                   [&] {
                       Errors errors;
                       for (const i64 row : some)
                           errors.add(a.y.read(row * dim, dim), forward(a.x.filled(row * dim, dim)));
                       return errors.largest();
                   }});
    bench.measure({"add_" + norm + at, 4 * tensor, 0, tolerance_bf16,
                   [&](const Exec& e, int s) {
                       if (centred)
                           add_layer_norm(e, shape, a.x.get(s), a.r.get(s), a.w.get(s), a.b.get(s),
                                          a.y.get(s), a.n.get(s), a.mean.get(s), a.rstd.get(s));
                       else
                           add_rms_norm(e, shape, a.x.get(s), a.r.get(s), a.w.get(s), a.y.get(s), a.n.get(s),
                                        a.rstd.get(s));
                   },
                   [&] {
                       Errors errors;
                       for (const i64 row : some) {
                           Doubles sum = a.x.filled(row * dim, dim);
                           const Doubles r = a.r.filled(row * dim, dim);
                           for (std::size_t i = 0; i < sum.size(); ++i)
                               sum[i] = static_cast<double>(
                                   static_cast<float>(bf16(static_cast<float>(sum[i] + r[i]))));
                           errors.add(a.y.read(row * dim, dim), sum);
                           errors.add(a.n.read(row * dim, dim), forward(sum));
                       }
                       return errors.largest();
                   }});
    bench.measure({norm + "_grad_x" + at, 3 * tensor, 0, tolerance_bf16,
                   [&](const Exec& e, int s) {
                       if (centred)
                           layer_norm_grad_x(e, shape, a.dy.get(s), a.x.get(s), a.w.get(s), a.mean_in.get(s),
                                             a.rstd_in.get(s), a.y.get(s));
                       else
                           rms_norm_grad_x(e, shape, a.dy.get(s), a.x.get(s), a.w.get(s), a.rstd_in.get(s),
                                           a.y.get(s));
                   },
                   [&] {
                       Errors errors;
                       for (const i64 row : some)
                           errors.add(a.y.read(row * dim, dim), norm_grad_x(a, row, dim, centred));
                       return errors.largest();
                   }});
    bench.measure({norm + "_grad_x_add" + at, 4 * tensor, 0, tolerance_bf16,
                   [&](const Exec& e, int s) {
                       if (centred)
                           layer_norm_grad_x_add(e, shape, a.dy.get(s), a.x.get(s), a.w.get(s),
                                                 a.mean_in.get(s), a.rstd_in.get(s), a.r.get(s), a.y.get(s));
                       else
                           rms_norm_grad_x_add(e, shape, a.dy.get(s), a.x.get(s), a.w.get(s),
                                               a.rstd_in.get(s), a.r.get(s), a.y.get(s));
                   },
                   [&] {
                       Errors errors;
                       for (const i64 row : some) {
                           Doubles dx = norm_grad_x(a, row, dim, centred);
                           for (i64 i = 0; i < dim; ++i)
                               dx[static_cast<std::size_t>(i)] += a.r.at(row * dim + i);
                           errors.add(a.y.read(row * dim, dim), dx);
                       }
                       return errors.largest();
                   }});
    // Over all rows, for some columns. Adds to the existing content.
    bench.measure(
        {norm + "_grad_w" + at, 2 * tensor, 0, tolerance_f32,
         [&](const Exec& e, int s) {
             if (centred)
                 layer_norm_grad_w(e, shape, a.dy.get(s), a.x.get(s), a.mean_in.get(s), a.rstd_in.get(s),
                                   a.dw.get(s), false);
             else
                 rms_norm_grad_w(e, shape, a.dy.get(s), a.x.get(s), a.rstd_in.get(s), a.dw.get(s), false);
         },
         [&] {
             Errors errors;
             for (const i64 i : bench.sample(dim, 8)) {
                 double sum = a.dw.at(i);
                 for (i64 row = 0; row < rows; ++row)
                     sum += a.dy.at(row * dim + i) *
                            (a.x.at(row * dim + i) - (centred ? a.mean_in.at(row) : 0)) * a.rstd_in.at(row);
                 errors.add(a.dw.read(i, 1)[0], sum);
             }
             return errors.largest();
         }});
}

/// y[i] = f(inputs[i]…) for elements at the ends and between.
double compare(const Bench& bench, const Array<bf16>& y, const std::function<double(i64)>& f)
{
    Errors errors;
    const i64 piece = std::min<i64>(y.size(), 256);
    for (const i64 first : bench.sample(y.size() - piece + 1, 8)) {
        const Doubles got = y.read(first, piece);
        for (i64 i = 0; i < piece; ++i)
            errors.add(got[static_cast<std::size_t>(i)], f(first + i));
    }
    return errors.largest();
}

void bench_elements(Bench& bench, const Sizes& z)
{
    const i64 rows = z.tokens(), n = rows * z.ffn;
    const double tensor = 2.0 * static_cast<double>(n);
    const int sets = bench.sets(2 * tensor);
    const Array<bf16> x = Array<bf16>(bench.bed, n, sets).random("gate", 2),
                      u = Array<bf16>(bench.bed, n, sets).random("up"),
                      dy = Array<bf16>(bench.bed, n, sets).random("dy"), y(bench.bed, n, sets),
                      v(bench.bed, n, sets);
    const std::string at = fmt::format(" {}x{}", rows, z.ffn);
    const double step = 1e-4; // of central differences
    if (z.name == std::string("gpt2")) {
        const Array<float> sum = Array<float>(bench.bed, z.ffn, sets).random("sum");
        bench.measure({"gelu" + at, 2 * tensor, 0, tolerance_bf16,
                       [&](const Exec& e, int s) { gelu(e, n, x.get(s), y.get(s)); },
                       [&] { return compare(bench, y, [&](i64 i) { return reference::gelu(x.at(i)); }); }});
        bench.measure({"gelu_grad" + at, 3 * tensor, 0, tolerance_bf16,
                       [&](const Exec& e, int s) { gelu_grad(e, n, dy.get(s), x.get(s), y.get(s)); },
                       [&] {
                           return compare(bench, y, [&](i64 i) {
                               return dy.at(i) *
                                      (reference::gelu(x.at(i) + step) - reference::gelu(x.at(i) - step)) /
                                      (2 * step);
                           });
                       }});
        bench.measure({"column_sum" + at, tensor, 0, tolerance_f32,
                       [&](const Exec& e, int s) { column_sum(e, rows, z.ffn, x.get(s), sum.get(s), false); },
                       [&] {
                           Errors errors;
                           for (const i64 i : bench.sample(z.ffn, 8)) {
                               double want = sum.at(i);
                               for (i64 row = 0; row < rows; ++row)
                                   want += x.at(row * z.ffn + i);
                               errors.add(sum.read(i, 1)[0], want);
                           }
                           return errors.largest();
                       }});
        return;
    }
    bench.measure(
        {"swiglu" + at, 3 * tensor, 0, tolerance_bf16,
         [&](const Exec& e, int s) {
             swiglu<bf16>(e, 1, n, {x.get(s), n}, {u.get(s), n}, {y.get(s), n});
         },
         [&] { return compare(bench, y, [&](i64 i) { return reference::swiglu(x.at(i), u.at(i)); }); }});
    bench.measure(
        {"swiglu_grad" + at, 5 * tensor, 0, tolerance_bf16,
         [&](const Exec& e, int s) {
             swiglu_grad<bf16>(e, 1, n, {dy.get(s), n}, {x.get(s), n}, {u.get(s), n}, {y.get(s), n},
                               {v.get(s), n});
         },
         [&] {
             const auto slope = [&](i64 i) {
                 return (reference::swiglu(x.at(i) + step, 1) - reference::swiglu(x.at(i) - step, 1)) /
                        (2 * step);
             };
             return std::max(
                 compare(bench, y, [&](i64 i) { return dy.at(i) * u.at(i) * slope(i); }),
                 compare(bench, v, [&](i64 i) { return dy.at(i) * reference::swiglu(x.at(i), 1); }));
         }});
    bench.measure({"add" + at, 3 * tensor, 0, tolerance_bf16,
                   [&](const Exec& e, int s) { kernels::add(e, n, x.get(s), u.get(s), y.get(s)); },
                   [&] { return compare(bench, y, [&](i64 i) { return x.at(i) + u.at(i); }); }});
}

void bench_casts(Bench& bench, const Sizes& z)
{
    const i64 n = z.dim * z.ffn;
    const double count = static_cast<double>(n);
    const int sets = bench.sets(6 * count);
    const Array<float> x = Array<float>(bench.bed, n, sets).random("x"),
                       acc = Array<float>(bench.bed, n, sets).random("acc");
    const Array<bf16> y(bench.bed, n, sets), z16 = Array<bf16>(bench.bed, n, sets).random("y");
    bench.measure({fmt::format("cast f32 to bf16, {}x{}", z.dim, z.ffn), 6 * count, 0, tolerance_bf16,
                   [&](const Exec& e, int s) { cast(e, n, x.get(s), y.get(s)); },
                   [&] { return compare(bench, y, [&](i64 i) { return x.at(i); }); }});
    bench.measure({fmt::format("accumulate bf16 in f32, {}x{}", z.dim, z.ffn), 10 * count, 0, tolerance_f32,
                   [&](const Exec& e, int s) { accumulate(e, n, acc.get(s), z16.get(s), false); },
                   [&] {
                       Errors errors;
                       for (const i64 i : bench.sample(n, 64))
                           errors.add(acc.read(i, 1)[0], acc.at(i) + z16.at(i));
                       return errors.largest();
                   }});
}

void bench_rope(Bench& bench, const Sizes& z)
{
    const i64 heads = z.kv_heads * z.q_per_kv, width = heads * z.head_dim, n = z.tokens() * width;
    const double tensor = 2.0 * static_cast<double>(n), theta = 500000;
    const int sets = bench.sets(2 * tensor);
    std::vector<float> angles(static_cast<std::size_t>(z.seq * z.head_dim));
    fill_rope_table({.theta = theta}, z.head_dim / 2, z.seq, angles.data());
    std::vector<std::int32_t> positions;
    for (i64 i = 0; i < z.tokens(); ++i)
        positions.push_back(static_cast<std::int32_t>(i % z.seq));
    const Array<bf16> x = Array<bf16>(bench.bed, n, sets).random("x"), y(bench.bed, n, sets);
    const Array<float> table = Array<float>(bench.bed, static_cast<i64>(angles.size()), sets).of(angles);
    const Array<std::int32_t> pos = Array<std::int32_t>(bench.bed, z.tokens(), sets).of(positions);
    const RopeShape shape{z.batch, z.seq, heads, z.head_dim, z.head_dim / 2};
    bench.measure(
        {fmt::format("rope {}x{}x{}", z.tokens(), heads, z.head_dim), 2 * tensor, 0, tolerance_bf16,
         [&](const Exec& e, int s) { rope(e, shape, x.get(s), pos.get(s), table.get(s), false, y.get(s)); },
         [&] {
             Errors errors;
             for (const i64 row : bench.sample(z.tokens(), 8))
                 errors.add(y.read(row * width, width),
                            reference::rope({1, heads, z.head_dim, z.head_dim / 2}, theta,
                                            {positions[static_cast<std::size_t>(row)]},
                                            x.filled(row * width, width)));
             return errors.largest();
         }});
}

} // namespace

void bench_rows(Bench& bench, const Sizes& sizes)
{
    bench_norms(bench, sizes);
    bench_elements(bench, sizes);
    bench_casts(bench, sizes);
    if (sizes.name == std::string("llama"))
        bench_rope(bench, sizes);
}

} // namespace trivium
