#include "kernels/general/pointwise.hpp"

#include "kernels/general/blocks.hpp"
#include "kernels/general/combine.hpp"
#include "kernels/instantiate.hpp"
#include "kernels/math.hpp"

namespace trivium::kernels {

namespace {

// Function objects, because nvcc does not accept generic lambdas for a device. Each computes op(a), or
// op(a, b), in the type of its arguments.
#define TRV_FUNCTION(Name, R, parameters, result)                                                            \
    struct Name {                                                                                            \
        template <class A>                                                                                   \
        TRV_HOST_DEVICE R operator() parameters const                                                        \
        {                                                                                                    \
            return result;                                                                                   \
        }                                                                                                    \
    };
#define TRV_UNARY(Name, result) TRV_FUNCTION(Name, A, (A a), result)
#define TRV_BINARY(Name, result) TRV_FUNCTION(Name, A, (A a, A b), result)
#define TRV_COMPARE(Name, result) TRV_FUNCTION(Name, std::int32_t, (A a, A b), result)

TRV_HOST_DEVICE float negative_of(float a) { return -a; }
TRV_HOST_DEVICE double negative_of(double a) { return -a; }
TRV_HOST_DEVICE std::int32_t negative_of(std::int32_t a) { return minus(0, a); }
TRV_HOST_DEVICE float absolute_of(float a) { return ::fabsf(a); }
TRV_HOST_DEVICE double absolute_of(double a) { return ::fabs(a); }
TRV_HOST_DEVICE std::int32_t absolute_of(std::int32_t a) { return a < 0 ? minus(0, a) : a; }
TRV_HOST_DEVICE float tanh_of(float a) { return ::tanhf(a); }
TRV_HOST_DEVICE double tanh_of(double a) { return ::tanh(a); }
TRV_HOST_DEVICE float expm1_of(float a) { return ::expm1f(a); }
TRV_HOST_DEVICE double expm1_of(double a) { return ::expm1(a); }
TRV_HOST_DEVICE float log1p_of(float a) { return ::log1pf(a); }
TRV_HOST_DEVICE double log1p_of(double a) { return ::log1p(a); }
TRV_HOST_DEVICE float sin_of(float a) { return ::sinf(a); }
TRV_HOST_DEVICE double sin_of(double a) { return ::sin(a); }
TRV_HOST_DEVICE float cos_of(float a) { return ::cosf(a); }
TRV_HOST_DEVICE double cos_of(double a) { return ::cos(a); }
TRV_HOST_DEVICE float erf_of(float a) { return ::erff(a); }
TRV_HOST_DEVICE double erf_of(double a) { return ::erf(a); }
TRV_HOST_DEVICE float floor_of(float a) { return ::floorf(a); }
TRV_HOST_DEVICE double floor_of(double a) { return ::floor(a); }
TRV_HOST_DEVICE std::int32_t floor_of(std::int32_t a) { return a; }
TRV_HOST_DEVICE float ceil_of(float a) { return ::ceilf(a); }
TRV_HOST_DEVICE double ceil_of(double a) { return ::ceil(a); }
TRV_HOST_DEVICE std::int32_t ceil_of(std::int32_t a) { return a; }

TRV_HOST_DEVICE float power_of(float a, float b) { return ::powf(a, b); }
TRV_HOST_DEVICE double power_of(double a, double b) { return ::pow(a, b); }
TRV_HOST_DEVICE std::int32_t power_of(std::int32_t a, std::int32_t b)
{
    if (b < 0)
        return a == 1 ? 1 : a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
    std::int32_t result = 1;
    for (; b > 0; b /= 2) {
        if (b % 2 == 1)
            result = times(result, a);
        a = times(a, a);
    }
    return result;
}
TRV_HOST_DEVICE float quotient_of(float a, float b) { return a / b; }
TRV_HOST_DEVICE double quotient_of(double a, double b) { return a / b; }
TRV_HOST_DEVICE std::int32_t quotient_of(std::int32_t a, std::int32_t b)
{
    return b == 0 ? -1 : b == -1 ? minus(0, a) : a / b;
}
TRV_HOST_DEVICE float remainder_of(float a, float b) { return ::fmodf(a, b); }
TRV_HOST_DEVICE double remainder_of(double a, double b) { return ::fmod(a, b); }
TRV_HOST_DEVICE std::int32_t remainder_of(std::int32_t a, std::int32_t b)
{
    return b == 0 ? a : b == -1 ? 0 : a % b;
}

TRV_UNARY(Negate, negative_of(a))
TRV_UNARY(Absolute, absolute_of(a))
TRV_UNARY(Sign, a > 0 ? A(1) : a < 0 ? A(-1) : a)
TRV_UNARY(Exponential, fast_exp(a))
TRV_UNARY(Expm1, expm1_of(a))
TRV_UNARY(Logarithm, logarithm(a))
TRV_UNARY(Log1p, log1p_of(a))
TRV_UNARY(SquareRoot, square_root(a))
TRV_UNARY(ReciprocalRoot, 1 / square_root(a))
TRV_UNARY(Tanh, tanh_of(a))
TRV_UNARY(Sigmoid, sigmoid(a))
TRV_UNARY(Sine, sin_of(a))
TRV_UNARY(Cosine, cos_of(a))
TRV_UNARY(Erf, erf_of(a))
TRV_UNARY(Floor, floor_of(a))
TRV_UNARY(Ceil, ceil_of(a))
TRV_UNARY(Not, a == 0 ? A(1) : A(0))

TRV_BINARY(Add, plus(a, b))
TRV_BINARY(Subtract, minus(a, b))
TRV_BINARY(Multiply, times(a, b))
TRV_BINARY(Divide, quotient_of(a, b))
TRV_BINARY(Maximum, larger(a, b))
TRV_BINARY(Minimum, smaller(a, b))
TRV_BINARY(Power, power_of(a, b))
TRV_BINARY(Remainder, remainder_of(a, b))
TRV_BINARY(And, a != 0 && b != 0 ? A(1) : A(0))
TRV_BINARY(Or, a != 0 || b != 0 ? A(1) : A(0))
TRV_BINARY(Xor, (a != 0) != (b != 0) ? A(1) : A(0))
TRV_BINARY(BitAnd, a& b)
TRV_BINARY(BitOr, a | b)
TRV_BINARY(BitXor, a ^ b)

TRV_COMPARE(Equal, a == b)
TRV_COMPARE(NotEqual, a != b)
TRV_COMPARE(Less, a < b)
TRV_COMPARE(LessEqual, a <= b)
TRV_COMPARE(Greater, a > b)
TRV_COMPARE(GreaterEqual, a >= b)

struct Select {
    template <class A>
    TRV_HOST_DEVICE A operator()(std::int32_t p, A a, A b) const
    {
        return p != 0 ? a : b;
    }
};

/// `a` in the type To.
template <class To, class A>
TRV_HOST_DEVICE To converted(A a)
{
    if constexpr (std::is_integral_v<To> && !std::is_integral_v<A>) {
        // 2^31 is exact in float, too.
        return is_nan(a)              ? 0
               : a >= A(2147483648.0) ? INT32_MAX
               : a < A(-2147483648.0) ? INT32_MIN
                                      : static_cast<To>(a);
    } else {
        return static_cast<To>(a);
    }
}

template <class To>
struct Convert {
    template <class A>
    TRV_HOST_DEVICE To operator()(A a) const
    {
        return converted<To>(a);
    }
};

} // namespace

template <class T>
void unary(const Exec& exec, Unary op, i64 n, const T* x, T* y)
{
    const auto apply = [&](auto f) { map(exec, "unary", n, f, y, x); };
    switch (op) {
    case Unary::negate: return apply(Negate());
    case Unary::abs: return apply(Absolute());
    case Unary::sign: return apply(Sign());
    case Unary::floor: return apply(Floor());
    case Unary::ceil: return apply(Ceil());
    case Unary::logical_not: return apply(Not());
    default: break;
    }
    if constexpr (std::is_integral_v<T>)
        TRV_CHECK(false, "unary op ", static_cast<int>(op), " is not defined for integers");
    else
        switch (op) {
        case Unary::exp: return apply(Exponential());
        case Unary::expm1: return apply(Expm1());
        case Unary::log: return apply(Logarithm());
        case Unary::log1p: return apply(Log1p());
        case Unary::sqrt: return apply(SquareRoot());
        case Unary::rsqrt: return apply(ReciprocalRoot());
        case Unary::tanh: return apply(Tanh());
        case Unary::sigmoid: return apply(Sigmoid());
        case Unary::sin: return apply(Sine());
        case Unary::cos: return apply(Cosine());
        case Unary::erf: return apply(Erf());
        default: return;
        }
}

template <class T>
void binary(const Exec& exec, Binary op, i64 n, const T* a, const T* b, T* y)
{
    const auto apply = [&](auto f) { map(exec, "binary", n, f, y, a, b); };
    constexpr bool bits = std::is_integral_v<T>;
    switch (op) {
    case Binary::add: return apply(Add());
    case Binary::subtract: return apply(Subtract());
    case Binary::multiply: return apply(Multiply());
    case Binary::divide: return apply(Divide());
    case Binary::maximum: return apply(Maximum());
    case Binary::minimum: return apply(Minimum());
    case Binary::power: return apply(Power());
    case Binary::remainder: return apply(Remainder());
    case Binary::logical_and: return apply(std::conditional_t<bits, BitAnd, And>());
    case Binary::logical_or: return apply(std::conditional_t<bits, BitOr, Or>());
    case Binary::logical_xor: return apply(std::conditional_t<bits, BitXor, Xor>());
    }
}

template <class T>
void compare(const Exec& exec, Direction direction, i64 n, const T* a, const T* b, std::int32_t* y)
{
    const auto apply = [&](auto f) { map(exec, "compare", n, f, y, a, b); };
    switch (direction) {
    case Direction::eq: return apply(Equal());
    case Direction::ne: return apply(NotEqual());
    case Direction::lt: return apply(Less());
    case Direction::le: return apply(LessEqual());
    case Direction::gt: return apply(Greater());
    case Direction::ge: return apply(GreaterEqual());
    }
}

template <class T>
void select(const Exec& exec, i64 n, const std::int32_t* p, const T* a, const T* b, T* y)
{
    map(exec, "select", n, Select(), y, p, a, b);
}

template <class From, class To>
void convert(const Exec& exec, i64 n, const From* x, To* y)
{
    // double to bf16 rounds twice, because bf16 arithmetic uses float.
    map(exec, "convert", n, Convert<Acc<To>>(), y, x);
}

template <class T>
void splat(const Exec& exec, i64 n, double value, T* y)
{
    const auto v = converted<Acc<T>>(value);
    map(
        exec, "splat", n, KOKKOS_LAMBDA() { return v; }, y);
}

template <class T>
void iota(const Exec& exec, i64 outer, i64 n, i64 inner, i64 first, T* y)
{
    for_each_index(
        exec, "iota", outer * n * inner,
        KOKKOS_LAMBDA(i64 i) { y[i] = static_cast<T>(static_cast<Acc<T>>(first + i / inner % n)); });
}

TRV_FOR_TENSOR(unary)
TRV_FOR_TENSOR(binary)
TRV_FOR_TENSOR(compare)
TRV_FOR_TENSOR(select)
TRV_FOR_TENSOR(splat)
TRV_FOR_TENSOR(iota)
TRV_FOR_TENSOR(convert, double)
TRV_FOR_TENSOR(convert, float)
TRV_FOR_TENSOR(convert, bf16)
TRV_FOR_TENSOR(convert, std::int32_t)

} // namespace trivium::kernels
#undef TRV_FUNCTION
#undef TRV_UNARY
#undef TRV_BINARY
#undef TRV_COMPARE
