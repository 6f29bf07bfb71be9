#pragma once
// One element in, one element out, for any of the four types of tensors. An output may alias an input of the
// same type exactly. bf16 computes in float, int32 in int32 with wrap-around. Logical results are 0 or 1,
// except that binary logical ops are bitwise on int32.
#include "kernels/exec.hpp"

namespace trivium::kernels {

/// sign of NaN is NaN. exp and sigmoid of float have a relative error of about 1e-6. For int32 only negate,
/// abs, sign, floor, ceil and logical_not are defined.
enum class Unary {
    negate,
    abs,
    sign,
    exp,
    expm1,
    log,
    log1p,
    sqrt,
    rsqrt,
    tanh,
    sigmoid,
    sin,
    cos,
    erf,
    floor,
    ceil,
    logical_not,
};

/// y = op(x). \throws InternalError for an op that int32 does not have
template <class T>
void unary(const Exec& exec, Unary op, i64 n, const T* x, T* y);

/// maximum and minimum are NaN if an operand is NaN. Division of int32 truncates; a / 0 is -1, a remainder by
/// 0 is the dividend, and a power with a negative exponent is 0 unless its base is 1 or -1. remainder has the
/// sign of the dividend.
enum class Binary {
    add,
    subtract,
    multiply,
    divide,
    maximum,
    minimum,
    power,
    remainder,
    logical_and,
    logical_or,
    logical_xor,
};

/// y = op(a, b).
template <class T>
void binary(const Exec& exec, Binary op, i64 n, const T* a, const T* b, T* y);

enum class Direction { eq, ne, lt, le, gt, ge };

/// y = 1 where a is in this relation to b, otherwise 0; with NaN only ne is 1.
template <class T>
void compare(const Exec& exec, Direction direction, i64 n, const T* a, const T* b, std::int32_t* y);

/// y = a where p is not 0, otherwise b. y may alias a or b.
template <class T>
void select(const Exec& exec, i64 n, const std::int32_t* p, const T* a, const T* b, T* y);

/// y = x in another type: rounded to nearest (to bf16 by way of float), but to int32 truncated towards 0 and
/// saturated, with NaN to 0.
template <class From, class To>
void convert(const Exec& exec, i64 n, const From* x, To* y);

/// y = value everywhere, converted to T as in convert().
template <class T>
void splat(const Exec& exec, i64 n, double value, T* y);

/// y[o, i, j] = first + i for y of [outer, n, inner].
template <class T>
void iota(const Exec& exec, i64 outer, i64 n, i64 inner, i64 first, T* y);

} // namespace trivium::kernels
