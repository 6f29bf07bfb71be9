#include "ir/general_gradients.hpp"

#include "base/check.hpp"
#include "ir/builder.hpp"
#include "ir/general_rules.hpp"
#include "ir/op_view.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trivium::gradients {

namespace {

using A = Attr;
using K = OpKind;
using Numbers = std::vector<i64>;

/// A value in a formula; all tensors of a formula have one shape and type.
struct Term {
    Tape* t;
    ValueId id;

    Term apply(OpKind kind) const { return {t, t->build().op1(kind, {id})}; }
    Term with(OpKind kind, Term other) const { return {t, t->build().op1(kind, {id, other.id})}; }
    Term of(double value) const { return {t, t->build().filled_like(id, value)}; }
};
Term operator+(Term a, Term b) { return a.with(K::add, b); }
Term operator-(Term a, Term b) { return a.with(K::subtract, b); }
Term operator*(Term a, Term b) { return a.with(K::multiply, b); }
Term operator/(Term a, Term b) { return a.with(K::divide, b); }
Term operator-(Term a) { return a.apply(K::negate); }

Term operand(Tape& t, int i) { return {&t, t.operand(i)}; }
Term result(Tape& t, int i = 0) { return {&t, t.result(i)}; }
Term gradient(Tape& t, int i = 0) { return {&t, t.grad(i)}; }

TensorType type_of(Tape& t, ValueId id) { return t.build().graph()[id].type; }
const Shape& shape_of(Tape& t, ValueId id) { return t.build().graph()[id].type.shape; }
OpView view(Tape& t) { return {t.build().graph(), t.op()}; }

void give(Tape& t, int i, Term gradient) { t.accumulate_grad(i, gradient.id); }

template <class Formula>
void unary(Tape& t, Formula&& formula)
{
    if (t.requires_grad(0))
        give(t, 0, formula(gradient(t), operand(t, 0), result(t)));
}

ValueId compared(Tape& t, ValueId a, ValueId b, const char* direction)
{
    return t.build().op1(K::compare, {a, b}, {.direction = direction});
}
Term chosen(Tape& t, ValueId which, Term yes, Term no)
{
    return {&t, t.build().op1(K::select, {which, yes.id, no.id})};
}

ValueId zeros(Tape& t, const TensorType& type)
{
    return t.build().op1(K::constant, {},
                         {.dtype = type.dtype, .value = 0.0, .lists = {{A::shape, type.shape}}});
}

/// dims 0 to rank - 1 without those in `dims`.
Numbers others(const std::vector<std::size_t>& dims, std::size_t rank)
{
    Numbers rest;
    for (std::size_t d = 0; d < rank; ++d)
        if (std::find(dims.begin(), dims.end(), d) == dims.end())
            rest.push_back(static_cast<i64>(d));
    return rest;
}

ValueId sliced(Tape& t, ValueId x, Numbers start, Numbers limit, Numbers stride)
{
    return t.build().op1(K::slice, {x},
                         {.lists = {{A::start, std::move(start)},
                                    {A::limit, std::move(limit)},
                                    {A::stride, std::move(stride)}}});
}
ValueId padded(Tape& t, ValueId x, Numbers low, Numbers high, Numbers interior)
{
    return t.build().op1(K::pad, {x},
                         {.value = 0.0,
                          .lists = {{A::low, std::move(low)},
                                    {A::high, std::move(high)},
                                    {A::interior, std::move(interior)}}});
}

/// The lists of `op` with these names.
NumberLists lists_of(const Op& op, std::initializer_list<Attr> names)
{
    NumberLists lists;
    for (const Attr name : names)
        if (const Numbers* numbers = op.attrs.lists.find(name))
            lists.set(name, *numbers);
    return lists;
}

constexpr std::initializer_list<Attr> gather_lists = {A::offset_dims,      A::collapsed_dims, A::batch_dims,
                                                      A::index_batch_dims, A::index_map,      A::index_dim};

} // namespace

void none(Tape&) {}

