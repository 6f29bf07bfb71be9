#include "naive_ops.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cmath>

namespace trivium::runs {

double naive_element(OpKind kind, const Attributes& attrs, bool integer, DType made,
                     const std::array<double, 3>& operands)
{
    const auto [a, b, c] = operands;
    const bool nan = std::isnan(a) || std::isnan(b);
    const auto bits = [](double v) { return static_cast<std::int32_t>(v); };
    switch (kind) {
    case OpKind::negate: return -a;
    case OpKind::abs: return std::abs(a);
    case OpKind::sign: return std::isnan(a) ? a : a > 0 ? 1 : a < 0 ? -1 : 0;
    case OpKind::exp: return std::exp(a);
    case OpKind::expm1: return std::expm1(a);
    case OpKind::log: return std::log(a);
    case OpKind::log1p: return std::log1p(a);
    case OpKind::sqrt: return std::sqrt(a);
    case OpKind::rsqrt: return std::pow(a, -0.5);
    case OpKind::tanh: return std::tanh(a);
    case OpKind::sigmoid: return 0.5 + 0.5 * std::tanh(a / 2);
    case OpKind::sin: return std::sin(a);
    case OpKind::cos: return std::cos(a);
    case OpKind::erf: return std::erf(a);
    case OpKind::floor: return std::floor(a);
    case OpKind::ceil: return std::ceil(a);
    case OpKind::logical_not: return a == 0;
    case OpKind::add: return a + b;
    case OpKind::subtract: return a - b;
    case OpKind::multiply: return a * b;
    case OpKind::divide: return integer ? (b == 0 ? -1 : std::trunc(a / b)) : a / b;
    case OpKind::maximum: return nan ? std::nan("") : std::max(a, b);
    case OpKind::minimum: return nan ? std::nan("") : std::min(a, b);
    case OpKind::power:
        return integer && b < 0 ? (a == 1 ? 1 : a == -1 ? (bits(b) % 2 == 0 ? 1 : -1) : 0) : std::pow(a, b);
    case OpKind::remainder: return integer && b == 0 ? a : std::fmod(a, b);
    case OpKind::logical_and: return integer ? bits(a) & bits(b) : a != 0 && b != 0;
    case OpKind::logical_or: return integer ? bits(a) | bits(b) : a != 0 || b != 0;
    case OpKind::logical_xor: return integer ? bits(a) ^ bits(b) : (a != 0) != (b != 0);
    case OpKind::select: return a != 0 ? b : c;
    case OpKind::compare: {
        const std::string& d = *attrs.direction;
        return d == "eq"   ? a == b
               : d == "ne" ? a != b
               : d == "lt" ? a < b
               : d == "le" ? a <= b
               : d == "gt" ? a > b
                           : a >= b;
    }
    case OpKind::cast: return made != DType::i32 ? a : std::isnan(a) ? 0 : std::trunc(a);
    default: throw InternalError(__FILE__, __LINE__, "not an op on elements");
    }
}

} // namespace trivium::runs
