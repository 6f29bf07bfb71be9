// Ops that compute each element from those at the same place.
#include "stablehlo/importer.hpp"
#include "stablehlo/integers.hpp"

#include <algorithm>
#include <cmath>

namespace trivium {

namespace {

using I = HloImporter;
using K = OpKind;

template <K kind>
void unary(I& i, const HloOp& op)
{
    i.give(op, i.emit(op, kind, {i.value(op, 0)}));
}

template <K kind>
void binary(I& i, const HloOp& op)
{
    i.give(op, i.emit(op, kind, {i.value(op, 0), i.value(op, 1)}));
}

bool is_truth(const I& i, const HloOp& op) { return i.type(op, 0).element == HloElement::i1; }
bool is_unsigned(const I& i, const HloOp& op) { return i.type(op, 0).element == HloElement::u32; }

/// `kind`, of truth values `truth`.
template <K kind, K truth>
void number_or_truth(I& i, const HloOp& op)
{
    is_truth(i, op) ? binary<truth>(i, op) : binary<kind>(i, op);
}

template <K kind, K truth>
void extremum(I& i, const HloOp& op)
{
    if (!is_unsigned(i, op))
        return number_or_truth<kind, truth>(i, op);
    const ValueId a = with_flipped_sign(i, op, i.value(op, 0)), b = with_flipped_sign(i, op, i.value(op, 1));
    i.give(op, with_flipped_sign(i, op, i.emit(op, kind, {a, b})));
}

template <K kind>
void quotient(I& i, const HloOp& op)
{
    if (give_axis_index(i, op, kind == K::remainder))
        return;
    is_unsigned(i, op) && !fits_i32(i, op) ? i.give(op, unsigned_quotient(i, op, kind == K::remainder))
                                           : binary<kind>(i, op);
}

void subtract(I& i, const HloOp& op)
{
    i.require(!is_truth(i, op), op, "its operands are i1");
    binary<K::subtract>(i, op);
}

void logical_not(I& i, const HloOp& op)
{
    if (is_truth(i, op))
        return unary<K::logical_not>(i, op);
    const ValueId x = i.value(op, 0); // -x - 1
    i.give(op, i.emit(op, K::subtract, {i.constant_like(op, x, -1), x}));
}

void square(I& i, const HloOp& op)
{
    const ValueId x = i.value(op, 0);
    i.give(op, i.emit(op, K::multiply, {x, x}));
}

void compare(I& i, const HloOp& op)
{
    std::string direction = direction_of(op);
    std::ranges::transform(direction, direction.begin(), [](char c) { return c | 32; });
    const HloAttribute* words = op.attributes.find("words");
    const HloAttribute* type = op.attributes.find("compare_type");
    const bool total = words ? words->items.size() > 1 && words->items[1].text == "TOTALORDER"
                             : type && type->text.ends_with("TOTALORDER");
    ValueId a = i.value(op, 0), b = i.value(op, 1);
    if (is_unsigned(i, op) && direction != "eq" && direction != "ne") {
        a = with_flipped_sign(i, op, a);
        b = with_flipped_sign(i, op, b);
    }
    const ValueId plain = i.compared(op, a, b, direction.c_str());
    if (!total || !is_real(i.type(op, 0).element))
        return i.give(op, plain);
    // In the total order NaN is the last one, and equal to itself. (That of -0 is before 0, here they are
    // equal.)
    const ValueId none[] = {i.compared(op, a, a, "ne"), i.compared(op, b, b, "ne")};
    const ValueId equal = i.emit(op, K::logical_and, {none[0], none[1]}),
                  a_last = i.compared(op, none[0], none[1], "gt"),
                  b_last = i.compared(op, none[0], none[1], "lt");
    if (direction == "eq" || direction == "ne") {
        const ValueId same = i.emit(op, K::logical_or, {i.compared(op, a, b, "eq"), equal});
        return i.give(op, direction == "eq" ? same : i.emit(op, K::logical_not, {same}));
    }
    ValueId holds = i.emit(op, K::logical_or, {plain, direction[0] == 'l' ? b_last : a_last});
    if (direction[1] == 'e')
        holds = i.emit(op, K::logical_or, {holds, equal});
    i.give(op, holds);
}

/// Operand `n`, a scalar or a tensor, as a tensor of this shape.
ValueId whole(I& i, const HloOp& op, std::size_t n, const Shape& shape)
{
    return i.shape(op, n).empty() ? i.spread(op, i.value(op, n), {}, shape) : i.value(op, n);
}

void select(I& i, const HloOp& op)
{
    const Shape shape = i.shape(op, 1);
    i.give(op, i.emit(op, K::select, {whole(i, op, 0, shape), i.value(op, 1), i.value(op, 2)}));
}

void clamp(I& i, const HloOp& op)
{
    const Shape shape = i.shape(op, 1);
    const ValueId raised = i.emit(op, K::maximum, {i.value(op, 1), whole(i, op, 0, shape)});
    i.give(op, i.emit(op, K::minimum, {raised, whole(i, op, 2, shape)}));
}

void convert(I& i, const HloOp& op)
{
    const HloType &from = i.type(op, 0), &to = i.result_type(op);
    const ValueId x = i.value(op, 0);
    if (to.element == HloElement::i1 && from.element != HloElement::i1)
        return i.give(op, i.compared(op, x, i.constant_like(op, x, 0), "ne"));
    const bool from_unsigned = from.element == HloElement::u32, to_unsigned = to.element == HloElement::u32;
    if (from_unsigned && is_real(to.element))
        return i.give(op, real_of_unsigned(i, op, x, i.dtype(to, op)));
    if (to_unsigned && is_real(from.element))
        return i.give(op, unsigned_of_real(i, op, x));
    if (to.element != from.element && narrows(i, op))
        return i.give(op, narrowed(i, op, x));
    i.require(is_real(to.element) || from.element == HloElement::i1 || from.element == to.element ||
                  to.element == HloElement::i32 || (to.element == HloElement::i64 && !from_unsigned) ||
                  (to_unsigned && from.element != HloElement::u64) || fits_i32(i, op),
              op, "a graph has no tensors of type " + to_string(to));
    const ValueId y = i.cast(op, x, i.dtype(to, op));
    // A copy of the same integers counts along the same dimension.
    i.give(op, y, 0, is_real(from.element) || is_real(to.element) ? -1 : i.operand(op, 0).iota_dim);
}

void is_finite(I& i, const HloOp& op)
{
    const ValueId x = i.value(op, 0), size = i.emit(op, K::abs, {x});
    i.give(op, i.compared(op, size, i.constant_like(op, x, HUGE_VAL), "lt"));
}

ValueId term(I& i, const HloOp& op, K kind, ValueId a, double b)
{
    return i.emit(op, kind, {a, i.constant_like(op, a, b)});
}

void tangent(I& i, const HloOp& op)
{
    const ValueId x = i.value(op, 0);
    i.give(op, i.emit(op, K::divide, {i.emit(op, K::sin, {x}), i.emit(op, K::cos, {x})}));
}

void cube_root(I& i, const HloOp& op)
{
    const ValueId x = i.value(op, 0), size = term(i, op, K::power, i.emit(op, K::abs, {x}), 1.0 / 3);
    i.give(op, i.emit(op, K::multiply, {i.emit(op, K::sign, {x}), size}));
}

void erfc(I& i, const HloOp& op)
{
    const ValueId x = i.value(op, 0);
    i.give(op, i.emit(op, K::subtract, {i.constant_like(op, x, 1), i.emit(op, K::erf, {x})}));
}

/// (e^x ± e^-x) / 2
template <K kind>
void hyperbolic(I& i, const HloOp& op)
{
    const ValueId x = i.value(op, 0), minus = i.emit(op, K::negate, {x});
    const ValueId both = i.emit(op, kind, {i.emit(op, K::exp, {x}), i.emit(op, K::exp, {minus})});
    i.give(op, term(i, op, K::multiply, both, 0.5));
}

/// To the nearest integer, of two the even one: floor(x), and 1 more above a half, or at a half if it is odd.
void round_even(I& i, const HloOp& op)
{
    const ValueId x = i.value(op, 0), low = i.emit(op, K::floor, {x});
    const ValueId rest = i.emit(op, K::subtract, {x, low}), half = i.constant_like(op, x, 0.5);
    const ValueId odd = i.compared(op, term(i, op, K::remainder, low, 2), i.constant_like(op, x, 0), "ne");
    const ValueId tie = i.emit(op, K::logical_and, {i.compared(op, rest, half, "eq"), odd});
    const ValueId up = i.emit(op, K::logical_or, {i.compared(op, rest, half, "gt"), tie});
    i.give(op, i.emit(op, K::select, {up, term(i, op, K::add, low, 1), low}));
}

/// To the nearest integer, of two the one farther from 0.
void round_away(I& i, const HloOp& op)
{
    const ValueId x = i.value(op, 0), size = i.emit(op, K::abs, {x}), low = i.emit(op, K::floor, {size});
    const ValueId up =
        i.compared(op, i.emit(op, K::subtract, {size, low}), i.constant_like(op, x, 0.5), "ge");
    const ValueId whole = i.emit(op, K::select, {up, term(i, op, K::add, low, 1), low});
    i.give(op, i.emit(op, K::multiply, {i.emit(op, K::sign, {x}), whole}));
}

} // namespace

void add_pointwise(HloHandlers& all)
{
    all.insert({{"abs", unary<K::abs>},
                {"sign", unary<K::sign>},
                {"negate", unary<K::negate>},
                {"exponential", unary<K::exp>},
                {"exponential_minus_one", unary<K::expm1>},
                {"log", unary<K::log>},
                {"log_plus_one", unary<K::log1p>},
                {"sqrt", unary<K::sqrt>},
                {"rsqrt", unary<K::rsqrt>},
                {"tanh", unary<K::tanh>},
                {"logistic", unary<K::sigmoid>},
                {"sine", unary<K::sin>},
                {"cosine", unary<K::cos>},
                {"floor", unary<K::floor>},
                {"ceil", unary<K::ceil>},
                {"erf", unary<K::erf>},
                {"erfc", erfc},
                {"square", square},
                {"tan", tangent},
                {"cbrt", cube_root},
                {"sinh", hyperbolic<K::subtract>},
                {"cosh", hyperbolic<K::add>},
                {"round_nearest_even", round_even},
                {"round_nearest_afz", round_away},
                {"is_finite", is_finite},
                {"not", logical_not},
                {"add", number_or_truth<K::add, K::logical_or>},
                {"multiply", number_or_truth<K::multiply, K::logical_and>},
                {"maximum", extremum<K::maximum, K::logical_or>},
                {"minimum", extremum<K::minimum, K::logical_and>},
                {"and", binary<K::logical_and>},
                {"or", binary<K::logical_or>},
                {"xor", binary<K::logical_xor>},
                {"subtract", subtract},
                {"divide", quotient<K::divide>},
                {"power", binary<K::power>},
                {"remainder", quotient<K::remainder>},
                {"compare", compare},
                {"select", select},
                {"clamp", clamp},
                {"convert", convert}});
}

} // namespace trivium