void negate(Tape& t)
{
    unary(t, [](Term dy, Term, Term) { return -dy; });
}
void abs(Tape& t)
{
    unary(t, [](Term dy, Term x, Term) { return dy * x.apply(K::sign); });
}
void exp(Tape& t)
{
    unary(t, [](Term dy, Term, Term y) { return dy * y; });
}
void expm1(Tape& t)
{
    unary(t, [](Term dy, Term, Term y) { return dy * y + dy; });
}
void log(Tape& t)
{
    unary(t, [](Term dy, Term x, Term) { return dy / x; });
}
void log1p(Tape& t)
{
    unary(t, [](Term dy, Term x, Term) { return dy / (x + x.of(1)); });
}
void sqrt(Tape& t)
{
    unary(t, [](Term dy, Term, Term y) { return dy * y.of(0.5) / y; });
}
void rsqrt(Tape& t)
{
    unary(t, [](Term dy, Term x, Term y) { return dy * y.of(-0.5) * y / x; });
}
void tanh(Tape& t)
{
    unary(t, [](Term dy, Term, Term y) { return dy - dy * y * y; });
}
void sigmoid(Tape& t)
{
    unary(t, [](Term dy, Term, Term y) { return dy * y * (y.of(1) - y); });
}
void sin(Tape& t)
{
    unary(t, [](Term dy, Term x, Term) { return dy * x.apply(K::cos); });
}
void cos(Tape& t)
{
    unary(t, [](Term dy, Term x, Term) { return -(dy * x.apply(K::sin)); });
}
void erf(Tape& t)
{
    unary(t, [](Term dy, Term x, Term) {
        return dy * x.of(2 * std::numbers::inv_sqrtpi) * (-(x * x)).apply(K::exp);
    });
}

void subtract(Tape& t)
{
    if (t.requires_grad(0))
        give(t, 0, gradient(t));
    if (t.requires_grad(1))
        give(t, 1, -gradient(t));
}

void multiply(Tape& t)
{
    for (const int i : {0, 1})
        if (t.requires_grad(i))
            give(t, i, gradient(t) * operand(t, 1 - i));
}

void divide(Tape& t)
{
    const Term dy = gradient(t), b = operand(t, 1);
    if (t.requires_grad(0))
        give(t, 0, dy / b);
    if (t.requires_grad(1))
        give(t, 1, -(dy * result(t) / b));
}

void extremum(Tape& t)
{
    const Term dy = gradient(t);
    const ValueId equal = compared(t, t.operand(0), t.operand(1), "eq");
    for (const int i : {0, 1})
        if (t.requires_grad(i)) {
            const ValueId mine = compared(t, t.result(0), t.operand(i), "eq");
            give(t, i, chosen(t, equal, dy * dy.of(0.5), chosen(t, mine, dy, dy.of(0))));
        }
}

void power(Tape& t)
{
    const Term dy = gradient(t), a = operand(t, 0), b = operand(t, 1);
    if (t.requires_grad(0))
        give(t, 0, dy * b * a.with(K::power, b - b.of(1)));
    if (t.requires_grad(1)) { // 0 to any power above 0 stays 0
        const ValueId zero = compared(t, a.id, a.of(0).id, "eq");
        give(t, 1, dy * result(t) * chosen(t, zero, a.of(1), a).apply(K::log));
    }
}

void remainder(Tape& t)
{
    const Term dy = gradient(t);
    if (t.requires_grad(0))
        give(t, 0, dy);
    if (t.requires_grad(1)) // a = q b + r with a constant integer q
        give(t, 1, -(dy * ((operand(t, 0) - result(t)) / operand(t, 1))));
}

void select(Tape& t)
{
    const Term dy = gradient(t);
    if (t.requires_grad(1))
        give(t, 1, chosen(t, t.operand(0), dy, dy.of(0)));
    if (t.requires_grad(2))
        give(t, 2, chosen(t, t.operand(0), dy.of(0), dy));
}

