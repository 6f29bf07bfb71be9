#pragma once
// The products with which both forms of the kernels, host and device, are tested, against sums in double.
#include "kernels/gemm.hpp"
#include "reference.hpp"
#include "support.hpp"

#include <utility>

namespace trivium::kernels {

/// The operands and results of a product, on the host.
template <class T, class Out>
struct ProductData {
    std::vector<T> a, b, bias;
    std::vector<Out> c;
    std::vector<Out> pre; ///< of C's type
};

/// Runs the product on `data`, in place.
template <class T, class Out>
using RunProduct = std::function<void(const ProductShape&, bool overwrite, ProductData<T, Out>& data)>;

inline std::string name_of(const ProductShape& s)
{
    return str("m ", s.m, " n ", s.n, " k ", s.k, " batch ", s.batch, " ta ", s.transpose_a, " tb ",
               s.transpose_b, " epilogue ", static_cast<int>(s.epilogue), " rows ", s.row_a, ", ", s.row_b);
}

/// All rows of a small product, some of a large one, whose sums in double would take too long.
inline std::vector<i64> rows_to_check(const ProductShape& s)
{
    std::vector<i64> rows;
    const bool all = s.m * s.n * s.k < 20'000'000;
    for (const i64 r : {i64{0}, s.m / 3, s.m / 2 + 1, s.m - 1})
        if (!all)
            rows.push_back(r);
    for (i64 r = 0; all && r < s.m; ++r)
        rows.push_back(r);
    return rows;
}

inline double gelu_slope(double x)
{
    const double root = std::sqrt(2 / 3.14159265358979323846),
                 t = std::tanh(root * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * root * (1 + 3 * 0.044715 * x * x);
}

/// Runs a product that overwrites, and without an epilogue also one that accumulates, and compares.
template <class T, class Out>
void check_product(ProductShape shape, const RunProduct<T, Out>& run, double tol)
{
    shape.in = dtype_of<T>;
    shape.out = dtype_of<Out>;
    const i64 row_a = shape.row_of_a(), row_b = shape.row_of_b();
    const i64 size_a = (shape.transpose_a ? shape.k : shape.m) * row_a,
              size_b = (shape.transpose_b ? shape.n : shape.k) * row_b, size_c = shape.m * shape.n;
    if (shape.batch > 1)
        shape.stride_c = size_c;
    INFO(name_of(shape));
    ProductData<T, Out> before;
    before.a = random<T>(size_a + (shape.batch - 1) * shape.stride_a, "a");
    before.b = random<T>(size_b + (shape.batch - 1) * shape.stride_b, "b");
    before.c = random<Out>(size_c * shape.batch, "c");
    if (shape.epilogue != Epilogue::none) {
        before.bias = random<T>(shape.n, "bias");
        before.pre = random<Out>(size_c, "pre");
    }
    const Doubles bias = wide(before.bias), pre = wide(before.pre), c = wide(before.c);
    for (const bool overwrite : {true, false}) {
        if (!overwrite && shape.epilogue != Epilogue::none)
            continue;
        INFO((overwrite ? "overwrite" : "accumulate"));
        ProductData<T, Out> after = before;
        run(shape, overwrite, after);
        std::vector<Out> got, got_pre;
        Doubles want, want_pre;
        for (i64 i = 0; i < shape.batch; ++i)
            for (const i64 row : rows_to_check(shape))
                for (i64 col = 0; col < shape.n; ++col) {
                    double sum = 0;
                    for (i64 p = 0; p < shape.k; ++p) {
                        const auto at_a = static_cast<std::size_t>(
                            i * shape.stride_a + (shape.transpose_a ? p * row_a + row : row * row_a + p));
                        const auto at_b = static_cast<std::size_t>(
                            i * shape.stride_b + (shape.transpose_b ? col * row_b + p : p * row_b + col));
                        sum += static_cast<double>(static_cast<Acc<T>>(before.a[at_a])) *
                               static_cast<double>(static_cast<Acc<T>>(before.b[at_b]));
                    }
                    const auto at = static_cast<std::size_t>(i * size_c + row * shape.n + col);
                    if (shape.epilogue == Epilogue::bias || shape.epilogue == Epilogue::bias_gelu)
                        sum += bias[static_cast<std::size_t>(col)];
                    if (shape.epilogue == Epilogue::bias_gelu) {
                        want_pre.push_back(sum);
                        got_pre.push_back(after.pre[at]);
                        sum = reference::gelu(sum);
                    }
                    if (shape.epilogue == Epilogue::gelu_grad)
                        sum *= gelu_slope(pre[at]);
                    if (shape.epilogue == Epilogue::add)
                        sum += pre[at];
                    want.push_back(overwrite ? sum : sum + c[at]);
                    got.push_back(after.c[at]);
                }
        require_close(got, want, tol, "c");
        require_close(got_pre, want_pre, tol, "pre");
    }
}

/// Every layout and odd sizes, every epilogue if the types are the same, strided and shared batches, operands
/// that are columns of wider matrices.
template <class T, class Out>
void check_products(const RunProduct<T, Out>& run, double tol)
{
    const i64 sizes[][3] = {{1, 1, 1},    {1, 17, 3},   {17, 1, 5},    {3, 5, 1},     {127, 131, 137},
                            {64, 64, 64}, {1, 300, 64}, {128, 48, 96}, {33, 257, 50}, {2, 2, 1500}};
    std::vector<Epilogue> epilogues{Epilogue::none};
    if (std::is_same_v<T, Out>)
        epilogues.insert(epilogues.end(),
                         {Epilogue::bias, Epilogue::bias_gelu, Epilogue::gelu_grad, Epilogue::add});
    for (const bool transpose_a : {false, true})
        for (const bool transpose_b : {false, true}) {
            for (const auto& [m, n, k] : sizes)
                for (const Epilogue epilogue : epilogues) {
                    ProductShape shape{m, n, k, transpose_a, transpose_b};
                    shape.epilogue = epilogue;
                    check_product<T, Out>(shape, run, tol);
                }
            for (const Epilogue epilogue : epilogues)
                for (const auto& [row_a, row_b] : {std::pair<i64, i64>{240, 0}, {0, 200}, {240, 200}})
                    for (const i64 m : {48, 144}) {
                        ProductShape shape{m, 64, 96, transpose_a, transpose_b};
                        shape.epilogue = epilogue;
                        shape.row_a = row_a;
                        shape.row_b = row_b;
                        check_product<T, Out>(shape, run, tol);
                    }
            for (const auto& [stride_a, stride_b] : {std::pair<i64, i64>{63, 140}, {63, 0}, {0, 140}})
                check_product<T, Out>(
                    {9, 20, 7, transpose_a, transpose_b, DType::f32, DType::f32, 3, stride_a, stride_b}, run,
                    tol);
        }
}

} // namespace trivium::kernels
