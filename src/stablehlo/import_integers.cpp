// Integers of other types than i32: ui32 has the same bits as i32, so that random numbers can be computed.
#include "stablehlo/importer.hpp"
#include "stablehlo/integers.hpp"

#include <algorithm>
#include <cmath>

namespace trivium {

namespace {

using I = HloImporter;
using K = OpKind;

constexpr double two_to_31 = 2147483648.0, two_to_32 = 4294967296.0;

ValueId with_number(I& i, const HloOp& op, K kind, ValueId x, double number)
{
    return i.emit(op, kind, {x, i.constant_like(op, x, number)});
}

bool is_32_bits(HloElement element) { return element == HloElement::i32 || element == HloElement::u32; }

/// Operand 1, the numbers of bits of a shift, with what `of` makes of each.
template <class Of>
ValueId of_counts(I& i, const HloOp& op, const Of& of)
{
    const HloValue& counts = i.operand(op, 1);
    HloLiteral made{{HloElement::u32, counts.type.shape}, counts.known->splat};
    for (const i64 count : counts.known->ints)
        made.ints.push_back(wrapped(HloElement::u32, of(std::clamp<i64>(count, 0, 32))));
    return i.value_of({made.type, made}, op);
}

void require_shift(I& i, const HloOp& op)
{
    i.require(i.operand(op, 1).known.has_value() && (is_32_bits(i.type(op, 0).element) || fits_i32(i, op)),
              op, "its numbers of bits are computed, or its integers have other than 32 bits");
}

void shift_left(I& i, const HloOp& op)
{
    require_shift(i, op);
    i.give(op,
           i.emit(op, K::multiply, {i.value(op, 0), of_counts(i, op, [](i64 n) { return i64{1} << n; })}));
}

/// x / 2^n, rounded down: without its low bits the division is exact. In two steps, as 2^31 does not fit.
ValueId shifted_right(I& i, const HloOp& op)
{
    ValueId x = i.value(op, 0);
    for (const bool rest : {false, true}) {
        const auto bits = [&](i64 n) {
            return rest ? std::min<i64>(n, 31) - std::min<i64>(n, 15) : std::min<i64>(n, 15);
        };
        if (std::ranges::all_of(i.operand(op, 1).known->ints,
                                [&](i64 n) { return bits(std::max<i64>(n, 0)) == 0; }))
            continue;
        const ValueId low = of_counts(i, op, [&](i64 n) { return (i64{1} << bits(n)) - 1; }),
                      power = of_counts(i, op, [&](i64 n) { return i64{1} << bits(n); });
        const ValueId whole = i.emit(op, K::subtract, {x, i.emit(op, K::logical_and, {x, low})});
        x = i.emit(op, K::divide, {whole, power});
    }
    return x;
}

void shift_right_arithmetic(I& i, const HloOp& op)
{
    require_shift(i, op);
    i.give(op, shifted_right(i, op));
}

void shift_right_logical(I& i, const HloOp& op)
{
    require_shift(i, op);
    const ValueId kept = of_counts(i, op, [](i64 n) { return (i64{1} << (32 - n)) - 1; });
    i.give(op, i.emit(op, K::logical_and, {shifted_right(i, op), kept}));
}

/// The f32 of these bits, computed from sign, exponent and fraction, exactly, in f64.
ValueId f32_of_bits(I& i, const HloOp& op, ValueId x)
{
    const ValueId zero = i.constant_like(op, x, 0);
    const ValueId fraction = with_number(i, op, K::logical_and, x, 0x7fffff),
                  exponent_bits = with_number(i, op, K::logical_and, x, 0x7f800000);
    const ValueId exponent = with_number(i, op, K::divide, exponent_bits, 0x800000);
    ValueId power = i.constant(op, DType::f64, i.shape_of(x), 0x1p-127);
    double factor = 2;
    for (int bit = 0; bit < 8; ++bit, factor *= factor) {
        const ValueId set = with_number(i, op, K::logical_and, exponent, 1 << bit);
        power = i.emit(op, K::select, {set, with_number(i, op, K::multiply, power, factor), power});
    }
    const ValueId share = with_number(i, op, K::multiply, i.cast(op, fraction, DType::f64), 0x1p-23);
    const ValueId normal = i.emit(op, K::multiply, {with_number(i, op, K::add, share, 1), power}),
                  small = with_number(i, op, K::multiply, share, 0x1p-126);
    const ValueId size = i.cast(op, i.emit(op, K::select, {exponent, normal, small}), DType::f32);
    const ValueId last = i.compared(op, exponent, i.constant_like(op, exponent, 255), "eq");
    const ValueId infinite = i.constant_like(op, size, HUGE_VAL), none = i.constant_like(op, size, NAN);
    const ValueId special = i.emit(op, K::select, {i.compared(op, fraction, zero, "eq"), infinite, none});
    const ValueId all = i.emit(op, K::select, {last, special, size});
    return i.emit(op, K::select, {i.compared(op, x, zero, "lt"), i.emit(op, K::negate, {all}), all});
}

void bitcast_convert(I& i, const HloOp& op)
{
    const HloType &from = i.type(op, 0), &to = i.result_type(op);
    i.require(from.element == to.element ||
                  (is_32_bits(from.element) && (is_32_bits(to.element) || to.element == HloElement::f32)),
              op, str("it reads the bits of ", to_string(from), " as ", to_string(to)));
    const ValueId x = i.value(op, 0);
    i.give(op, to.element == HloElement::f32 && from.element != to.element ? f32_of_bits(i, op, x) : x);
}

} // namespace

ValueId with_flipped_sign(I& i, const HloOp& op, ValueId x)
{
    return with_number(i, op, K::logical_xor, x, -two_to_31);
}

ValueId real_of_unsigned(I& i, const HloOp& op, ValueId x, DType to)
{
    const ValueId real = i.cast(op, x, DType::f64); // of the upper half 2^32 less
    const ValueId more = with_number(i, op, K::add, real, two_to_32);
    return i.cast(op, i.emit(op, K::select, {i.compared(op, x, i.constant_like(op, x, 0), "lt"), more, real}),
                  to);
}

ValueId unsigned_of_real(I& i, const HloOp& op, ValueId x)
{
    const ValueId whole = i.emit(op, K::floor, {i.cast(op, x, DType::f64)});
    const ValueId upper = i.compared(op, whole, i.constant_like(op, whole, two_to_31), "ge");
    return i.cast(op,
                  i.emit(op, K::select, {upper, with_number(i, op, K::subtract, whole, two_to_32), whole}),
                  DType::i32);
}

ValueId unsigned_quotient(I& i, const HloOp& op, bool remainder)
{
    const ValueId a = real_of_unsigned(i, op, i.value(op, 0), DType::f64),
                  b = real_of_unsigned(i, op, i.value(op, 1), DType::f64);
    return unsigned_of_real(i, op, i.emit(op, remainder ? K::remainder : K::divide, {a, b}));
}

namespace {

/// Of an integer type of less than 32 bits: the least number and the largest.
std::optional<std::pair<i64, i64>> narrow_range(HloElement element)
{
    switch (element) {
    case HloElement::i8: return std::pair<i64, i64>{-128, 127};
    case HloElement::i16: return std::pair<i64, i64>{-32'768, 32'767};
    case HloElement::u8: return std::pair<i64, i64>{0, 255};
    case HloElement::u16: return std::pair<i64, i64>{0, 65'535};
    default: return {};
    }
}

} // namespace

bool narrows(const HloImporter& i, const HloOp& op)
{
    const HloType& from = i.type(op, 0);
    const auto to = narrow_range(op.result_types[0].element), own = narrow_range(from.element);
    const i64 most = i.operand(op, 0).most;
    return to && from.element != HloElement::i1 &&
           !(own && to->first <= own->first && own->second <= to->second) &&
           !(most >= 0 && most <= to->second);
}

ValueId narrowed(HloImporter& i, const HloOp& op, ValueId x)
{
    const auto [least, most] = *narrow_range(op.result_types[0].element);
    if (is_real(i.type(op, 0).element)) {
        const ValueId above = with_number(i, op, K::maximum, x, static_cast<double>(least));
        return i.cast(op, with_number(i, op, K::minimum, above, static_cast<double>(most)), DType::i32);
    }
    const ValueId bits = with_number(i, op, K::logical_and, x, static_cast<double>(most - least));
    if (least == 0)
        return bits;
    const ValueId turned = with_number(i, op, K::logical_xor, bits, static_cast<double>(-least));
    return with_number(i, op, K::subtract, turned, static_cast<double>(-least));
}

i64 largest_result(const HloImporter& i, const HloOp& op)
{
    const auto largest = [&](std::size_t n) {
        const HloValue& value = i.operand(op, n);
        if (!value.known)
            return value.most;
        const std::vector<i64>& all = value.known->ints;
        return all.empty() || *std::ranges::min_element(all) < 0 ? -1 : *std::ranges::max_element(all);
    };
    const auto is = [&](std::initializer_list<const char*> names) {
        return std::ranges::any_of(names,
                                   [&](const char* name) { return op.name == str("stablehlo.", name); });
    };
    constexpr i64 far = i64{1} << 31;
    if (op.result_types.size() != 1 || !op.result_types[0].refused.empty() ||
        is_real(op.result_types[0].element))
        return -1;
    if (is({"iota"})) {
        i64 most = 0;
        for (const i64 extent : op.result_types[0].shape)
            most = std::max(most, extent - 1);
        return most < far ? most : -1;
    }
    if (is({"partition_id"}))
        return i.mesh().mesh().ranks() - 1;
    if (op.operands.empty() || is_real(i.type(op, 0).element))
        return -1;
    const i64 first = largest(0);
    if (is({"convert"}) && narrows(i, op))
        return -1;
    if (is({"broadcast_in_dim", "reshape", "transpose", "slice", "reverse", "convert"}))
        return first;
    if (op.operands.size() != 2)
        return -1;
    const i64 second = largest(1);
    if (first < 0 || second < 0 || first >= far || second >= far)
        return -1;
    if (is({"shift_right_logical"})) // by no constant less than that
        return i.operand(op, 1).known && i.operand(op, 1).known->splat ? (second < 32 ? first >> second : 0)
                                                                       : first;
    if (is({"divide", "remainder"})) // not by 0
        return i.operand(op, 1).known ? first : -1;
    const i64 most = is({"add"}) ? first + second : is({"multiply"}) ? first * second : far;
    return most < far ? most : -1;
}

bool fits_i32(const HloImporter& i, const HloOp& op) { return largest_result(i, op) >= 0; }

bool keeps_integers(std::string_view op, HloElement element)
{
    const auto any_of = [&](std::initializer_list<std::string_view> names) {
        return std::ranges::find(names, op) != names.end();
    };
    if (any_of({"constant",
                "broadcast_in_dim",
                "reshape",
                "transpose",
                "slice",
                "concatenate",
                "select",
                "compare",
                "maximum",
                "minimum",
                "gather",
                "scatter",
                "dynamic_slice",
                "dynamic_update_slice",
                "iota",
                "reverse",
                "pad",
                "while",
                "case",
                "if",
                "call",
                "return",
                "custom_call",
                "composite",
                "sharding_constraint",
                "optimization_barrier",
                "convert",
                "bitcast_convert"}))
        return true;
    if (element == HloElement::i64)
        return any_of(
            {"add", "subtract", "divide", "remainder", "negate", "abs", "sign", "reduce", "clamp", "sort"});
    if (element == HloElement::u32) // modulo 2^32, like i32
        return any_of({"add", "subtract", "multiply", "divide", "remainder", "negate", "and", "or", "xor",
                       "not", "shift_left", "shift_right_logical", "sort"});
    return any_of({"clamp", "sort"});
}

void add_integers(HloHandlers& all)
{
    all.insert({{"shift_left", shift_left},
                {"shift_right_arithmetic", shift_right_arithmetic},
                {"shift_right_logical", shift_right_logical},
                {"bitcast_convert", bitcast_convert}});
}

} // namespace trivium
