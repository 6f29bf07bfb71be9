#pragma once
// One element in, one element out. Every output may alias an input of the same type exactly.
#include "kernels/exec.hpp"

#include <span>

namespace trivium::kernels {

/// A matrix whose rows are dense and begin `apart` elements apart.
template <class T>
struct RowsOf {
    T* at = nullptr;
    i64 apart = 0;
};

/// SwiGLU (Shazeer 2020, arXiv:2002.05202): y = silu(gate) * up, silu(g) = g / (1 + exp(-g)).
template <class T>
void swiglu(const Exec& exec, i64 rows, i64 columns, RowsOf<const T> gate, RowsOf<const T> up, RowsOf<T> y);
template <class T>
void swiglu_grad(const Exec& exec, i64 rows, i64 columns, RowsOf<const T> dy, RowsOf<const T> gate,
                 RowsOf<const T> up, RowsOf<T> dgate, RowsOf<T> dup);

/// The tanh form of GELU (Hendrycks & Gimpel 2016) that GPT-2 uses.
template <class T>
void gelu(const Exec& exec, i64 n, const T* x, T* y);
template <class T>
void gelu_grad(const Exec& exec, i64 n, const T* dy, const T* x, T* dx);

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
