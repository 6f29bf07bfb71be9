// Matrix products of the models' blocks and heads, forward and backward, with their epilogues.
#include "bench.hpp"
#include "kernels/gemm.hpp"
#include "kernels/reference.hpp"

#include <cmath>
#include <fmt/format.h>

namespace trivium {

using namespace kernels;

namespace {

struct Operand {
    const Array<bf16>& tensor;
    bool transposed;
    i64 rows, columns; ///< as it is used
    Fp8 format;
    double scale;

    double at(i64 row, i64 column) const
    {
        const double x = tensor.at(transposed ? column * rows + row : row * columns + column);
        return format == Fp8::none
                   ? x
                   : fp8_decode(fp8_encode(static_cast<float>(x * scale), format), format) / scale;
    }
};

double scale_of(const Array<bf16>& tensor, Fp8 format)
{
    return format == Fp8::none ? 1 : fp8_scale(static_cast<float>(tensor.largest()), format);
}

double gelu_slope(double x) { return (reference::gelu(x + 1e-4) - reference::gelu(x - 1e-4)) / 2e-4; }

std::string name_of(const ProductShape& s, bool overwrite)
{
    static constexpr const char* epilogues[] = {"", " +bias", " +bias+gelu", " *gelu'"};
    return fmt::format("product {}x{}x{} {}{}{}{}{}", s.m, s.n, s.k, s.transpose_a ? 't' : 'n',
                       s.transpose_b ? 't' : 'n', epilogues[static_cast<int>(s.epilogue)],
                       s.fp8_a == Fp8::none ? "" : " fp8", overwrite ? "" : " += f32");
}

enum class Rows { one, ceiling, algorithms };

/// An accumulated gradient (out f32, not `overwrite`) adds to the existing content.
template <class Out>
void bench_product(Bench& bench, ProductShape s, bool overwrite = true, Rows rows = Rows::one)
{
    s.in = DType::bf16;
    s.out = dtype_of<Out>;
    const double out_bytes = static_cast<double>(sizeof(Out)) * static_cast<double>(s.m * s.n);
    const bool pre_used = s.epilogue == Epilogue::bias_gelu || s.epilogue == Epilogue::gelu_grad;
    const double bytes = 2.0 * static_cast<double>(s.m * s.k + s.k * s.n) +
                         out_bytes * (1 + (overwrite ? 0 : 1) + (pre_used ? 1 : 0));
    const double flops = 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
    const int sets = bench.sets(bytes);
    const Array<bf16> a = Array<bf16>(bench.bed, s.m * s.k, sets).random("a"),
                      b = Array<bf16>(bench.bed, s.k * s.n, sets)
                              .random("b", 1 / std::sqrt(static_cast<double>(s.k))),
                      bias = Array<bf16>(bench.bed, s.n, sets).random("bias");
    Array<Out> c(bench.bed, s.m * s.n, sets), pre(bench.bed, pre_used ? s.m * s.n : 1, sets);
    const auto fill_sums = [&] {
        if (!overwrite)
            c = Array<Out>(bench.bed, s.m * s.n, sets).random("c");
    };
    fill_sums();
    if (s.epilogue == Epilogue::gelu_grad)
        pre = Array<Out>(bench.bed, s.m * s.n, sets).random("pre");
    Product product(s, bench.bed.exec().threads);
    const Bytes size = rows == Rows::algorithms ? usual_product_scratch : product.scratch_bytes();
    const std::shared_ptr<void> scratch = bench.bed.allocate(size);
    const Operand wide_a{a, s.transpose_a, s.m, s.k, s.fp8_a, scale_of(a, s.fp8_a)};
    const Operand wide_b{b, s.transpose_b, s.k, s.n, s.fp8_b, scale_of(b, s.fp8_b)};
    const double tolerance = s.fp8_a != Fp8::none || std::is_same_v<Out, bf16> ? tolerance_bf16 : 1e-4;

    Case test{name_of(s, overwrite),
              bytes,
              flops,
              tolerance,
              [&](const Exec& e, int set) {
                  product.run(e, a.get(set), b.get(set), c.get(set), overwrite, {scratch.get(), size},
                              {bias.get(set), pre.get(set)});
              },
              [&] {
                  Errors errors, pre_errors;
                  for (const i64 i : bench.sample(s.m, 8)) {
                      const std::vector<double> row = c.read(i * s.n, s.n),
                                                before = pre_used ? pre.read(i * s.n, s.n) : row;
                      for (const i64 j : bench.sample(s.n, 16)) {
                          double want = overwrite ? 0 : c.at(i * s.n + j);
                          for (i64 p = 0; p < s.k; ++p)
                              want += wide_a.at(i, p) * wide_b.at(p, j);
                          if (s.epilogue == Epilogue::bias || s.epilogue == Epilogue::bias_gelu)
                              want += bias.at(j);
                          if (s.epilogue == Epilogue::bias_gelu) {
                              pre_errors.add(before[static_cast<std::size_t>(j)], want);
                              want = reference::gelu(want);
                          }
                          if (s.epilogue == Epilogue::gelu_grad)
                              want *= gelu_slope(pre.at(i * s.n + j));
                          errors.add(row[static_cast<std::size_t>(j)], want);
                      }
                  }
                  return s.epilogue == Epilogue::bias_gelu ? std::max(errors.largest(), pre_errors.largest())
                                                           : errors.largest();
              }};
    if (rows == Rows::ceiling)
        bench.measure_product(test);
    else if (rows == Rows::one)
        bench.measure(test);
    else
        for (int algorithm = 0; product.take(algorithm); ++algorithm) {
            fill_sums(); // the last algorithm has added to them
            test.name = fmt::format("{}, algorithm {}", name_of(s, overwrite), algorithm);
            bench.measure(test);
        }
}

/// y = x w, with x [tokens, in] and w [in, out]: forward and both gradients.
void bench_linear(Bench& bench, i64 tokens, i64 in, i64 out, Epilogue forward = Epilogue::none,
                  Epilogue backward = Epilogue::none, Rows rows = Rows::one)
{
    ProductShape y{tokens, out, in}, dx{tokens, in, out, false, true};
    y.epilogue = forward;
    dx.epilogue = backward;
    bench_product<bf16>(bench, y, true, rows);
    bench_product<bf16>(bench, dx, true, rows);
    bench_product<float>(bench, {in, out, tokens, true, false}, false, rows);
}

} // namespace

void bench_ceilings(Bench& bench)
{
    bench.measure_copy();
    const i64 n = bench.tiny() ? 96 : 8192;
    bench_product<bf16>(bench, {n, n, n}, true, Rows::ceiling);
}

void bench_products(Bench& bench, const Sizes& z)
{
    const i64 tokens = z.tokens(), heads = z.kv_heads * z.q_per_kv * z.head_dim,
              keys = z.kv_heads * z.head_dim;
    if (z.name == std::string("gpt2")) {
        bench_linear(bench, tokens, z.dim, 3 * z.dim, Epilogue::bias);
        bench_linear(bench, tokens, z.dim, z.dim, Epilogue::bias);
        bench_linear(bench, tokens, z.dim, z.ffn, Epilogue::bias_gelu);
        bench_linear(bench, tokens, z.ffn, z.dim, Epilogue::bias, Epilogue::gelu_grad);
    } else {
        bench_linear(bench, tokens, z.dim, heads + 2 * keys);
        bench_linear(bench, tokens, heads, z.dim);
        bench_linear(bench, tokens, z.dim, z.ffn);
        bench_linear(bench, tokens, z.ffn, z.dim);
        ProductShape fp8{tokens, z.ffn, z.dim};
        fp8.fp8_a = fp8.fp8_b = Fp8::e4m3;
        bench_product<bf16>(bench, fp8);
    }
    bench_product<bf16>(bench, {tokens, z.vocab, z.dim, false, true});
    bench_product<bf16>(bench, {tokens, z.dim, z.vocab});
    bench_product<float>(bench, {z.vocab, z.dim, tokens, true, false}, false);
}

void bench_algorithms(Bench& bench, const Sizes& z)
{
    const i64 tokens = z.tokens(), heads = z.kv_heads * z.q_per_kv * z.head_dim;
    const bool gpt2 = z.name == std::string("gpt2");
    const Epilogue bias = gpt2 ? Epilogue::bias : Epilogue::none;
    bench_linear(bench, tokens, z.dim, heads, bias, Epilogue::none, Rows::algorithms);
    bench_linear(bench, tokens, z.dim, z.ffn, gpt2 ? Epilogue::bias_gelu : Epilogue::none, Epilogue::none,
                 Rows::algorithms);
    bench_linear(bench, tokens, z.ffn, z.dim, bias, gpt2 ? Epilogue::gelu_grad : Epilogue::none,
                 Rows::algorithms);
}

} // namespace trivium
