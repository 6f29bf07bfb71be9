#include "kernels/elementwise.hpp"

#include "kernels/blocks.hpp"
#include "kernels/instantiate.hpp"
#include "kernels/math.hpp"
#include "row_parallel.hpp"

namespace trivium::kernels {

template <class T>
void swiglu(const Exec& exec, i64 n, const T* gate, const T* up, T* y)
{
    using A = Acc<T>;
    map(
        exec, "swiglu", n, KOKKOS_LAMBDA(A g, A u) { return g * sigmoid(g) * u; }, y, gate, up);
}

template <class T>
void swiglu_grad(const Exec& exec, i64 n, const T* dy, const T* gate, const T* up, T* dgate, T* dup)
{
    using A = Acc<T>;
    map(
        exec, "swiglu_grad", n,
        KOKKOS_LAMBDA(A d, A g, A u) {
            const A s = sigmoid(g);
            return Values<A, 2>{{d * u * s * (1 + g * (1 - s)), d * g * s}};
        },
        Targets<T, 2>{{dgate, dup}}, dy, gate, up);
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
void scale(const Exec& exec, i64 n, double factor, const T* x, T* y)
{
    using A = Acc<T>;
    const A f = static_cast<A>(factor);
    map(
        exec, "scale", n, KOKKOS_LAMBDA(A v) { return f * v; }, y, x);
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

template void copy_rows(const Exec&, i64, i64, const std::int32_t*, i64, std::int32_t*, i64);

#define TRV_INSTANTIATE(T)                                                                                   \
    template void swiglu(const Exec&, i64, const T*, const T*, T*);                                          \
    template void swiglu_grad(const Exec&, i64, const T*, const T*, const T*, T*, T*);                       \
    template void gelu(const Exec&, i64, const T*, T*);                                                      \
    template void gelu_grad(const Exec&, i64, const T*, const T*, T*);                                       \
    template void add(const Exec&, i64, const T*, const T*, T*);                                             \
    template void bias_add(const Exec&, i64, i64, const T*, const T*, T*);                                   \
    template void copy_rows(const Exec&, i64, i64, const T*, i64, T*, i64);                                  \
    template void scale(const Exec&, i64, double, const T*, T*);                                             \
    template void fill(const Exec&, i64, double, T*);                                                        \
    template void cast(const Exec&, i64, const T*, double*);                                                 \
    template void cast(const Exec&, i64, const T*, float*);                                                  \
    template void cast(const Exec&, i64, const T*, bf16*);                                                   \
    template void cast_all(const Exec&, std::span<const CastOf<T, double>>);                                 \
    template void cast_all(const Exec&, std::span<const CastOf<T, float>>);                                  \
    template void cast_all(const Exec&, std::span<const CastOf<T, bf16>>);                                   \
    template void accumulate(const Exec&, i64, Acc<T>*, const T*, bool);                                     \
    template void accumulate(const Exec&, i64, bf16*, const T*, bool);
TRV_FOR_STORAGE(TRV_INSTANTIATE)
template void accumulate(const Exec&, i64, double*, const bf16*, bool);

} // namespace trivium::kernels
#undef TRV_INSTANTIATE