void reduce(Tape& t)
{
    if (!t.requires_grad(0))
        return;
    const Shape& shape = shape_of(t, t.operand(0));
    const Numbers kept = others(view(t).dims(A::dims, shape.size()), shape.size());
    const auto spread = [&](ValueId x) {
        return Term{&t, t.build().op1(K::broadcast, {x}, {.lists = {{A::dims, kept}, {A::shape, shape}}})};
    };
    const auto reduced = [&](Term x, Combine combine) {
        return t.build().op1(K::reduce, {x.id},
                             {.combine = combine, .lists = lists_of(t.op(), {A::dims})});
    };
    const Term dy = spread(t.grad(0)), x = operand(t, 0);
    switch (t.op().attrs.combine.value_or(Combine::sum)) {
    case Combine::sum: give(t, 0, dy); break;
    case Combine::product: { // without the zeros; a single zero gets the product of the others
        const ValueId zero = compared(t, x.id, x.of(0).id, "eq");
        const Term zeros = chosen(t, zero, x.of(1), x.of(0)), rest = chosen(t, zero, x.of(1), x);
        const Term count = spread(reduced(zeros, Combine::sum));
        const ValueId alone = compared(t, count.id, zeros.id, "eq"); // no zero among the others
        give(t, 0, chosen(t, alone, dy * spread(reduced(rest, Combine::product)) / rest, dy.of(0)));
        break;
    }
    default: {
        const ValueId best = compared(t, x.id, spread(t.result(0)).id, "eq");
        const Term mark = chosen(t, best, x.of(1), x.of(0));
        give(t, 0, dy * mark / spread(reduced(mark, Combine::sum)));
    }
    }
}

void broadcast(Tape& t)
{
    if (!t.requires_grad(0))
        return;
    const Shape &in = shape_of(t, t.operand(0)), &out = shape_of(t, t.result(0));
    const auto dims = view(t).dims(A::dims, out.size());
    std::vector<std::size_t> kept;
    for (std::size_t d = 0; d < dims.size(); ++d)
        if (in[d] == out[dims[d]])
            kept.push_back(dims[d]);
    ValueId sum = t.grad(0);
    if (kept.size() < out.size())
        sum = t.build().op1(K::reduce, {sum}, {.combine = Combine::sum, .lists = {{A::dims, others(kept, out.size())}}});
    // The sum has the kept dimensions in the result's order.
    std::vector<std::size_t> sorted = kept;
    std::sort(sorted.begin(), sorted.end());
    if (sorted != kept) {
        Numbers order;
        for (const std::size_t d : kept)
            order.push_back(std::find(sorted.begin(), sorted.end(), d) - sorted.begin());
        sum = t.build().op1(K::transpose, {sum}, {.lists = {{A::dims, order}}});
    }
    if (shape_of(t, sum) != in)
        sum = t.build().op1(K::reshape, {sum}, {.lists = {{A::shape, in}}});
    t.accumulate_grad(0, sum);
}

void transpose(Tape& t)
{
    if (!t.requires_grad(0))
        return;
    const auto dims = view(t).dims(A::dims, shape_of(t, t.operand(0)).size());
    Numbers inverse(dims.size());
    for (std::size_t d = 0; d < dims.size(); ++d)
        inverse[dims[d]] = static_cast<i64>(d);
    t.accumulate_grad(0, t.build().op1(K::transpose, {t.grad(0)}, {.lists = {{A::dims, inverse}}}));
}

void reshape(Tape& t)
{
    if (t.requires_grad(0))
        t.accumulate_grad(0, t.build().op1(K::reshape, {t.grad(0)},
                                           {.lists = {{A::shape, shape_of(t, t.operand(0))}}}));
}

void slice(Tape& t)
{
    if (!t.requires_grad(0))
        return;
    const Shape in = shape_of(t, t.operand(0)), out = shape_of(t, t.result(0));
    const OpView op = view(t);
    const Numbers low = op.list(A::start);
    Numbers high(in.size()), interior = op.list_or(A::stride, in.size(), 1);
    for (std::size_t d = 0; d < in.size(); ++d) {
        high[d] = in[d] - low[d] - ((out[d] - 1) * interior[d] + 1);
        --interior[d];
    }
    t.accumulate_grad(0, padded(t, t.grad(0), low, high, interior));
}

