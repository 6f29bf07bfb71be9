// Ops of mixtures of experts but the grouped products.
#include "base/check.hpp"
#include "kernels/experts/routing.hpp"
#include "runtime/dispatch_general.hpp"
#include "runtime/expert_shapes.hpp"

namespace trivium {

namespace k = kernels;

namespace {

/// `tokens`, `slots`: operands [b s d] and [b s k] or [b s d]'s place for a result; `rows` of a group.
k::TokenShape token_shape(const Args& a, const Shape& tokens, i64 slots, i64 rows)
{
    const std::vector<i64>& spread = a.list(Attr::spread);
    return {tokens[0], tokens[1], tokens[2], slots, rows, spread[0], spread[1]};
}

k::RouterShape router_shape(const Args& a, int logits)
{
    const std::vector<i64>* routing = a.find(Attr::routing);
    return {a.dim(logits, 0), a.dim(logits, 1), a.dim(logits, 2), routing && Routing::of(*routing).sigmoid};
}

k::RouteShape route_shape(const Args& a, int logits, const Shape& slots)
{
    return {a.rows(logits), a.last(logits), slots.back(), Routing::of(a.list(Attr::routing)),
            a.attrs().scale.value_or(1)};
}

/// Ops on logits: R is double or float.
template <class R>
Call bind_router(const Binding& b)
{
    const Args a{b};
    switch (b.op->kind) {
    case OpKind::route:
        return call_of(k::route<R>, route_shape(a, 0, a.out_shape(0)), a.in<R>(0), a.optional<R>(0),
                       a.out<R>(0), a.out<std::int32_t>(1));
    case OpKind::route_grad:
        return call_of(k::route_grad<R>, route_shape(a, 1, a.in_shape(0)), a.in<R>(0), a.in<R>(1), a.ids(2),
                       a.out<R>(0));
    case OpKind::router_scores:
        return call_of(k::router_scores<R>, router_shape(a, 0), a.in<R>(0), a.out<R>(0), a.scratch());
    case OpKind::router_scores_grad:
        return call_of(k::router_scores_grad<R>, router_shape(a, 1), a.in<R>(0), a.in<R>(1), a.out<R>(0));
    case OpKind::router_squares:
        return call_of(k::router_squares<R>, router_shape(a, 0), a.in<R>(0), a.out<R>(0), a.scratch());
    case OpKind::router_squares_grad:
        return call_of(k::router_squares_grad<R>, router_shape(a, 1), a.in<R>(0), a.in<R>(1), a.out<R>(0));
    default: return {};
    }
}

Call bind_counts(const Args& a)
{
    const Shape& counts = a.out_shape(0);
    const i64 experts = counts.back(), groups = element_count(Shape(counts.begin(), counts.end() - 1));
    return with_tensor_type(a.out_type(0).dtype, [&](auto to) {
        using N = decltype(to);
        return call_of(k::expert_counts<N>, groups, a.n(0) / std::max<i64>(groups, 1), experts, a.ids(0),
                       a.out<N>(0), a.over());
    });
}

/// Ops on rows of type T. Weights of a combination have a type of their own.
template <class T>
Call bind_rows(const Binding& b)
{
    using A = k::Acc<T>;
    const Args a{b};
    switch (b.op->kind) {
    case OpKind::dispatch:
        return call_of(k::dispatch<T>, token_shape(a, a.in_shape(0), a.last(1), a.out_shape(0)[1]),
                       a.out_shape(2)[1], a.number_or(Attr::capacity, 0), a.in<T>(0), a.ids(1), a.out<T>(0),
                       a.out<std::int32_t>(1), a.out<std::int32_t>(2), a.scratch());
    case OpKind::combine: {
        const k::TokenShape s = token_shape(a, a.out_shape(0), a.last(1), a.dim(0, 1));
        if (b.operands.size() == 2)
            return call_of(k::combine<T, A>, s, a.in<T>(0), a.ids(1), static_cast<const A*>(nullptr),
                           a.out<T>(0));
        return with_type(a.in_type(2).dtype, [&](auto weight) {
            using W = decltype(weight);
            return call_of(k::combine<T, W>, s, a.in<T>(0), a.ids(1), a.in<W>(2), a.out<T>(0));
        });
    }
    case OpKind::combine_grad_rows: {
        const k::TokenShape s = token_shape(a, a.in_shape(0), a.last(1), a.out_shape(0)[1]);
        if (b.operands.size() == 2)
            return call_of(k::combine_grad_rows<T, A>, s, a.in<T>(0), a.ids(1),
                           static_cast<const A*>(nullptr), a.out<T>(0), a.scratch());
        return with_type(a.in_type(2).dtype, [&](auto weight) {
            using W = decltype(weight);
            return call_of(k::combine_grad_rows<T, W>, s, a.in<T>(0), a.ids(1), a.in<W>(2), a.out<T>(0),
                           a.scratch());
        });
    }
    case OpKind::combine_grad_weights:
        return call_of(k::combine_grad_weights<T>, token_shape(a, a.in_shape(0), a.last(1), a.dim(2, 1)),
                       a.in<T>(0), a.ids(1), a.in<T>(2), a.out<A>(0));
    case OpKind::grouped_bias:
        return call_of(k::grouped_bias<T>, grouped_rows(a, 2), a.last(0), a.in<T>(0), a.in<T>(1), a.ids(2),
                       a.out<T>(0));
    case OpKind::grouped_bias_grad:
        return call_of(k::grouped_bias_grad<T>, grouped_rows(a, 1), a.last(0), a.in<T>(0), a.ids(1),
                       a.out<A>(0), a.over());
    default: return {};
    }
}

} // namespace

Call bind_experts(const Binding& b)
{
    const Args a{b};
    switch (b.op->kind) {
    case OpKind::expert_counts: return bind_counts(a);
    case OpKind::route:
    case OpKind::route_grad:
    case OpKind::router_scores:
    case OpKind::router_scores_grad:
    case OpKind::router_squares:
    case OpKind::router_squares_grad:
        return a.in_type(0).dtype == DType::f64 ? bind_router<double>(b) : bind_router<float>(b);
    case OpKind::dispatch:
    case OpKind::combine:
    case OpKind::combine_grad_rows:
    case OpKind::combine_grad_weights:
    case OpKind::grouped_bias:
    case OpKind::grouped_bias_grad:
        return with_type(a.in_type(0).dtype, [&](auto t) { return bind_rows<decltype(t)>(b); });
    default: return {};
    }
}

} // namespace trivium
