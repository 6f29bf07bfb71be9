#pragma once
// RMSNorm (Zhang & Sennrich 2019, arXiv:1910.07467), LayerNorm (Ba et al. 2016, arXiv:1607.06450) and sums
// over rows. dx may alias dy exactly.
#include "kernels/exec.hpp"

namespace trivium::kernels {

struct NormShape {
    i64 rows = 0, dim = 0;
    double eps = 1e-5;
    double offset = 0;    ///< of RMSNorm: added to the weight
    bool rounded = false; ///< RMSNorm rounds x * rstd to T before the weight multiplies it
};

/// y = x * rstd * (w + offset) with rstd = 1 / sqrt(mean(x^2) + eps), per row, computed in T's accumulator
/// type. y may alias x.
template <class T>
void rms_norm(const Exec& exec, const NormShape& shape, const T* x_rd, const T* w_d, T* y_rd, Acc<T>* rstd_r);

template <class T>
void rms_norm_grad_x(const Exec& exec, const NormShape& shape, const T* dy_rd, const T* x_rd, const T* w_d,
                     const Acc<T>* rstd_r, T* dx_rd);

/// dw (+)= sum over rows of dy * x * rstd, which is rounded as in the norm.
template <class T>
void rms_norm_grad_w(const Exec& exec, const NormShape& shape, const T* dy_rd, const T* x_rd,
                     const Acc<T>* rstd_r, Acc<T>* dw_d, bool overwrite);

/// y = (x - mean) * rstd * w + b with the biased variance, per row. y may alias x. b may be null.
template <class T>
void layer_norm(const Exec& exec, const NormShape& shape, const T* x_rd, const T* w_d, const T* b_d, T* y_rd,
                Acc<T>* mean_r, Acc<T>* rstd_r);

template <class T>
void layer_norm_grad_x(const Exec& exec, const NormShape& shape, const T* dy_rd, const T* x_rd, const T* w_d,
                       const Acc<T>* mean_r, const Acc<T>* rstd_r, T* dx_rd);

/// dw (+)= sum over rows of dy * (x - mean) * rstd. The bias gradient is column_sum(dy).
template <class T>
void layer_norm_grad_w(const Exec& exec, const NormShape& shape, const T* dy_rd, const T* x_rd,
                       const Acc<T>* mean_r, const Acc<T>* rstd_r, Acc<T>* dw_d, bool overwrite);

// Norms fused with the residual sum: the same bits as add() followed by the norm.

/// y = x + r, n = rms_norm(y) * w. y may alias x or r exactly; n may then alias the other of the two.
template <class T>
void add_rms_norm(const Exec& exec, const NormShape& shape, const T* x_rd, const T* r_rd, const T* w_d,
                  T* y_rd, T* n_rd, Acc<T>* rstd_r);
/// y = x + r, n = layer_norm(y) * w + b. Aliasing as in add_rms_norm(). b may be null.
template <class T>
void add_layer_norm(const Exec& exec, const NormShape& shape, const T* x_rd, const T* r_rd, const T* w_d,
                    const T* b_d, T* y_rd, T* n_rd, Acc<T>* mean_r, Acc<T>* rstd_r);

/// dx = dres + rms_norm_grad_x(dy, x, w, rstd), the same bits as both in sequence. dx may alias dy or dres
/// exactly.
template <class T>
void rms_norm_grad_x_add(const Exec& exec, const NormShape& shape, const T* dy_rd, const T* x_rd,
                         const T* w_d, const Acc<T>* rstd_r, const T* dres_rd, T* dx_rd);
/// dx = dres + layer_norm_grad_x(dy, x, w, mean, rstd), with bits and aliasing as in rms_norm_grad_x_add().
template <class T>
void layer_norm_grad_x_add(const Exec& exec, const NormShape& shape, const T* dy_rd, const T* x_rd,
                           const T* w_d, const Acc<T>* mean_r, const Acc<T>* rstd_r, const T* dres_rd,
                           T* dx_rd);

// The parts of an RMSNorm whose rows several ranks share: each sums its part, and all scale with the same
// rstd.

/// sum_r = sum of x^2 over each row.
template <class T>
void row_squares(const Exec& exec, const NormShape& shape, const T* x_rd, Acc<T>* sum_r);
/// dx = 2 dsum x. dx may alias x.
template <class T>
void row_squares_grad(const Exec& exec, const NormShape& shape, const Acc<T>* dsum_r, const T* x_rd,
                      T* dx_rd);
/// y = x * rstd * (w + offset), as rms_norm(). y may alias x. The gradient of w is rms_norm_grad_w().
template <class T>
void scale_rows(const Exec& exec, const NormShape& shape, const T* x_rd, const T* w_d, const Acc<T>* rstd_r,
                T* y_rd);
/// drstd_r = sum of dy * (w + offset) * x over each row.
template <class T>
void scale_rows_grad_rows(const Exec& exec, const NormShape& shape, const T* dy_rd, const T* x_rd,
                          const T* w_d, Acc<T>* drstd_r);

/// sum_n (+)= sum over rows of x_rn, the gradient of a bias. `apart`: elements between rows; 0: dense.
template <class T>
void column_sum(const Exec& exec, i64 rows, i64 columns, const T* x_rn, Acc<T>* sum_n, bool overwrite,
                i64 apart = 0);

} // namespace trivium::kernels
