#pragma once
// Products of two tensors with any structure of factors, for rules that gemm.hpp cannot compute.
#include "kernels/exec.hpp"

namespace trivium::kernels {

/// The factors (the letters of a rule), with their sizes and their strides in elements in each tensor: 0
/// where a tensor does not have the factor, a sum of strides where it has the factor twice (a diagonal). The
/// last `reduced` factors are summed over and have no stride in c. The strides of the other factors in c must
/// be such that every element of c is written once.
struct EinsumShape {
    int factors = 0, reduced = 0; ///< factors: at most 16
    i64 size[16] = {};
    i64 a[16] = {}, b[16] = {}, c[16] = {};
};

/// c (+)= sum of a * b over the reduced factors, in Acc<T>: sums over the last one, added in row-major order
/// of the others. The sum is 0 if a reduced factor has size 0. To is T or Acc<T>.
template <class T, class To>
void einsum(const Exec& exec, const EinsumShape& shape, const T* a, const T* b, To* c, bool overwrite = true);

} // namespace trivium::kernels
