// Ops that move elements, and reductions.
#include "stablehlo/importer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trivium {

namespace {

using I = HloImporter;
using K = OpKind;
using Numbers = I::Numbers;

void constant(I& i, const HloOp& op)
{
    const HloAttribute* value = op.attributes.find("value");
    i.require(value && value->kind == HloAttribute::Kind::literal, op, "its value is not dense<…>");
    i.dtype(value->literal.type, op);
    i.give(op, HloValue{value->literal.type, value->literal});
}

void iota(I& i, const HloOp& op)
{
    const HloType& type = i.result_type(op);
    const Numbers dims = i.list(op, "dim", "iota_dimension");
    i.require(dims.size() == 1, op, "it names no dimension");
    i.give(op,
           i.emit(op, K::iota, {},
                  {.dtype = i.dtype(type, op), .lists = {{Attr::shape, type.shape}, {Attr::dims, dims}}}),
           0, dims[0]);
}

void broadcast(I& i, const HloOp& op)
{
    const Numbers dims = i.list(op, "dims", "broadcast_dimensions");
    const Shape& shape = i.result_type(op).shape;
    const HloValue& x = i.operand(op, 0);
    i.require(dims.size() == x.type.shape.size(), op,
              "it does not name a dimension for each of its operand's");
    i.require(std::ranges::all_of(dims, [&](i64 d) { return d >= 0 && d < static_cast<i64>(shape.size()); }),
              op, "it names a dimension that its result lacks");
    const i64 counts = x.iota_dim >= 0 ? dims[static_cast<std::size_t>(x.iota_dim)] : -1;
    i.give(op, i.spread(op, i.value(op, 0), dims, shape), 0, counts);
}

void reshape(I& i, const HloOp& op) { i.give(op, i.reshaped(op, i.value(op, 0), i.result_type(op).shape)); }

void transpose(I& i, const HloOp& op)
{
    i.give(op, i.transposed(op, i.value(op, 0), i.list(op, "dims", "permutation")));
}

void reverse(I& i, const HloOp& op)
{
    i.give(op, i.emit(op, K::reverse, {i.value(op, 0)},
                      {.lists = {{Attr::dims, i.list(op, "dims", "dimensions")}}}));
}

void slice(I& i, const HloOp& op)
{
    const std::size_t rank = i.shape(op, 0).size();
    const auto bounds = slice_of(op, rank);
    i.require(bounds.has_value(), op, "it does not state a range of each dimension, like [0:4, 0:8:2]");
    const auto& [start, limit, stride] = *bounds;
    if (Numbers(rank, 0) == start && limit == i.shape(op, 0) && Numbers(rank, 1) == stride)
        return i.give(op, i.value(op, 0), 0, i.operand(op, 0).iota_dim);
    i.give(op, i.emit(op, K::slice, {i.value(op, 0)},
                      {.lists = {{Attr::start, start}, {Attr::limit, limit}, {Attr::stride, stride}}}));
}

void concatenate(I& i, const HloOp& op)
{
    const Numbers dims = i.list(op, "dim", "dimension");
    std::vector<ValueId> parts;
    for (std::size_t k = 0; k < op.operands.size(); ++k)
        if (element_count(i.shape(op, k)) > 0)
            parts.push_back(i.value(op, k));
    i.give(op,
           parts.size() == 1 ? parts[0] : i.emit(op, K::concatenate, parts, {.lists = {{Attr::dims, dims}}}));
}

void pad(I& i, const HloOp& op)
{
    const std::size_t rank = i.shape(op, 0).size();
    const Numbers low = i.list(op, "low", "edge_padding_low"), high = i.list(op, "high", "edge_padding_high");
    Numbers interior = i.list(op, "interior", "interior_padding");
    interior.resize(rank, 0);
    if (element_count(i.shape(op, 0)) == 0)
        return i.give(op, i.spread(op, i.value(op, 1), {}, i.result_type(op).shape));
    const bool copies = low == Numbers(rank, 0) && high == low && interior == low;
    if (copies)
        return i.give(op, i.value(op, 0));
    const auto padded = [&](ValueId x, double value) {
        return i.emit(
            op, K::pad, {x},
            {.value = value, .lists = {{Attr::low, low}, {Attr::high, high}, {Attr::interior, interior}}});
    };
    if (const HloValue& value = i.operand(op, 1); value.known)
        return i.give(op, padded(i.value(op, 0), real_at(*value.known, 0)));
    // A value that is computed: where the padding is.
    const ValueId x = i.value(op, 0);
    const ValueId inside = padded(i.constant(op, DType::i32, i.shape(op, 0), 1), 0), moved = padded(x, 0);
    i.give(op, i.emit(op, K::select, {inside, moved, i.spread(op, i.value(op, 1), {}, i.shape_of(moved))}));
}

struct Reducer {
    Combine combine;
    K kind; ///< the same of two tensors
    double identity;
};

/// What a region of two scalars combines; the identity is that of `type`.
std::optional<Reducer> reducer(const std::string& name, const HloType& type)
{
    const bool truth = type.element == HloElement::i1;
    constexpr double most = std::numeric_limits<std::int32_t>::max(),
                     least = std::numeric_limits<std::int32_t>::min();
    if (name == "add" && !truth)
        return Reducer{Combine::sum, K::add, 0};
    if (name == "multiply" && !truth)
        return Reducer{Combine::product, K::multiply, 1};
    if (name == "maximum" || (truth && (name == "or" || name == "add")))
        return Reducer{Combine::max, K::maximum, truth ? 0 : is_real(type.element) ? -HUGE_VAL : least};
    if (name == "minimum" || (truth && (name == "and" || name == "multiply")))
        return Reducer{Combine::min, K::minimum, truth ? 1 : is_real(type.element) ? HUGE_VAL : most};
    return {};
}

bool is_known(const HloValue& value, double number)
{
    return value.known && real_at(*value.known, 0) == number;
}

/// Of an unknown start, or one that changes the result: combined at the end.
ValueId with_start(I& i, const HloOp& op, ValueId x, const Reducer& how, std::size_t start)
{
    if (is_known(i.operand(op, start), how.identity))
        return x;
    return i.emit(op, how.kind, {x, i.spread(op, i.value(op, start), {}, i.shape_of(x))});
}

/// -1 or 1 if the region keeps of two (value, index) pairs the one with the smaller or larger value, of equal
/// values the smaller index; otherwise 0. Such a region only compares and selects, so what it does with
/// each order of two values and of two indices is all that it does.
int keeps_extremum(I& i, const HloOp& op)
{
    const HloRegion& body = i.region(op, 0);
    for (const HloOp& inner : body.ops) {
        const auto is = [&](const char* name) { return inner.name == str("stablehlo.", name); };
        if (!is("compare") && !is("select") && !is("or") && !is("and") && !is("not") && !is("return"))
            return 0;
    }
    for (const int sign : {-1, 1}) {
        bool holds = true;
        for (const double a : {1.0, 2.0, 3.0})
            for (const i64 index : {1, 2, 3}) {
                const HloType value{i.type(op, 0).element, {}}, place{i.type(op, 1).element, {}};
                const auto number = [](const HloType& type, double x) {
                    return HloValue{type, splat_of(type, x)};
                };
                const auto found = i.run_region(op, body,
                                                {number(value, a), number(place, static_cast<double>(index)),
                                                 number(value, 2), number(place, 2)});
                if (found.size() != 2 || !found[0].known || !found[1].known)
                    return 0;
                const bool first = sign * a > sign * 2.0 || (a == 2 && index < 2);
                holds = holds && real_at(*found[0].known, 0) == (sign * a > sign * 2.0 ? a : 2) &&
                        int_at(*found[1].known, 0) == (first ? index : 2);
            }
        if (holds)
            return sign;
    }
    return 0;
}

/// The largest (smallest) elements, and the smallest index that has one.
void extremum(I& i, const HloOp& op, const Numbers& dims)
{
    const int sign = keeps_extremum(i, op);
    const HloValue& counts = i.operand(op, 1);
    i.require(sign != 0 && dims.size() == 1 && counts.iota_dim == dims[0], op,
              "it reduces several tensors, other than to the largest or smallest element and its index");
    const HloType& type = i.type(op, 0);
    const Reducer how = *reducer(sign > 0 ? "maximum" : "minimum", type);
    i.require(is_known(i.operand(op, 2), how.identity), op, "it starts with another number than the least");
    const ValueId x = i.value(op, 0),
                  best = i.emit(op, K::reduce, {x}, {.combine = how.combine, .lists = {{Attr::dims, dims}}});
    Numbers kept;
    for (i64 d = 0; d < static_cast<i64>(type.shape.size()); ++d)
        if (d != dims[0])
            kept.push_back(d);
    ValueId mark = i.compared(op, x, i.spread(op, best, kept, type.shape), "eq");
    if (is_real(type.element)) // NaN is the extremum
        mark = i.emit(op, K::logical_or, {mark, i.compared(op, x, x, "ne")});
    const ValueId index = i.value(op, 1),
                  none = i.constant_like(op, index,
                                         static_cast<double>(type.shape[static_cast<std::size_t>(dims[0])]));
    i.give(op, best, 0);
    i.give(op,
           i.emit(op, K::reduce, {i.emit(op, K::select, {mark, index, none})},
                  {.combine = Combine::min, .lists = {{Attr::dims, dims}}}),
           1);
}

void reduce(I& i, const HloOp& op)
{
    const Numbers dims = i.list(op, "dimensions");
    if (op.operands.size() == 4)
        return extremum(i, op, dims);
    i.require(op.operands.size() == 2, op, "it reduces several tensors");
    const auto how = reducer(i.simple_region(op, 0), i.type(op, 0));
    i.require(how.has_value(), op, "its region is not a sum, product, maximum or minimum");
    const ValueId x = i.value(op, 0);
    const ValueId y =
        dims.empty() ? x
                     : i.emit(op, K::reduce, {x}, {.combine = how->combine, .lists = {{Attr::dims, dims}}});
    i.give(op, with_start(i, op, y, *how, 1));
}

/// The windows of a reduce_window or select_and_scatter.
struct Windows {
    Numbers size, stride, low, high, base, dilation;
};

Windows windows(I& i, const HloOp& op)
{
    const std::size_t rank = i.shape(op, 0).size();
    Windows w{i.list(op, "window_dimensions"),          i.list_or(op, "window_strides", rank, 1),  {}, {},
              i.list_or(op, "base_dilations", rank, 1), i.list_or(op, "window_dilations", rank, 1)};
    i.require(w.size.size() == rank, op, "it lacks the extents of its window");
    const Numbers padding = i.list_or(op, "padding", 2 * rank, 0);
    for (std::size_t d = 0; d < rank; ++d) {
        w.low.push_back(padding[2 * d]);
        w.high.push_back(padding[2 * d + 1]);
    }
    return w;
}

NumberLists lists_of(const Windows& w)
{
    return {{Attr::stride, w.stride}, {Attr::low, w.low},           {Attr::high, w.high},
            {Attr::window, w.size},   {Attr::dilation, w.dilation}, {Attr::base, w.base}};
}

void reduce_window(I& i, const HloOp& op)
{
    i.require(op.operands.size() == 2, op, "it reduces several tensors");
    const Shape& shape = i.shape(op, 0);
    const auto how = reducer(i.simple_region(op, 0), i.type(op, 0));
    i.require(how.has_value(), op, "its region is not a sum, product, maximum or minimum");
    const Windows w = windows(i, op);
    const Numbers ones(shape.size(), 1), zeros(shape.size(), 0);
    if (!is_known(i.operand(op, 1), how->identity))
        i.require(w.low == zeros && w.high == zeros && w.base == ones, op,
                  "it pads with another number than the identity of its reduction");
    // All elements up to this one: a cumulative sum.
    i64 along = -1;
    int wide = 0;
    bool forward = true, backward = true;
    for (std::size_t d = 0; d < shape.size(); ++d) {
        const bool one = w.size[d] == 1 && w.low[d] == 0 && w.high[d] == 0;
        const bool all = w.size[d] == shape[d];
        if (!one) {
            along = static_cast<i64>(d);
            ++wide;
        }
        forward = forward && (one || (all && w.low[d] == shape[d] - 1 && w.high[d] == 0));
        backward = backward && (one || (all && w.high[d] == shape[d] - 1 && w.low[d] == 0));
    }
    const ValueId x = i.value(op, 0);
    if (how->combine == Combine::sum && wide == 1 && (forward || backward) && w.stride == ones &&
        w.base == ones && w.dilation == ones) {
        NumberLists lists{{Attr::dims, {along}}};
        if (!forward)
            lists.set(Attr::backwards, {1});
        return i.give(op, with_start(i, op, i.emit(op, K::cumsum, {x}, {.lists = lists}), *how, 1));
    }
    i.give(op, with_start(i, op, i.emit(op, K::pool, {x}, {.combine = how->combine, .lists = lists_of(w)}),
                          *how, 1));
}

/// The gradient of pooling by maximum or minimum.
void select_and_scatter(I& i, const HloOp& op)
{
    i.require(op.operands.size() == 3, op, "it has another number of operands than 3");
    const HloRegion& select = i.region(op, 0);
    const std::string compares = i.simple_region(op, 0),
                      direction = select.ops.empty() ? "" : direction_of(select.ops[0]);
    const bool in_order = compares == "compare" && select.ops[0].operands[0] == select.arguments[0].name;
    i.require(in_order && (direction == "GE" || direction == "LE"), op,
              "it selects other than the first extremum");
    i.require(i.simple_region(op, 1) == "add", op, "it scatters other than by adding");
    i.require(is_known(i.operand(op, 2), 0), op, "it starts with another number than 0");
    Windows w = windows(i, op);
    const ValueId made =
        i.emit(op, K::pool_grad, {i.value(op, 1), i.value(op, 0)},
               {.combine = direction == "GE" ? Combine::max : Combine::min, .lists = lists_of(w)});
    i.give(op, made);
}

} // namespace

void add_shapes(HloHandlers& all)
{
    all.insert({{"constant", constant},
                {"iota", iota},
                {"broadcast_in_dim", broadcast},
                {"reshape", reshape},
                {"transpose", transpose},
                {"reverse", reverse},
                {"slice", slice},
                {"concatenate", concatenate},
                {"pad", pad},
                {"reduce", reduce}});
}

void add_windows(HloHandlers& all)
{
    all.insert({{"reduce_window", reduce_window}, {"select_and_scatter", select_and_scatter}});
}

} // namespace trivium
