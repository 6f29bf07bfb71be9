#include "kernels/elementwise.hpp"

#include "kernels/instantiate.hpp"
#include "kernels/math.hpp"
#include "row_parallel.hpp"

namespace trivium::kernels {

template <class T>
void swiglu(const Exec& exec, i64 n, const T* gate, const T* up, T* y)
{
    for_each_index(exec, "swiglu", n, KOKKOS_LAMBDA(i64 i) {
        const Acc<T> g = gate[i], u = up[i];
        y[i] = T(g * sigmoid(g) * u);
    });
}

template <class T>
void swiglu_grad(const Exec& exec, i64 n, const T* dy, const T* gate, const T* up, T* dgate, T* dup)
{
    for_each_index(exec, "swiglu_grad", n, KOKKOS_LAMBDA(i64 i) {
        const Acc<T> d = dy[i], g = gate[i], u = up[i], s = sigmoid(g);
        dgate[i] = T(d * u * s * (1 + g * (1 - s)));
        dup[i] = T(d * g * s);
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
    for_each_index(exec, "gelu", n, KOKKOS_LAMBDA(i64 i) {
        const Acc<T> v = x[i];
        y[i] = T(v * sigmoid(v * (gelu_a<Acc<T>> + gelu_b<Acc<T>> * v * v)));
    });
}

template <class T>
void gelu_grad(const Exec& exec, i64 n, const T* dy, const T* x, T* dx)
{
    for_each_index(exec, "gelu_grad", n, KOKKOS_LAMBDA(i64 i) {
        const Acc<T> d = dy[i], v = x[i], a = gelu_a<Acc<T>>, b = gelu_b<Acc<T>>;
        const Acc<T> s = sigmoid(v * (a + b * v * v));
        dx[i] = T(d * s * (1 + v * (1 - s) * (a + 3 * b * v * v)));
    });
}

template <class T>
void add(const Exec& exec, i64 n, const T* x, const T* y, T* z)
{
    for_each_index(exec, "add", n, KOKKOS_LAMBDA(i64 i) { z[i] = T(Acc<T>(x[i]) + Acc<T>(y[i])); });
}

template <class T>
void bias_add(const Exec& exec, i64 rows, i64 columns, const T* x_rn, const T* b_n, T* y_rn)
{
    for_rows(exec, "bias_add", rows, KOKKOS_LAMBDA(const Row& row, i64 r) {
        const T* x = x_rn + r * columns;
        T* y = y_rn + r * columns;
        row.each(columns, [=](i64 i) { y[i] = T(Acc<T>(x[i]) + Acc<T>(b_n[i])); });
    });
}

template <class T>
void scale(const Exec& exec, i64 n, double factor, const T* x, T* y)
{
    const auto f = static_cast<Acc<T>>(factor);
    for_each_index(exec, "scale", n, KOKKOS_LAMBDA(i64 i) { y[i] = T(f * Acc<T>(x[i])); });
}

template <class T>
void fill(const Exec& exec, i64 n, double value, T* y)
{
    const T v(static_cast<Acc<T>>(value));
    for_each_index(exec, "fill", n, KOKKOS_LAMBDA(i64 i) { y[i] = v; });
}

template <class From, class To>
void cast(const Exec& exec, i64 n, const From* x, To* y)
{
    // To bf16 from double there are two roundings, as arithmetic of bf16 is float's.
    for_each_index(exec, "cast", n, KOKKOS_LAMBDA(i64 i) {
        y[i] = To(static_cast<Acc<To>>(static_cast<Acc<From>>(x[i])));
    });
}

template <class T>
void accumulate(const Exec& exec, i64 n, Acc<T>* acc, const T* x, bool overwrite)
{
    if (overwrite)
        return cast(exec, n, x, acc);
    for_each_index(exec, "accumulate", n, KOKKOS_LAMBDA(i64 i) { acc[i] += Acc<T>(x[i]); });
}

template <class T>
void slice(const Exec& exec, i64 rows, i64 stride, i64 offset, i64 columns, const T* x, T* y)
{
    for_rows(exec, "slice", rows, KOKKOS_LAMBDA(const Row& row, i64 r) {
        const T* from = x + r * stride + offset;
        T* to = y + r * columns;
        row.each(columns, [=](i64 i) { to[i] = from[i]; });
    });
}

template void slice(const Exec&, i64, i64, i64, i64, const std::int32_t*, std::int32_t*);

#define TRV_INSTANTIATE(T)                                                                                             \
    template void swiglu(const Exec&, i64, const T*, const T*, T*);                                                    \
    template void swiglu_grad(const Exec&, i64, const T*, const T*, const T*, T*, T*);                                 \
    template void gelu(const Exec&, i64, const T*, T*);                                                                \
    template void gelu_grad(const Exec&, i64, const T*, const T*, T*);                                                 \
    template void add(const Exec&, i64, const T*, const T*, T*);                                                       \
    template void bias_add(const Exec&, i64, i64, const T*, const T*, T*);                                             \
    template void slice(const Exec&, i64, i64, i64, i64, const T*, T*);                                                \
    template void scale(const Exec&, i64, double, const T*, T*);                                                       \
    template void fill(const Exec&, i64, double, T*);                                                                  \
    template void cast(const Exec&, i64, const T*, double*);                                                           \
    template void cast(const Exec&, i64, const T*, float*);                                                            \
    template void cast(const Exec&, i64, const T*, bf16*);                                                             \
    template void accumulate(const Exec&, i64, Acc<T>*, const T*, bool);
TRV_FOR_STORAGE(TRV_INSTANTIATE)

} // namespace trivium::kernels
