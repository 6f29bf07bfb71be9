#include "kernels/elementwise.hpp"

#include "base/check.hpp"
#include "kernels/blocks.hpp"
#include "kernels/instantiate.hpp"
#include "kernels/math.hpp"
#include "row_parallel.hpp"

#include <type_traits>

namespace trivium::kernels {

namespace {

// gelu_tanh(x) = x/2 (1 + tanh(h)) = x sigmoid(2h) with 2h = x (a + b x^2).
template <class A>
inline constexpr A gelu_a = A(1.5957691216057308); // 2 sqrt(2/pi)
template <class A>
inline constexpr A gelu_b = A(0.071354816272600248); // 0.044715 gelu_a
template <class A>
inline constexpr A root_of_half = A(0.70710678118654752);
template <class A>
inline constexpr A normal_density_at_0 = A(0.39894228040143268); // 1 / sqrt(2 pi)

template <Activation f, class A>
KOKKOS_FUNCTION A activated(A v)
{
    if constexpr (f == Activation::silu)
        return v * sigmoid(v);
    else if constexpr (f == Activation::gelu)
        return A(0.5) * v * fast_erfc(-root_of_half<A> * v);
    else if constexpr (f == Activation::gelu_tanh)
        return v * sigmoid(v * (gelu_a<A> + gelu_b<A> * v * v));
    else
        return v < 0 ? A(0) : v * v;
}

/// d times the derivative.
template <Activation f, class A>
KOKKOS_FUNCTION A activated_grad(A d, A v)
{
    if constexpr (f == Activation::silu) {
        const A s = sigmoid(v);
        return d * s * (1 + v * (1 - s));
    } else if constexpr (f == Activation::gelu) {
        return d * (A(0.5) * fast_erfc(-root_of_half<A> * v) +
                    v * normal_density_at_0<A> * fast_exp(A(-0.5) * v * v));
    } else if constexpr (f == Activation::gelu_tanh) {
        const A a = gelu_a<A>, b = gelu_b<A>, s = sigmoid(v * (a + b * v * v));
        return d * s * (1 + v * (1 - s) * (a + 3 * b * v * v));
    } else {
        return v < 0 ? A(0) : 2 * d * v;
    }
}

/// The clipped gate and value of Activation::clipped.
template <class A>
struct Clipped {
    static constexpr A limit = A(7), slope = A(1.702);
    A gate, value;