void pad(Tape& t)
{
    if (!t.requires_grad(0))
        return;
    const Shape in = shape_of(t, t.operand(0)), out = shape_of(t, t.result(0));
    const OpView op = view(t);
    // Element i of the operand is at low + i (interior + 1), or was cut off.
    Numbers low = op.list(A::low), high(in.size()), stride = op.list_or(A::interior, in.size(), 0), limit(in.size());
    for (std::size_t d = 0; d < in.size(); ++d) {
        ++stride[d];
        low[d] = -low[d];
        limit[d] = (in[d] - 1) * stride[d] + 1;
        high[d] = limit[d] - out[d] - low[d];
    }
    const ValueId moved = padded(t, t.grad(0), low, high, Numbers(in.size(), 0));
    t.accumulate_grad(0, sliced(t, moved, Numbers(in.size(), 0), limit, stride));
}

void concatenate(Tape& t)
{
    const Shape out = shape_of(t, t.result(0));
    const std::size_t dim = view(t).dims(A::dims, out.size())[0];
    i64 begin = 0;
    for (int i = 0; i < static_cast<int>(t.op().operands.size()); ++i) {
        const i64 extent = shape_of(t, t.operand(i))[dim];
        if (t.requires_grad(i)) {
            Numbers start(out.size(), 0), limit = out;
            start[dim] = begin;
            limit[dim] = begin + extent;
            t.accumulate_grad(i, sliced(t, t.grad(0), start, limit, Numbers(out.size(), 1)));
        }
        begin += extent;
    }
}

void reverse(Tape& t)
{
    if (t.requires_grad(0))
        t.accumulate_grad(0, t.build().op1(K::reverse, {t.grad(0)}, {.lists = lists_of(t.op(), {A::dims})}));
}

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
        t.accumulate_grad(1, t.build().op1(K::dynamic_slice, operands, {.lists = {{A::shape, update.shape}}}));
    }
}

void gather(Tape& t)
{
    if (!t.requires_grad(0))
        return;
    NumberLists lists = lists_of(t.op(), gather_lists); // each element back to where it was read
    lists.set(A::clamp, {view(t).number_or(A::clamp, 1)});
    t.accumulate_grad(0, t.build().op1(K::scatter,
                                       {zeros(t, type_of(t, t.operand(0))), t.operand(1), t.grad(0)},
                                       {.combine = Combine::sum, .lists = lists}));
}

void scatter(Tape& t)
{
    if (t.op().attrs.combine != Combine::sum)
        throw UserError({place_of(t.build().graph(), t.op()), "has no gradient",
                         "only a scatter with combine=\"sum\" has one", "add the updates"});
    if (t.requires_grad(0))
        t.accumulate_grad(0, t.grad(0));
    if (!t.requires_grad(2))
        return;
    const Shape operand = shape_of(t, t.operand(0)), updates = shape_of(t, t.operand(2));
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
    t.accumulate_grad(2, t.build().op1(K::gather, {t.grad(0), t.operand(1)}, {.lists = lists}));
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
            t.accumulate_grad(i, t.build().op1(i == 0 ? K::convolution_grad_x : K::convolution_grad_w,
                                               {t.grad(0), t.operand(1 - i)}, {.lists = lists}));
        }
}

void pool(Tape& t)
{
    if (!t.requires_grad(0))
        return;
    const Combine combine = t.op().attrs.combine.value_or(Combine::sum);
    const Shape x = shape_of(t, t.operand(0)), dy = shape_of(t, t.grad(0));
    const OpView op = view(t);
    if (combine == Combine::product)
        throw UserError({op.place(), "has no gradient", "a product over windows has none", "use another combiner"});
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

} // namespace trivium::gradients
