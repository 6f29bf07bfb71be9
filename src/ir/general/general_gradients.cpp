#include "base/check.hpp"
#include "ir/general/gradient_tools.hpp"
#include "ir/general/sums.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trivium::gradients {

namespace {

/// A value in a formula; all tensors of a formula have one shape and type.
struct Term {
    Tape* t;
    ValueId id;

    Term apply(OpKind kind) const { return {t, t->build().op1(kind, {id})}; }
    Term with(OpKind kind, Term other) const { return {t, t->build().op1(kind, {id, other.id})}; }
    Term of(double value) const { return {t, t->build().filled_like(id, value)}; }
    Term times(double factor) const { return {t, t->build().op1(K::affine, {id}, {.alpha = factor})}; }
};
Term operator+(Term a, Term b) { return a.with(K::add, b); }
Term operator-(Term a, Term b) { return a.with(K::subtract, b); }
Term operator*(Term a, Term b) { return a.with(K::multiply, b); }
Term operator/(Term a, Term b) { return a.with(K::divide, b); }
Term operator-(Term a) { return a.apply(K::negate); }

Term operand(Tape& t, int i) { return {&t, t.operand(i)}; }
Term result(Tape& t, int i = 0) { return {&t, t.result(i)}; }
Term gradient(Tape& t, int i = 0) { return {&t, t.grad(i)}; }

void give(Tape& t, int i, Term gradient) { t.accumulate_grad(i, gradient.id); }

ValueId compared(Tape& t, ValueId a, ValueId b, const char* direction)
{
    return t.build().op1(K::compare, {a, b}, {.direction = direction});
}
Term chosen(Tape& t, ValueId which, Term yes, Term no)
{
    return {&t, t.build().op1(K::select, {which, yes.id, no.id})};
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

} // namespace

void none(Tape&) {}

void unary(Tape& t)
{
    if (!t.requires_grad(0))
        return;
    const Term dy = gradient(t), x = operand(t, 0), y = result(t);
    const auto dx = [&]() -> Term {
        switch (t.op().kind) {
        case K::negate: return -dy;
        case K::abs: return dy * x.apply(K::sign);
        case K::exp: return dy * y;
        case K::expm1: return dy * y + dy;
        case K::log: return dy / x;
        case K::log1p: return dy / (x + x.of(1));
        case K::sqrt: return dy.times(0.5) / y;
        case K::rsqrt: return dy.times(-0.5) * y / x;
        case K::tanh: return dy - dy * y * y;
        case K::sigmoid: return dy * y * (y.of(1) - y);
        case K::sin: return dy * x.apply(K::cos);
        case K::cos: return -(dy * x.apply(K::sin));
        case K::erf: return dy.times(2 * std::numbers::inv_sqrtpi) * (-(x * x)).apply(K::exp);
        default: throw InternalError(__FILE__, __LINE__, str("no gradient of ", info(t.op()).name));
        }
    };
    give(t, 0, dx());
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
    const Term dy = gradient(t), half = dy.times(0.5), none = dy.of(0);
    const ValueId equal = compared(t, t.operand(0), t.operand(1), "eq");
    for (const int i : {0, 1})
        if (t.requires_grad(i)) {
            const ValueId mine = compared(t, t.result(0), t.operand(i), "eq");
            give(t, i, chosen(t, equal, half, chosen(t, mine, dy, none)));
        }
}

void power(Tape& t)
{
    const Term dy = gradient(t), a = operand(t, 0), b = operand(t, 1);
    if (t.requires_grad(0)) { // 0 to the power of 0 stays 1
        const ValueId zero = compared(t, b.id, b.of(0).id, "eq");
        give(t, 0, dy * b * a.with(K::power, chosen(t, zero, b.of(0), b - b.of(1))));
    }
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
    const Shape shape = shape_of(t, t.operand(0));
    const Numbers kept = others(view(t).dims(A::dims, shape.size()), shape.size());
    const auto spread = [&](ValueId x) {
        return Term{&t, t.build().op1(K::broadcast, {x}, {.lists = {{A::dims, kept}, {A::shape, shape}}})};
    };
    const auto reduced = [&](Term x, Combine combine) {
        return t.build().op1(K::reduce, {x.id}, {.combine = combine, .lists = lists_of(t.op(), {A::dims})});
    };
    const Term dy = spread(t.grad(0)), x = operand(t, 0);
    switch (t.op().attrs->combine.value_or(Combine::sum)) {
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
    const Shape in = shape_of(t, t.operand(0)), out = shape_of(t, t.result(0));
    const auto dims = view(t).dims(A::dims, out.size());
    std::vector<std::size_t> kept;
    for (std::size_t d = 0; d < dims.size(); ++d)
        if (in[d] == out[dims[d]])
            kept.push_back(dims[d]);
    ValueId sum = t.grad(0);
    if (kept.size() < out.size())
        sum = sum_over(t.build(), sum, others(kept, out.size()));
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
        t.accumulate_grad(
            0, t.build().op1(K::reshape, {t.grad(0)}, {.lists = {{A::shape, shape_of(t, t.operand(0))}}}));
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
    Numbers low = op.list(A::low), high(in.size()), stride = op.list_or(A::interior, in.size(), 0),
            limit(in.size());
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

} // namespace trivium::gradients
