#include "stablehlo/fold.hpp"

#include "base/bf16.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

namespace trivium {

namespace {

double rounded(HloElement element, double x)
{
    if (element == HloElement::f32)
        return static_cast<double>(static_cast<float>(x));
    if (element == HloElement::bf16)
        return static_cast<double>(static_cast<float>(bf16(static_cast<float>(x))));
    return x;
}

std::size_t index(i64 i) { return static_cast<std::size_t>(i); }

void put(HloLiteral& to, double x) { to.reals.push_back(rounded(to.type.element, x)); }
void put(HloLiteral& to, i64 x) { to.ints.push_back(wrapped(to.type.element, x)); }

/// Element by element, from those that compute(i) gives.
template <class Compute>
std::optional<HloLiteral> each(const HloType& type, bool splat, const Compute& compute)
{
    HloLiteral made{type, splat};
    const i64 count = splat ? 1 : elements_of(type);
    if (count > max_folded || is_real(type.element) != std::is_floating_point_v<decltype(compute(0))>)
        return {};
    for (i64 i = 0; i < count; ++i)
        put(made, compute(i));
    return made;
}

std::optional<double> real_of(std::string_view op, double a, double b)
{
    if (op == "add")
        return a + b;
    if (op == "subtract")
        return a - b;
    if (op == "multiply")
        return a * b;
    if (op == "divide")
        return a / b;
    if (op == "maximum")
        return std::isnan(a) || a > b ? a : b;
    if (op == "minimum")
        return std::isnan(a) || a < b ? a : b;
    if (op == "negate")
        return -a;
    if (op == "abs")
        return std::abs(a);
    if (op == "sqrt")
        return std::sqrt(a);
    return {};
}

std::optional<i64> int_of(std::string_view op, HloElement element, i64 a, i64 b)
{
    const auto u = static_cast<u64>(a), v = static_cast<u64>(b);
    const bool is_unsigned = element >= HloElement::u8;
    if (op == "add")
        return static_cast<i64>(u + v);
    if (op == "subtract")
        return static_cast<i64>(u - v);
    if (op == "multiply")
        return static_cast<i64>(u * v);
    if (op == "maximum")
        return is_unsigned ? static_cast<i64>(std::max(u, v)) : std::max(a, b);
    if (op == "minimum")
        return is_unsigned ? static_cast<i64>(std::min(u, v)) : std::min(a, b);
    const int bits = element == HloElement::i64 || element == HloElement::u64 ? 64 : 32;
    if (op.starts_with("shift_") &&
        (element == HloElement::i32 || element == HloElement::u32 || bits == 64)) {
        if (v >= static_cast<u64>(bits))
            return op == "shift_right_arithmetic" && a < 0 ? -1 : 0;
        if (op == "shift_left")
            return static_cast<i64>(u << v);
        if (op == "shift_right_arithmetic")
            return a >> v;
        return static_cast<i64>((bits == 64 ? u : u & 0xffffffffu) >> v);
    }
    if (op == "and")
        return a & b;
    if (op == "or")
        return a | b;
    if (op == "xor")
        return a ^ b;
    if (op == "negate")
        return static_cast<i64>(-u);
    if (op == "not")
        return element == HloElement::i1 ? i64{a == 0} : ~a;
    if (op == "abs")
        return a < 0 ? static_cast<i64>(-u) : a;
    if (op == "sign")
        return i64{a > 0} - i64{a < 0 && !is_unsigned};
    if (op == "divide" || op == "remainder") {
        if (b == 0 || (!is_unsigned && b == -1 && a == std::numeric_limits<i64>::min()))
            return {};
        if (is_unsigned)
            return static_cast<i64>(op == "divide" ? u / v : u % v);
        return op == "divide" ? a / b : a % b;
    }
    return {};
}

template <class T>
bool compared(std::string_view direction, T a, T b)
{
    return direction == "EQ"   ? a == b
           : direction == "NE" ? a != b
           : direction == "LT" ? a < b
           : direction == "LE" ? a <= b
           : direction == "GT" ? a > b
                               : a >= b;
}

/// The literal whose element at an index is that of `x` at place(index).
template <class Place>
std::optional<HloLiteral> moved(const HloLiteral& x, const HloType& type, const Place& place)
{
    if (x.type.element != type.element)
        return {};
    if (x.splat) {
        HloLiteral made = x;
        made.type = type;
        return made;
    }
    std::vector<i64> at(type.shape.size(), 0);
    HloLiteral made{type};
    if (elements_of(type) > max_folded)
        return {};
    for (i64 i = 0; i < elements_of(type); ++i) {
        const i64 from = place(at);
        if (is_real(type.element))
            made.reals.push_back(x.reals[index(from)]);
        else
            made.ints.push_back(x.ints[index(from)]);
        for (std::size_t d = at.size(); d-- > 0;) {
            if (++at[d] < type.shape[d])
                break;
            at[d] = 0;
        }
    }
    return made;
}

i64 flat(const Shape& shape, const std::vector<i64>& at)
{
    i64 i = 0;
    for (std::size_t d = 0; d < shape.size(); ++d)
        i = i * shape[d] + at[d];
    return i;
}

std::optional<HloLiteral> moves(std::string_view op, const HloOp& given, const HloLiteral& x,
                                const HloType& type)
{
    const Shape& shape = x.type.shape;
    const auto list = [&](const char* pretty, const char* generic) {
        const HloAttribute* found = given.attributes.find(pretty);
        return numbers_of(found ? found : given.attributes.find(generic));
    };
    if (op == "reshape" && elements_of(x.type) != elements_of(type))
        return {};
    if (op == "reshape")
        return moved(x, type, [&](const std::vector<i64>& at) { return flat(type.shape, at); });
    if (op == "slice") {
        const auto slice = slice_of(given, shape.size());
        if (!slice || type.shape.size() != shape.size())
            return {};
        for (std::size_t d = 0; d < shape.size(); ++d)
            if (slice->start[d] < 0 || slice->stride[d] < 1 || slice->limit[d] > shape[d] ||
                slice->limit[d] - slice->start[d] != type.shape[d] || slice->stride[d] != 1)
                return {};
        return moved(x, type, [&](std::vector<i64> at) {
            for (std::size_t d = 0; d < at.size(); ++d)
                at[d] += slice->start[d];
            return flat(shape, at);
        });
    }
    if (op != "broadcast_in_dim" && op != "transpose")
        return {};
    const bool spreads = op == "broadcast_in_dim";
    const std::vector<i64> dims = list("dims", spreads ? "broadcast_dimensions" : "permutation");
    if (dims.size() != shape.size() || (!spreads && type.shape.size() != shape.size()) ||
        std::ranges::any_of(dims, [&](i64 d) { return d < 0 || d >= static_cast<i64>(type.shape.size()); }))
        return {};
    for (std::size_t d = 0; d < shape.size(); ++d) {
        const i64 in = shape[index(spreads ? static_cast<i64>(d) : dims[d])],
                  out = type.shape[index(spreads ? dims[d] : static_cast<i64>(d))];
        if (in != out && !(spreads && in == 1))
            return {};
    }
    return moved(x, type, [&](const std::vector<i64>& at) {
        std::vector<i64> from(shape.size(), 0);
        for (std::size_t d = 0; d < shape.size(); ++d)
            if (spreads)
                from[d] = shape[d] == 1 ? 0 : at[index(dims[d])];
            else
                from[index(dims[d])] = at[d];
        return flat(shape, from);
    });
}

} // namespace

double real_at(const HloLiteral& literal, i64 i)
{
    return is_real(literal.type.element) ? literal.reals[index(literal.splat ? 0 : i)]
                                         : static_cast<double>(literal.ints[index(literal.splat ? 0 : i)]);
}

i64 int_at(const HloLiteral& literal, i64 i) { return literal.ints[index(literal.splat ? 0 : i)]; }

HloLiteral splat_of(const HloType& type, double number)
{
    HloLiteral made{type, true};
    if (is_real(type.element))
        put(made, number);
    else
        put(made, static_cast<i64>(number));
    return made;
}

std::optional<HloSlice> slice_of(const HloOp& op, std::size_t rank)
{
    HloSlice made;
    if (const HloAttribute* ranges = op.attributes.find("ranges")) { // "0:4, 0:8:2"
        std::string text = ranges->text;
        std::ranges::replace(text, ':', ' ');
        for (std::size_t at = 0; at < text.size();) {
            const std::size_t end = std::min(text.find(',', at), text.size());
            std::istringstream numbers(text.substr(at, end - at));
            i64 start = 0, limit = 0, stride = 1;
            if (!(numbers >> start >> limit))
                return {};
            if (!(numbers >> stride))
                stride = 1;
            made.start.push_back(start);
            made.limit.push_back(limit);
            made.stride.push_back(stride);
            at = end + 1;
        }
    } else {
        made.start = numbers_of(op.attributes.find("start_indices"));
        made.limit = numbers_of(op.attributes.find("limit_indices"));
        made.stride = numbers_of(op.attributes.find("strides"));
        if (made.stride.empty())
            made.stride.assign(rank, 1);
    }
    return made.start.size() == rank && made.limit.size() == rank && made.stride.size() == rank
               ? std::optional(made)
               : std::nullopt;
}

std::vector<i64> numbers_of(const HloAttribute* attribute)
{
    std::vector<i64> all;
    if (!attribute)
        return all;
    if (attribute->kind == HloAttribute::Kind::literal) {
        const HloLiteral& literal = attribute->literal;
        if (!literal.type.refused.empty() || is_real(literal.type.element))
            return all;
        const i64 stated = elements_of(literal.type); // of a splat it may be any number
        for (i64 i = 0; i < (literal.splat ? std::min<i64>(stated, max_folded) : stated); ++i)
            all.push_back(int_at(literal, i));
        return all;
    }
    if (attribute->kind == HloAttribute::Kind::number)
        return {attribute->number};
    for (const HloAttribute& item : attribute->items)
        if (item.kind == HloAttribute::Kind::list)
            for (const HloAttribute& inner : item.items)
                all.push_back(inner.number);
        else
            all.push_back(item.number);
    return all;
}

std::string direction_of(const HloOp& op)
{
    std::string text;
    if (const HloAttribute* words = op.attributes.find("words"); words && !words->items.empty())
        text = words->items[0].text;
    else if (const HloAttribute* found = op.attributes.find("comparison_direction"))
        text = found->text;
    return text.substr(text.find_last_of(' ') + 1); // "comparison_direction LT"
}

std::optional<HloLiteral> folded(const HloOp& given, const std::vector<const HloLiteral*>& operands,
                                 const HloType& type)
{
    if (!given.name.starts_with("stablehlo.") || operands.empty() || operands.size() > 3 ||
        !type.refused.empty() || elements_of(type) == 0)
        return {};
    const std::string_view op = std::string_view(given.name).substr(10);
    if (op == "reshape" || op == "broadcast_in_dim" || op == "transpose" || op == "slice")
        return operands.size() == 1 ? moves(op, given, *operands[0], type) : std::nullopt;
    for (const HloLiteral* x : operands) // pointwise from here on
        if (x->type.shape != type.shape && !((op == "select" || op == "clamp") && x->type.shape.empty()))
            return {};
    const bool splat = std::ranges::all_of(operands, [](const HloLiteral* x) { return x->splat; });
    const HloLiteral &a = *operands[0], &b = *operands[operands.size() > 1 ? 1 : 0];
    const HloElement element = a.type.element;
    if (op == "convert" && operands.size() == 1) {
        if (is_real(type.element))
            return each(type, splat, [&](i64 i) { return real_at(a, i); });
        if (type.element == HloElement::i1)
            return each(type, splat, [&](i64 i) { return i64{real_at(a, i) != 0}; });
        if (!is_real(element))
            return each(type, splat, [&](i64 i) { return int_at(a, i); });
        return {};
    }
    if (op == "compare" && operands.size() == 2 && element == b.type.element) {
        const std::string direction = direction_of(given);
        return each(type, splat, [&](i64 i) {
            if (is_real(element))
                return i64{compared(direction, real_at(a, i), real_at(b, i))};
            if (element >= HloElement::u8)
                return i64{
                    compared(direction, static_cast<u64>(int_at(a, i)), static_cast<u64>(int_at(b, i)))};
            return i64{compared(direction, int_at(a, i), int_at(b, i))};
        });
    }
    if (op == "select" && operands.size() == 3 && element == HloElement::i1) {
        const HloLiteral& c = *operands[2];
        if (b.type.element != type.element || c.type.element != type.element)
            return {};
        if (is_real(type.element))
            return each(type, splat, [&](i64 i) { return int_at(a, i) ? real_at(b, i) : real_at(c, i); });
        return each(type, splat, [&](i64 i) { return int_at(a, i) ? int_at(b, i) : int_at(c, i); });
    }
    const bool alike =
        std::ranges::all_of(operands, [&](const HloLiteral* x) { return x->type.element == element; });
    if (op == "clamp" && operands.size() == 3 && alike && !is_real(element) && element < HloElement::u8)
        return each(type, splat, [&](i64 i) {
            return std::min(std::max(int_at(b, i), int_at(a, i)), int_at(*operands[2], i));
        });
    const bool unary = op == "negate" || op == "abs" || op == "sqrt" || op == "not" || op == "sign";
    if (operands.size() != (unary ? 1 : 2) || element != type.element || b.type.element != element)
        return {};
    bool known = true;
    std::optional<HloLiteral> made;
    if (is_real(element))
        made = each(type, splat, [&](i64 i) {
            const auto value = real_of(op, real_at(a, i), real_at(b, i));
            known = known && value.has_value();
            return value.value_or(0);
        });
    else
        made = each(type, splat, [&](i64 i) {
            const auto value = int_of(op, element, int_at(a, i), int_at(b, i));
            known = known && value.has_value();
            return value.value_or(0);
        });
    return known ? made : std::nullopt;
}

} // namespace trivium
