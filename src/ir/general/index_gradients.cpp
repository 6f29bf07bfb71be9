#include "base/check.hpp"
#include "ir/general/general_rules.hpp"
#include "ir/general/gradient_tools.hpp"

#include <algorithm>

namespace trivium::gradients {

namespace {

constexpr std::initializer_list<Attr> gather_lists = {A::offset_dims,      A::collapsed_dims, A::batch_dims,
                                                      A::index_batch_dims, A::index_map,      A::index_dim};

} // namespace

void dynamic_slice(Tape& t)
{
    if (!t.requires_grad(0))
        return;
    std::vector<ValueId> operands{zeros(t, type_of(t, t.operand(0))), t.grad(0)};
    operands.insert(operands.end(), t.op().operands.begin() + 1, t.op().operands.end());
    t.accumulate_grad(0, t.build().op1(K::dynamic_update_slice, operands));
}

void dynamic_update_slice(Tape& t)
{
    const std::vector<ValueId> starts(t.op().operands.begin() + 2, t.op().operands.end());
    const TensorType update = type_of(t, t.operand(1));
    std::vector<ValueId> operands{t.grad(0)};
    if (t.requires_grad(0)) {
        operands.push_back(zeros(t, update));
        operands.insert(operands.end(), starts.begin(), starts.end());
        t.accumulate_grad(0, t.build().op1(K::dynamic_update_slice, operands));
    }
    if (t.requires_grad(1)) {
        operands.resize(1);
        operands.insert(operands.end(), starts.begin(), starts.end());
        t.accumulate_grad(1,
                          t.build().op1(K::dynamic_slice, operands, {.lists = {{A::shape, update.shape}}}));
    }
}

void gather(Tape& t)
{
    if (!t.requires_grad(0))
        return;
    NumberLists lists = lists_of(t.op(), gather_lists); // each element back to where it was read
    lists.set(A::clamp, {view(t).number_or(A::clamp, 1)});
    t.accumulate_grad(0,
                      t.build().op1(K::scatter, {zeros(t, type_of(t, t.operand(0))), t.operand(1), t.grad(0)},
                                    {.combine = Combine::sum, .lists = lists}));
}

namespace {

/// i32 of the shape of a scatter's updates: the number of the index to which each element belongs.
ValueId numbers_of_updates(Tape& t, const Shape& updates, const std::vector<std::size_t>& offset)
{
    Shape indices;
    Numbers dims;
    i64 count = 1;
    for (std::size_t d = 0; d < updates.size(); ++d)
        if (std::find(offset.begin(), offset.end(), d) == offset.end()) {
            indices.push_back(updates[d]);
            dims.push_back(static_cast<i64>(d));
            count *= updates[d];
        }
    const ValueId counts =
        t.build().op1(K::iota, {}, {.dtype = DType::i32, .lists = {{A::shape, {count}}, {A::dims, {0}}}});
    const ValueId shaped = t.build().op1(K::reshape, {counts}, {.lists = {{A::shape, indices}}});
    return t.build().op1(K::broadcast, {shaped}, {.lists = {{A::dims, dims}, {A::shape, updates}}});
}

} // namespace

void scatter(Tape& t)
{
    const bool overwrites = !t.op().attrs->combine;
    if (!overwrites && t.op().attrs->combine != Combine::sum)
        throw UserError({place_of(t.build().graph(), t.op()), "has no gradient",
                         "only a scatter that overwrites or adds has one", "use combine=\"sum\", or none"});
    const Shape operand = shape_of(t, t.operand(0)), updates = shape_of(t, t.operand(2));
    if (t.requires_grad(0)) { // what was overwritten has none
        const std::vector<ValueId> kept{t.grad(0), t.operand(1), zeros(t, type_of(t, t.operand(2)))};
        t.accumulate_grad(0, overwrites ? t.build().op1(K::scatter, kept, t.op().attrs) : t.grad(0));
    }
    if (!t.requires_grad(2))
        return;
    const OpView op = view(t);
    const auto offset = op.dims(A::offset_dims, updates.size());
    const Numbers collapsed = op.list_or_empty(A::collapsed_dims), batch = op.list_or_empty(A::batch_dims);
    Numbers sizes(operand.size(), 1);
    std::size_t next = 0;
    for (std::size_t d = 0; d < operand.size(); ++d) {
        const auto lists = [&](const Numbers& dims) {
            return std::find(dims.begin(), dims.end(), static_cast<i64>(d)) != dims.end();
        };
        if (!lists(collapsed) && !lists(batch))
            sizes[d] = updates[offset[next++]];
    }
    NumberLists lists = lists_of(t.op(), gather_lists);
    lists.set(A::slice_sizes, sizes);
    lists.set(A::clamp, {op.number_or(A::clamp, 0)}); // a skipped update has no gradient
    const auto gathered = [&](ValueId from) {
        return t.build().op1(K::gather, {from, t.operand(1)}, {.lists = lists});
    };
    ValueId gradient = gathered(t.grad(0));
    if (overwrites) { // nor has one that a later one overwrites
        const ValueId mine = numbers_of_updates(t, updates, offset);
        const ValueId last =
            t.build().op1(K::scatter, {zeros(t, {DType::i32, operand}), t.operand(1), mine}, t.op().attrs);
        const ValueId stays = t.build().op1(K::compare, {gathered(last), mine}, {.direction = "eq"});
        gradient = t.build().op1(K::select, {stays, gradient, zeros(t, type_of(t, gradient))});
    }
    t.accumulate_grad(2, gradient);
}

void sort(Tape& t)
{
    const TensorType keys = type_of(t, t.operand(0));
    const NumberLists along = lists_of(t.op(), {A::dims});
    NumberLists count = along;
    count.set(A::shape, keys.shape);
    // Where each element went: sorting the order that the sort made brings every gradient back.
    const ValueId places = t.build().op1(K::iota, {}, {.dtype = DType::i32, .lists = count});
    const ValueId order = t.build().op(K::sort, {t.operand(0), places},
                                       {.lists = lists_of(t.op(), {A::dims, A::descending})})[1];
    for (int i = 0; i < static_cast<int>(t.op().operands.size()); ++i)
        if (t.requires_grad(i) && t.grad(i))
            t.accumulate_grad(i, t.build().op(K::sort, {order, t.grad(i)}, {.lists = along})[1]);
}

void top_k(Tape& t)
{
    if (!t.requires_grad(0) || !t.grad(0))
        return;
    // One scatter per row: all dimensions but the last are batch dimensions.
    const TensorType type = type_of(t, t.operand(0));
    const std::size_t rank = type.shape.size();
    Numbers batch(rank - 1);
    for (std::size_t d = 0; d + 1 < rank; ++d)
        batch[d] = static_cast<i64>(d);
    const auto last = static_cast<i64>(rank - 1);
    t.accumulate_grad(0, t.build().op1(K::scatter, {zeros(t, type), t.result(1), t.grad(0)},
                                       {.combine = Combine::sum,
                                        .lists = {{A::collapsed_dims, {last}},
                                                  {A::batch_dims, batch},
                                                  {A::index_batch_dims, batch},
                                                  {A::index_map, {last}}}}));
}

void cumsum(Tape& t)
{
    if (!t.requires_grad(0))
        return;
    NumberLists lists = lists_of(t.op(), {A::dims});
    if (view(t).number_or(A::backwards, 0) == 0)
        lists.set(A::backwards, {1});
    t.accumulate_grad(0, t.build().op1(K::cumsum, {t.grad(0)}, {.lists = lists}));
}

void convolution(Tape& t)
{
    for (const int i : {0, 1})
        if (t.requires_grad(i)) {
            NumberLists lists =
                lists_of(t.op(), {A::stride, A::low, A::high, A::dilation, A::base, A::groups});
            lists.set(A::shape, shape_of(t, t.operand(i)));
            // Both gradients then read the same neighbourhood. Not with strides, because a part of x then has
            // more padding than oneDNN's 3-D convolutions in bf16 compute rightly.
            if (i == 1 && t.requires_grad(0) &&
                std::ranges::all_of(view(t).list_or_empty(A::stride), [](i64 s) { return s == 1; }))
                lists.set(A::by_input, {1});
            t.accumulate_grad(i, t.build().op1(i == 0 ? K::convolution_grad_x : K::convolution_grad_w,
                                               {t.grad(0), t.operand(1 - i)}, {.lists = lists}));
        }
}

void pool(Tape& t)
{
    if (!t.requires_grad(0))
        return;
    const Combine combine = t.op().attrs->combine.value_or(Combine::sum);
    const Shape x = shape_of(t, t.operand(0)), dy = shape_of(t, t.grad(0));
    const OpView op = view(t);
    if (combine == Combine::product)
        throw UserError(
            {op.place(), "has no gradient", "a product over windows has none", "use another combiner"});
    if (combine != Combine::sum) {
        t.accumulate_grad(0, t.build().op1(K::pool_grad, {t.grad(0), t.operand(0)},
                                           {.combine = combine,
                                            .lists = lists_of(t.op(), {A::window, A::stride, A::low, A::high,
                                                                       A::dilation, A::base})}));
        return;
    }
    const auto dims = general::window_dims(op, op.list(A::window));
    Numbers stride, low, high, base;
    for (std::size_t d = 0; d < dims.size(); ++d) {
        const general::WindowDim& w = dims[d];
        stride.push_back(w.base);
        base.push_back(w.stride);
        low.push_back(w.reach() - w.low);
        high.push_back((x[d] - 1) * w.base + w.reach() + 1 - ((dy[d] - 1) * w.stride + 1) - low.back());
    }
    NumberLists lists = lists_of(t.op(), {A::window, A::dilation});
    lists.set(A::stride, stride);
    lists.set(A::low, low);
    lists.set(A::high, high);
    lists.set(A::base, base);
    t.accumulate_grad(0, t.build().op1(K::pool, {t.grad(0)}, {.combine = Combine::sum, .lists = lists}));
}

void factor_of_product(Tape& t, int i, const std::vector<ValueId>& operands, Attributes attrs)
{
    Rule::Parts parts = *attrs.rule->operator->();
    std::vector<std::string>& dims = parts.results[0].dims;
    const auto known = [&](const std::string& name) {
        return std::any_of(parts.operands.begin(), parts.operands.end(), [&](const Rule::Tensor& tensor) {
            return std::find(tensor.dims.begin(), tensor.dims.end(), name) != tensor.dims.end();
        });
    };
    Numbers kept;
    std::vector<std::string> kept_dims;
    for (std::size_t d = 0; d < dims.size(); ++d)
        if (known(dims[d])) {
            kept.push_back(static_cast<i64>(d));
            kept_dims.push_back(dims[d]);
        }
    const bool all = kept.size() == dims.size();
    dims = kept_dims;
    attrs.rule = Rule(std::move(parts));
    ValueId gradient = t.build().op1(K::matmul, operands, std::move(attrs));
    if (!all)
        gradient = t.build().op1(K::broadcast, {gradient},
                                 {.lists = {{A::dims, kept}, {A::shape, shape_of(t, t.operand(i))}}});
    t.accumulate_grad(i, gradient);
}

} // namespace trivium::gradients
