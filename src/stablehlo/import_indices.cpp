// Ops whose indices are values, and orders of elements.
#include "stablehlo/importer.hpp"

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
    if (how == "add")
        attrs.combine = Combine::sum;
    else if (how == "multiply")
        attrs.combine = Combine::product;
    else if (how == "maximum")
        attrs.combine = Combine::max;
    else if (how == "minimum")
        attrs.combine = Combine::min;
    else
        i.require(how == "second", op, "its region is not an update, sum, product, maximum or minimum");
    i.give(op, i.emit(op, K::scatter, {i.value(op, 0), i.value(op, 1), i.value(op, 2)}, std::move(attrs)));
}

/// Whether the comparator of a sort orders by operand `key` alone, ascending (1) or descending (-1);
/// otherwise 0. Such a region only compares and selects among its arguments and constants, 0 and NaN: what it
/// does with numbers of all signs in all orders is all that it does.
int orders_by(I& i, const HloOp& op, std::size_t key)
{
    const HloRegion& body = i.region(op, 0);
    const std::size_t count = op.operands.size();
    i.require(body.arguments.size() == 2 * count, op, "its region has another number of arguments");
    const auto number = [&](std::size_t operand, i64 n) {
        const HloType scalar{i.type(op, operand).element, {}};
        return HloValue{scalar, is_real(scalar.element) ? splat_of(scalar, static_cast<double>(n))
                                                        : splat_of_int(scalar, n)};
    };
    int orders[2] = {1, 1}; // ascending, descending
    for (i64 a = -2; a <= 2; ++a)
        for (i64 b = -2; b <= 2; ++b)
            for (const i64 other : {-1, 0, 1}) {
                std::vector<HloValue> arguments;
                for (std::size_t n = 0; n < count; ++n) {
                    arguments.push_back(number(n, n == key ? a : 0));
                    arguments.push_back(number(n, n == key ? b : other));
                }
                const auto found = i.run_region(op, body, std::move(arguments));
                if (found.size() != 1 || !found[0].known)
                    return 0;
                const bool first = int_at(*found[0].known, 0) != 0;
                orders[0] = orders[0] && first == (a < b);
                orders[1] = orders[1] && first == (a > b);
            }
    return orders[0] ? 1 : orders[1] ? -1 : 0;
}

void sort(I& i, const HloOp& op)
{
    for (const HloOp& inner : i.region(op, 0).ops)
        i.require(inner.name != "stablehlo.add" && inner.name != "stablehlo.subtract" &&
                      inner.name != "stablehlo.multiply" && inner.name != "stablehlo.negate",
                  op, "its comparator computes");
    const Numbers dims = i.list(op, "dimension");
    const i64 last = static_cast<i64>(i.shape(op, 0).size()) - 1;
    for (std::size_t key = 0; key < op.operands.size(); ++key) {
        const int order = i.type(op, key).element == HloElement::i1 ? 0 : orders_by(i, op, key);
        if (order == 0)
            continue;
        std::vector<ValueId> operands{i.value(op, key)};
        for (std::size_t n = 0; n < op.operands.size(); ++n)
            if (n != key)
                operands.push_back(i.value(op, n));
        NumberLists lists{{Attr::dims, {dims.empty() || dims[0] < 0 ? last : dims[0]}}};
        if (order < 0)
            lists.set(Attr::descending, {1});
        const std::vector<ValueId> sorted = i.emit_all(op, K::sort, operands, {.lists = lists});
        i.give(op, sorted[0], key);
        for (std::size_t n = 0, next = 1; n < op.operands.size(); ++n)
            if (n != key)
                i.give(op, sorted[next++], n);
        return;
    }
    i.refuse(op, "its comparator is not that of one operand, ascending or descending");
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
    std::vector<HloValue> arguments;
    for (std::size_t n = 0; n < op.operands.size(); ++n)
        arguments.push_back(i.operand(op, n));
    std::vector<HloValue> results = i.call(op, function->text, std::move(arguments));
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
