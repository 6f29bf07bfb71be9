// Ops whose indices are values, and orders of elements.
#include "stablehlo/importer.hpp"
#include "stablehlo/integers.hpp"

#include <algorithm>

namespace trivium {

namespace {

using I = HloImporter;
using K = OpKind;
using Numbers = I::Numbers;

/// The starts, operands from `first` on, if all are constants: clamped to where a slice of `sizes` fits.
std::optional<Numbers> known_starts(const I& i, const HloOp& op, std::size_t first, const Shape& shape,
                                    const Shape& sizes)
{
    Numbers starts;
    for (std::size_t d = 0; d < shape.size(); ++d) {
        const auto start = i.known_int(op, first + d);
        if (!start)
            return {};
        starts.push_back(std::clamp<i64>(*start, 0, std::max<i64>(shape[d] - sizes[d], 0)));
    }
    return starts;
}

/// Operands from `first` on: constants as they are clamped, so that they fit into i32.
void append_starts(I& i, const HloOp& op, std::size_t first, const Shape& shape, const Shape& sizes,
                   std::vector<ValueId>& operands)
{
    for (std::size_t d = 0; d < shape.size(); ++d)
        if (const auto start = i.known_int(op, first + d))
            operands.push_back(i.constant(
                op, DType::i32, {},
                static_cast<double>(std::clamp<i64>(*start, 0, std::max<i64>(shape[d] - sizes[d], 0)))));
        else
            operands.push_back(i.value(op, first + d));
}

void dynamic_slice(I& i, const HloOp& op)
{
    const Shape &shape = i.shape(op, 0), sizes = i.list(op, "sizes", "slice_sizes");
    i.require(sizes.size() == shape.size() && op.operands.size() == shape.size() + 1, op,
              "it does not have a start and a size along each dimension");
    if (const auto starts = known_starts(i, op, 1, shape, sizes)) {
        Numbers limit = *starts;
        for (std::size_t d = 0; d < limit.size(); ++d)
            limit[d] += sizes[d];
        if (sizes == shape)
            return i.give(op, i.value(op, 0));
        return i.give(op, i.emit(op, K::slice, {i.value(op, 0)},
                                 {.lists = {{Attr::start, *starts}, {Attr::limit, limit}}}));
    }
    std::vector<ValueId> operands{i.value(op, 0)};
    append_starts(i, op, 1, shape, sizes, operands);
    i.give(op, i.emit(op, K::dynamic_slice, operands, {.lists = {{Attr::shape, sizes}}}));
}

void dynamic_update_slice(I& i, const HloOp& op)
{
    const Shape &shape = i.shape(op, 0), &update = i.shape(op, 1);
    i.require(update.size() == shape.size() && op.operands.size() == shape.size() + 2, op,
              "it does not have a start along each dimension");
    if (update == shape)
        return i.give(op, i.value(op, 1));
    std::vector<ValueId> operands{i.value(op, 0), i.value(op, 1)};
    append_starts(i, op, 2, shape, update, operands);
    i.give(op, i.emit(op, K::dynamic_update_slice, operands));
}

/// #stablehlo.gather<…>
HloAttribute dimension_numbers(const I& i, const HloOp& op, const char* name)
{
    const HloAttribute* numbers = op.attributes.find(name);
    i.require(numbers && numbers->kind == HloAttribute::Kind::raw, op, str("it lacks ", name));
    return i.inner_dictionary(op, *numbers);
}

NumberLists index_lists(const HloAttribute& numbers, const char* offset, const char* collapsed,
                        const char* batch, const char* index_batch, const char* map)
{
    const Numbers at = numbers_of(numbers.find("index_vector_dim"));
    return {{Attr::offset_dims, numbers_of(numbers.find(offset))},
            {Attr::collapsed_dims, numbers_of(numbers.find(collapsed))},
            {Attr::batch_dims, numbers_of(numbers.find(batch))},
            {Attr::index_batch_dims, numbers_of(numbers.find(index_batch))},
            {Attr::index_map, numbers_of(numbers.find(map))},
            {Attr::index_dim, {at.empty() ? 0 : at[0]}}};
}

void gather(I& i, const HloOp& op)
{
    const HloAttribute numbers = dimension_numbers(i, op, "dimension_numbers");
    NumberLists lists = index_lists(numbers, "offset_dims", "collapsed_slice_dims", "operand_batching_dims",
                                    "start_indices_batching_dims", "start_index_map");
    lists.set(Attr::slice_sizes, i.list(op, "slice_sizes"));
    i.give(op, i.emit(op, K::gather, {i.value(op, 0), i.value(op, 1)}, {.lists = lists}));
}

void scatter(I& i, const HloOp& op)
{
    i.require(op.operands.size() == 3, op, "it scatters into several tensors");
    const HloAttribute numbers = dimension_numbers(i, op, "scatter_dimension_numbers");
    Attributes attrs{.lists = index_lists(numbers, "update_window_dims", "inserted_window_dims",
                                          "input_batching_dims", "scatter_indices_batching_dims",
                                          "scatter_dims_to_operand_dims")};
    const std::string how = i.simple_region(op, 0);
    ValueId updates = i.value(op, 2);
    if (how == "add" || how == "subtract")
        attrs.combine = Combine::sum;
    else if (how == "multiply")
        attrs.combine = Combine::product;
    else if (how == "maximum")
        attrs.combine = Combine::max;
    else if (how == "minimum")
        attrs.combine = Combine::min;
    else
        i.require(how == "second", op,
                  "its region is not an update, sum, difference, product, maximum or minimum");
    if (how == "subtract")
        updates = i.emit(op, K::negate, {updates});
    i.give(op, i.emit(op, K::scatter, {i.value(op, 0), i.value(op, 1), updates}, std::move(attrs)));
}

/// The comparator's result for elements a and b of each operand.
std::optional<bool> comes_first(I& i, const HloOp& op, const Numbers& a, const Numbers& b)
{
    std::vector<HloValue> arguments;
    for (std::size_t n = 0; n < a.size(); ++n) {
        const HloType scalar{i.type(op, n).element, {}};
        for (i64 number : {a[n], b[n]}) {
            number += scalar.element >= HloElement::u8 ? 2 : 0; // no number below 0
            arguments.push_back({scalar, splat_of(scalar, static_cast<double>(number))});
        }
    }
    const auto found = i.run_region(op, i.region(op, 0), std::move(arguments));
    if (found.size() != 1 || !found[0].known || is_real(found[0].type.element))
        return {};
    return int_at(*found[0].known, 0) != 0;
}

/// The keys by which the comparator of a sort orders, the first one first, all ascending (sign 1) or
/// descending
/// (-1). Such a region only compares and selects among its arguments and constants, 0 and NaN: what it does
/// with numbers of both signs in all orders is all that it does. Empty: it is none of these.
std::vector<std::size_t> keys_of(I& i, const HloOp& op, int sign)
{
    const std::size_t count = op.operands.size();
    i.require(i.region(op, 0).arguments.size() == 2 * count, op,
              "its region has another number of arguments");
    std::vector<std::size_t> keys;
    for (;;) {
        // Of elements that are equal in the keys so far: by which other operand alone does it decide?
        std::vector<std::size_t> deciding;
        for (std::size_t n = 0; n < count; ++n) {
            if (std::ranges::find(keys, n) != keys.end())
                continue;
            bool decides = true;
            for (i64 x = -2; x <= 2 && decides; ++x)
                for (i64 y = -2; y <= 2 && decides; ++y)
                    for (const i64 other : {-1, 0, 1}) {
                        Numbers a(count, 0), b(count, 0);
                        for (std::size_t m = 0; m < count; ++m)
                            if (m != n && std::ranges::find(keys, m) == keys.end())
                                b[m] = other;
                        a[n] = x;
                        b[n] = y;
                        const auto first = comes_first(i, op, a, b);
                        decides =
                            decides && first &&
                            (x == y ? keys.size() + 1 < count || !*first : *first == (sign * x < sign * y));
                    }
            if (decides)
                deciding.push_back(n);
        }
        if (deciding.size() != 1)
            return {};
        keys.push_back(deciding[0]);
        // Whether equal keys leave it undecided, whatever the others are.
        bool ends = true;
        for (const i64 other : {-1, 0, 1}) {
            Numbers b(count, other);
            for (const std::size_t key : keys)
                b[key] = 0;
            ends = ends && comes_first(i, op, Numbers(count, 0), b) == false;
        }
        if (ends)
            return keys;
    }
}

/// One stable sort for each key, the last key first.
void sort(I& i, const HloOp& op)
{
    for (const HloOp& inner : i.region(op, 0).ops)
        i.require(inner.name == "stablehlo.compare" || inner.name == "stablehlo.select" ||
                      inner.name == "stablehlo.and" || inner.name == "stablehlo.or" ||
                      inner.name == "stablehlo.not" || inner.name == "stablehlo.constant" ||
                      inner.name == "stablehlo.return",
                  op, str("its comparator has the op ", inner.name));
    const Numbers dims = i.list(op, "dimension");
    NumberLists lists{
        {Attr::dims, {dims.empty() || dims[0] < 0 ? static_cast<i64>(i.shape(op, 0).size()) - 1 : dims[0]}}};
    std::vector<std::size_t> keys = keys_of(i, op, 1);
    if (keys.empty()) {
        keys = keys_of(i, op, -1);
        lists.set(Attr::descending, {1});
    }
    i.require(!keys.empty(), op,
              "its comparator is not the order of operands, all ascending or all descending");
    std::vector<ValueId> held = i.values(op);
    const auto turned = [&](std::size_t n, ValueId x) {
        return i.type(op, n).element == HloElement::u32 ? with_flipped_sign(i, op, x) : x;
    };
    for (std::size_t n = 0; n < held.size(); ++n)
        held[n] = turned(n, held[n]);
    for (std::size_t k = keys.size(); k-- > 0;) {
        std::swap(held[0], held[keys[k]]);
        held = i.emit_all(op, K::sort, held, {.lists = lists});
        std::swap(held[0], held[keys[k]]);
    }
    for (std::size_t n = 0; n < held.size(); ++n)
        i.give(op, turned(n, held[n]), n);
}

void top_k_of(I& i, const HloOp& op, const HloAttribute* count)
{
    const Numbers k = numbers_of(count);
    i.require(k.size() == 1, op, "it lacks k");
    const auto found = i.emit_all(op, K::top_k, {i.value(op, 0)}, {.lists = {{Attr::count, k}}});
    i.give(op, found[0], 0);
    i.give(op, found[1], 1);
}

void top_k(I& i, const HloOp& op) { top_k_of(i, op, op.attributes.find("k")); }

/// An op of another dialect, with a function that computes the same.
void composite(I& i, const HloOp& op)
{
    const HloAttribute* name = op.attributes.find("name");
    if (const HloAttribute* inner = op.attributes.find("composite_attributes");
        name && name->text == "chlo.top_k" && inner)
        return top_k_of(i, op, inner->find("k"));
    const HloAttribute* function = op.attributes.find("decomposition");
    i.require(function, op, "it lacks a decomposition");
    std::vector<HloValue> results = i.call(op, function->text, i.operands(op));
    for (std::size_t n = 0; n < op.results.size(); ++n)
        i.give(op, std::move(results[n]), n);
}

} // namespace

void add_indices(HloHandlers& all)
{
    all.insert({{"dynamic_slice", dynamic_slice},
                {"dynamic_update_slice", dynamic_update_slice},
                {"gather", gather},
                {"scatter", scatter}});
}

void add_orders(HloHandlers& all)
{
    all.insert({{"sort", sort}, {"top_k", top_k}, {"composite", composite}});
}

} // namespace trivium
