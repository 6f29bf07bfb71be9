#pragma once
// Products of two tensors with any structure of factors. For what gemm.hpp cannot compute.
#include "kernels/exec.hpp"

namespace trivium::kernels {

/// The factors (the letters of a rule), with their sizes and the distance in elements between neighbours of
/// each tensor; 0 where a tensor does not have the factor, a sum of strides where it has it twice (a
/// diagonal). The last `reduced` factors are summed over and have no stride in c. Other factors must have one
/// in c, which must be such that every element of c is written once.
struct EinsumShape {
    int factors = 0, reduced = 0; ///< factors: at most 16
    i64 size[16] = {};
    i64 a[16] = {}, b[16] = {}, c[16] = {};
};

/// c (+)= sum of a * b over the reduced factors, added in Acc<T> in row-major order; the sum is 0 if one of
/// them has size 0. To is T or Acc<T>.
template <class T, class To>
void einsum(const Exec& exec, const EinsumShape& shape, const T* a, const T* b, To* c, bool overwrite = true);

} // namespace trivium::kernels
