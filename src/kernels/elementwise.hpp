#pragma once
// One element in, one element out. Every output may alias an input of the same type exactly.
#include "base/activation.hpp"
#include "kernels/exec.hpp"

#include <span>

namespace trivium::kernels {

/// A matrix whose rows are dense and begin `apart` elements apart.
template <class T>
struct RowsOf {
    T* at = nullptr;
    i64 apart = 0;
};

/// y = f(gate) * up (Shazeer 2020, arXiv:2002.05202), by default SwiGLU.
template <class T>
void swiglu(const Exec& exec, i64 rows, i64 columns, RowsOf<const T> gate, RowsOf<const T> up, RowsOf<T> y,
            Activation f = Activation::silu);
template <class T>
void swiglu_grad(const Exec& exec, i64 rows, i64 columns, RowsOf<const T> dy, RowsOf<const T> gate,
                 RowsOf<const T> up, RowsOf<T> dgate, RowsOf<T> dup, Activation f = Activation::silu);

/// y = f(x), by default GPT-2's GELU.
template <class T>
void gelu(const Exec& exec, i64 n, const T* x, T* y, Activation f = Activation::gelu_tanh);
template <class T>
void gelu_grad(const Exec& exec, i64 n, const T* dy, const T* x, T* dx, Activation f = Activation::gelu_tanh);

/// y = alpha x + beta.
template <class T>
void affine(const Exec& exec, i64 n, double alpha, double beta, const T* x, T* y);
/// y = cap tanh(x / cap).
template <class T>
void softcap(const Exec& exec, i64 n, double cap, const T* x, T* y);
/// dx = dy (1 - (y / cap)^2), from the result of softcap().
template <class T>
void softcap_grad(const Exec& exec, i64 n, double cap, const T* dy, const T* y, T* dx);

/// z = x + y.
template <class T>
void add(const Exec& exec, i64 n, const T* x, const T* y, T* z);
/// y[r, :] = x[r, :] + b.
template <class T>
void bias_add(const Exec& exec, i64 rows, i64 columns, const T* x_rn, const T* b_n, T* y_rn);
/// y = value everywhere.
template <class T>
void fill(const Exec& exec, i64 n, double value, T* y);
/// y = x in another type, rounded to nearest; double to bf16 by way of float. y may alias x only if the types
/// are the same.
template <class From, class To>
void cast(const Exec& exec, i64 n, const From* x, To* y);

/// n numbers x, and their destination y.
template <class From, class To>
struct CastOf {
    const From* x = nullptr;
    To* y = nullptr;
    i64 n = 0;
};
/// cast() of several arrays, with the same bits; on a device many share a launch.
template <class From, class To>
void cast_all(const Exec& exec, std::span<const CastOf<From, To>> arrays);

/// y[r, i] = x[r, i] for `columns` elements of each row, whose rows begin x_stride and y_stride elements
/// apart: slices a dimension, or writes a slice into its place. Also for int32.
template <class T>
void copy_rows(const Exec& exec, i64 rows, i64 columns, const T* x, i64 x_stride, T* y, i64 y_stride);
/// copy_rows() into another type, as cast().
template <class From, class To>
void cast_rows(const Exec& exec, i64 rows, i64 columns, const From* x, i64 x_stride, To* y, i64 y_stride);
/// acc (+)= x, added in the accumulator type of `acc`. `To` is T's accumulator type, or bf16.
template <class T, class To>
void accumulate(const Exec& exec, i64 n, To* acc, const T* x, bool overwrite);

} // namespace trivium::kernels