    KOKKOS_FUNCTION Clipped(A g, A u)
        : gate(g > limit ? limit : g), value(u > limit    ? limit
                                             : u < -limit ? -limit
                                                          : u)
    {
    }
};

// Functors, because dense matrices are one range and others a row per team.
template <Activation f, class A>
struct Activated {
    KOKKOS_FUNCTION A operator()(A v) const { return activated<f>(v); }
};
template <Activation f, class A>
struct ActivatedGrad {
    KOKKOS_FUNCTION A operator()(A d, A v) const { return activated_grad<f>(d, v); }
};
template <Activation f, class A>
struct Gated {
    KOKKOS_FUNCTION A operator()(A g, A u) const
    {
        if constexpr (f == Activation::clipped) {
            const Clipped<A> c(g, u);
            return c.gate * sigmoid(c.slope * c.gate) * (c.value + 1);
        } else {
            return activated<f>(g) * u;
        }
    }
};
template <Activation f, class A>
struct GatedGrad {
    KOKKOS_FUNCTION Values<A, 2> operator()(A d, A g, A u) const
    {
        if constexpr (f == Activation::silu) { // one sigmoid for both
            const A s = sigmoid(g);
            return Values<A, 2>{{d * u * s * (1 + g * (1 - s)), d * g * s}};
        } else if constexpr (f == Activation::clipped) { // at a limit as inside
            const Clipped<A> c(g, u);
            const A s = sigmoid(c.slope * c.gate);
            return Values<A, 2>{
                {g > c.limit ? A(0) : d * (c.value + 1) * s * (1 + c.slope * c.gate * (1 - s)),
                 u > c.limit || u < -c.limit ? A(0) : d * c.gate * s}};
        } else {
            return Values<A, 2>{{activated_grad<f>(d * u, g), d * activated<f>(g)}};
        }
    }
};

/// call(constant) with the activation as a type.
template <class F>
void with_activation(Activation f, F call)
{
    switch (f) {
    case Activation::silu: return call(std::integral_constant<Activation, Activation::silu>());
    case Activation::gelu: return call(std::integral_constant<Activation, Activation::gelu>());
    case Activation::gelu_tanh: return call(std::integral_constant<Activation, Activation::gelu_tanh>());
    case Activation::relu2: return call(std::integral_constant<Activation, Activation::relu2>());
    case Activation::clipped: return call(std::integral_constant<Activation, Activation::clipped>());
    }
}

template <class... Matrices>
bool dense(i64 rows, i64 columns, const Matrices&... matrices)
{
    return rows == 1 || ((matrices.apart == columns) && ...);
}

template <class F, class T>
void gate_with(const Exec& exec, F f, i64 rows, i64 columns, RowsOf<const T> gate, RowsOf<const T> up,
               RowsOf<T> y)
{
    if (dense(rows, columns, gate, up, y))
        return map(exec, "swiglu", rows * columns, f, y.at, gate.at, up.at);
    for_rows<T>(
        exec, "swiglu", rows, columns, KOKKOS_LAMBDA(const Row& row, i64 r) {
            row.map(columns, f, y.at + r * y.apart, gate.at + r * gate.apart, up.at + r * up.apart);
        });
}

template <class F, class T>
void gate_grad_with(const Exec& exec, F f, i64 rows, i64 columns, RowsOf<const T> dy, RowsOf<const T> gate,
                    RowsOf<const T> up, RowsOf<T> dgate, RowsOf<T> dup)
{
    if (dense(rows, columns, dy, gate, up, dgate, dup))
        return map(exec, "swiglu_grad", rows * columns, f, Targets<T, 2>{{dgate.at, dup.at}}, dy.at, gate.at,
                   up.at);
    for_rows<T>(
        exec, "swiglu_grad", rows, columns, KOKKOS_LAMBDA(const Row& row, i64 r) {
            row.map(columns, f, Targets<T, 2>{{dgate.at + r * dgate.apart, dup.at + r * dup.apart}},
                    dy.at + r * dy.apart, gate.at + r * gate.apart, up.at + r * up.apart);
        });
}

} // namespace

template <class T>
void swiglu(const Exec& exec, i64 rows, i64 columns, RowsOf<const T> gate, RowsOf<const T> up, RowsOf<T> y,
            Activation f)
{
    with_activation(f, [&](auto constant) {
        gate_with(exec, Gated<decltype(constant)::value, Acc<T>>(), rows, columns, gate, up, y);
    });
}

template <class T>
void swiglu_grad(const Exec& exec, i64 rows, i64 columns, RowsOf<const T> dy, RowsOf<const T> gate,
                 RowsOf<const T> up, RowsOf<T> dgate, RowsOf<T> dup, Activation f)
{
    with_activation(f, [&](auto constant) {
        gate_grad_with(exec, GatedGrad<decltype(constant)::value, Acc<T>>(), rows, columns, dy, gate, up,
                       dgate, dup);
    });
}

template <class T>
void gelu(const Exec& exec, i64 n, const T* x, T* y, Activation f)
{
    TRV_CHECK(!only_gated(f), "gelu: a function of a gate and a value");
    with_activation(f, [&](auto constant) {
        if constexpr (!only_gated(decltype(constant)::value))
            map(exec, "gelu", n, Activated<decltype(constant)::value, Acc<T>>(), y, x);
    });
}

template <class T>
void gelu_grad(const Exec& exec, i64 n, const T* dy, const T* x, T* dx, Activation f)
{
    TRV_CHECK(!only_gated(f), "gelu: a function of a gate and a value");
    with_activation(f, [&](auto constant) {
        if constexpr (!only_gated(decltype(constant)::value))
            map(exec, "gelu_grad", n, ActivatedGrad<decltype(constant)::value, Acc<T>>(), dx, dy, x);
    });
}

template <class T>
void affine(const Exec& exec, i64 n, double alpha, double beta, const T* x, T* y)
{
    using A = Acc<T>;
    const auto a = static_cast<A>(alpha), b = static_cast<A>(beta);
    map(
        exec, "affine", n, KOKKOS_LAMBDA(A v) { return a * v + b; }, y, x);
}

template <class T>
void softcap(const Exec& exec, i64 n, double cap, const T* x, T* y)
{
    using A = Acc<T>;
    const auto c = static_cast<A>(cap), inverse = static_cast<A>(1 / cap);
    map(
        exec, "softcap", n, KOKKOS_LAMBDA(A v) { return c * fast_tanh(v * inverse); }, y, x);
}

template <class T>
void softcap_grad(const Exec& exec, i64 n, double cap, const T* dy, const T* y, T* dx)
{
    using A = Acc<T>;
    const auto inverse = static_cast<A>(1 / cap);
    map(
        exec, "softcap_grad", n,
        KOKKOS_LAMBDA(A d, A v) {
            const A t = v * inverse;
            return d * (1 - t * t);
        },
        dx, dy, y);
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
TRV_FOR_STORAGE(affine)
TRV_FOR_STORAGE(softcap)
TRV_FOR_STORAGE(softcap_grad)
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
