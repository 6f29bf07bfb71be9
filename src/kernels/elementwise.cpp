#include "kernels/elementwise.hpp"

#include "kernels/blocks.hpp"
#include "kernels/instantiate.hpp"
#include "kernels/math.hpp"
#include "row_parallel.hpp"

namespace trivium::kernels {

namespace {

// Functors, because dense matrices are one range and others a row per team.
template <class A>
struct Swiglu {
    KOKKOS_FUNCTION A operator()(A g, A u) const { return g * sigmoid(g) * u; }
};
template <class A>
struct SwigluGrad {
    KOKKOS_FUNCTION Values<A, 2> operator()(A d, A g, A u) const
    {
        const A s = sigmoid(g);
        return Values<A, 2>{{d * u * s * (1 + g * (1 - s)), d * g * s}};
    }
};

template <class... Matrices>
bool dense(i64 rows, i64 columns, const Matrices&... matrices)
{
    return rows == 1 || ((matrices.apart == columns) && ...);
}

} // namespace

template <class T>
void swiglu(const Exec& exec, i64 rows, i64 columns, RowsOf<const T> gate, RowsOf<const T> up, RowsOf<T> y)
{
    using A = Acc<T>;
    if (dense(rows, columns, gate, up, y))
        return map(exec, "swiglu", rows * columns, Swiglu<A>(), y.at, gate.at, up.at);
    for_rows<T>(
        exec, "swiglu", rows, columns, KOKKOS_LAMBDA(const Row& row, i64 r) {
            row.map(columns, Swiglu<A>(), y.at + r * y.apart, gate.at + r * gate.apart, up.at + r * up.apart);
        });
}

template <class T>
void swiglu_grad(const Exec& exec, i64 rows, i64 columns, RowsOf<const T> dy, RowsOf<const T> gate,
                 RowsOf<const T> up, RowsOf<T> dgate, RowsOf<T> dup)
{
    using A = Acc<T>;
    if (dense(rows, columns, dy, gate, up, dgate, dup))
        return map(exec, "swiglu_grad", rows * columns, SwigluGrad<A>(), Targets<T, 2>{{dgate.at, dup.at}},
                   dy.at, gate.at, up.at);
    for_rows<T>(
        exec, "swiglu_grad", rows, columns, KOKKOS_LAMBDA(const Row& row, i64 r) {
            row.map(columns, SwigluGrad<A>(),
                    Targets<T, 2>{{dgate.at + r * dgate.apart, dup.at + r * dup.apart}}, dy.at + r * dy.apart,
                    gate.at + r * gate.apart, up.at + r * up.apart);
        });
}

namespace {

// gelu(x) = x/2 (1 + tanh(h)) = x sigmoid(2h) with 2h = x (a + b x^2).
template <class A>
inline constexpr A gelu_a = A(1.5957691216057308); // 2 sqrt(2/pi)
template <class A>
inline constexpr A gelu_b = A(0.071354816272600248); // 0.044715 gelu_a

} // namespace

template <class T>
void gelu(const Exec& exec, i64 n, const T* x, T* y)
{
    using A = Acc<T>;
    map(
        exec, "gelu", n, KOKKOS_LAMBDA(A v) { return v * sigmoid(v * (gelu_a<A> + gelu_b<A> * v * v)); }, y,
        x);
}

template <class T>
void gelu_grad(const Exec& exec, i64 n, const T* dy, const T* x, T* dx)
{
    using A = Acc<T>;
    map(
        exec, "gelu_grad", n,
        KOKKOS_LAMBDA(A d, A v) {
            const A a = gelu_a<A>, b = gelu_b<A>, s = sigmoid(v * (a + b * v * v));
            return d * s * (1 + v * (1 - s) * (a + 3 * b * v * v));
        },
        dx, dy, x);
}

template <class T>
void add(const Exec& exec, i64 n, const T* x, const T* y, T* z)
{
    using A = Acc<T>;
    map(
        exec, "add", n, KOKKOS_LAMBDA(A a, A b) { return a + b; }, z, x, y);
}

template <class T>
void bias_add(const Exec& exec, i64 rows, i64 columns, const T* x_rn, const T* b_n, T* y_rn)
{
    using A = Acc<T>;
    for_rows<T>(
        exec, "bias_add", rows, columns, KOKKOS_LAMBDA(const Row& row, i64 r) {
            row.map(
                columns, [](A a, A b) { return a + b; }, y_rn + r * columns, x_rn + r * columns, b_n);
        });
}

template <class T>
void fill(const Exec& exec, i64 n, double value, T* y)
{
    const auto v = static_cast<Acc<T>>(value);
    map(
        exec, "fill", n, KOKKOS_LAMBDA() { return v; }, y);
}

template <class From, class To>
void cast(const Exec& exec, i64 n, const From* x, To* y)
{
    // double to bf16 rounds twice, because bf16 arithmetic uses float.
    map(
        exec, "cast", n, KOKKOS_LAMBDA(Acc<From> v) { return static_cast<Acc<To>>(v); }, y, x);
}

namespace {

template <class From, class To>
using CastBlocks = Blocks<CastOf<From, To>, 128>;

template <class From, class To>
void cast_part(const Exec& exec, const CastBlocks<From, To>& part)
{
    for_rows<From>(
        exec, "cast", part.blocks(), block_size, KOKKOS_LAMBDA(const Row& row, i64 block) {
            const auto at = part.place(block);
            const CastOf<From, To>& array = part.item[at.array];
            row.map(
                at.size, [](Acc<From> v) { return static_cast<Acc<To>>(v); }, array.y + at.begin,
                array.x + at.begin);
        });
}

} // namespace

template <class From, class To>
void cast_all(const Exec& exec, std::span<const CastOf<From, To>> arrays)
{
    in_parts<CastBlocks<From, To>>(arrays, [&](const CastBlocks<From, To>& part) { cast_part(exec, part); });
}

template <class T, class To>
void accumulate(const Exec& exec, i64 n, To* acc, const T* x, bool overwrite)
{
    if (overwrite)
        return cast(exec, n, x, acc);
    map(
        exec, "accumulate", n, KOKKOS_LAMBDA(Acc<To> sum, Acc<T> v) { return sum + static_cast<Acc<To>>(v); },
        acc, acc, x);
}

template <class T>
void copy_rows(const Exec& exec, i64 rows, i64 columns, const T* x, i64 x_stride, T* y, i64 y_stride)
{
    for_rows<T>(
        exec, "copy_rows", rows, columns,
        KOKKOS_LAMBDA(const Row& row, i64 r) { row.copy(columns, x + r * x_stride, y + r * y_stride); });
}

template <class From, class To>
void cast_rows(const Exec& exec, i64 rows, i64 columns, const From* x, i64 x_stride, To* y, i64 y_stride)
{
    for_rows<From>(
        exec, "cast_rows", rows, columns, KOKKOS_LAMBDA(const Row& row, i64 r) {
            row.map(
                columns, [](Acc<From> v) { return static_cast<Acc<To>>(v); }, y + r * y_stride,
                x + r * x_stride);
        });
}

TRV_FOR_STORAGE(swiglu)
TRV_FOR_STORAGE(swiglu_grad)
TRV_FOR_STORAGE(gelu)
TRV_FOR_STORAGE(gelu_grad)
TRV_FOR_STORAGE(add)
TRV_FOR_STORAGE(bias_add)
TRV_FOR_TENSOR(copy_rows)
TRV_FOR_STORAGE(fill)
TRV_FOR_STORAGE(cast, double)
TRV_FOR_STORAGE(cast, float)
TRV_FOR_STORAGE(cast, bf16)
TRV_FOR_STORAGE(cast_rows, double)
TRV_FOR_STORAGE(cast_rows, float)
TRV_FOR_STORAGE(cast_rows, bf16)
TRV_FOR_STORAGE(cast_all, double)
TRV_FOR_STORAGE(cast_all, float)
TRV_FOR_STORAGE(cast_all, bf16)
TRV_FOR_STORAGE(accumulate, bf16)
TRV_KERNEL(accumulate<double, double>)
TRV_KERNEL(accumulate<float, float>)
TRV_KERNEL(accumulate<bf16, float>)
TRV_KERNEL(accumulate<bf16, double>)

} // namespace trivium::kernels
