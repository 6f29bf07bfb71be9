#include "runtime/dispatch_optimizer.hpp"

#include "base/check.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/optimizer.hpp"
#include "runtime/op_args.hpp"

#include <algorithm>

namespace trivium {

namespace k = kernels;

namespace {

/// Sums of squares of several arrays in one kernel call, with the scratch of the first.
template <class T>
struct SquaresCall {
    std::vector<k::SquaresOf<T>> arrays;
    k::Scratch scratch;
    Bytes used = 0;

    /// Whether the scratch has room for one more and does not overlap its result.
    bool takes(const k::SquaresOf<T>& array) const
    {
        const auto begin = reinterpret_cast<std::uintptr_t>(scratch.data),
                   out = reinterpret_cast<std::uintptr_t>(array.out);
        const bool apart =
            out + sizeof(double) <= begin || begin + static_cast<std::uintptr_t>(scratch.size) <= out;
        return apart && used + k::sum_squares_scratch(array.n) <= scratch.size;
    }
};

template <class T>
Call bind_squares(std::span<const Binding> bindings)
{
    std::vector<SquaresCall<T>> calls;
    for (const Binding& b : bindings) {
        const Args a{b};
        const i64 count = a.out_type(0).elements(), n = count > 0 ? a.n(0) / count : 0;
        for (i64 i = 0; i < count; ++i) {
            const k::SquaresOf<T> array{a.in<T>(0) + i * n, n, a.out<double>(0) + i,
                                        b.operands.size() > 1 ? a.in<T>(1) + i * n : nullptr};
            if (calls.empty() || !calls.back().takes(array))
                calls.push_back({{}, a.scratch()});
            calls.back().arrays.push_back(array);
            calls.back().used += k::sum_squares_scratch(array.n);
        }
    }
    return [calls](const k::Exec& e) {
        for (const SquaresCall<T>& call : calls)
            k::sum_squares<T>(e, call.arrays, call.scratch);
    };
}

/// The first operand of an update after a parameter and its states: the gradient, then norm and hyper.
int gradient_at(const Op& op) { return 1 + static_cast<int>(info(op).states.size()); }

/// A call of `kernel` with the shards that `shard_of` makes of each update's arguments and gradient.
template <class G, class ShardOf, class Kernel>
Call bind_update(std::span<const Binding> bindings, const ShardOf& shard_of, const Kernel& kernel)
{
    const Args first{bindings.front()};
    const int g = gradient_at(*bindings.front().op);
    std::vector<decltype(shard_of(first, first.in<G>(g)))> shards;
    for (const Binding& b : bindings)
        shards.push_back(shard_of(Args{b}, Args{b}.in<G>(g)));
    return [shards, kernel, factor = first.in<double>(g + 1) + 1,
            hyper = first.in<double>(g + 2)](const k::Exec& e) { kernel(e, shards, hyper, factor); };
}

template <class R, class G>
Call bind_adamw(std::span<const Binding> bindings)
{
    return bind_update<G>(
        bindings,
        [](const Args& a, const G* g) {
            return k::AdamwShard<R, G>{a.out<R>(0),
                                       a.out<R>(1),
                                       a.out<R>(2),
                                       g,
                                       a.n(0),
                                       *a.attrs().weight_decay,
                                       a.attrs().alpha.value_or(1),
                                       a.attrs().beta.value_or(1)};
        },
        [](auto&&... of) { k::adamw<R, G>(of...); });
}

/// f(x, g) for the types of the parameter and of the gradient.
template <class F>
Call with_update_types(const Binding& update, const F& f)
{
    const auto with_gradient = [&](auto real) {
        const bool is_bf16 = Args{update}.in_type(gradient_at(*update.op)).dtype == DType::bf16;
        return is_bf16 ? f(real, bf16{}) : f(real, real);
    };
    return Args{update}.in_type(0).dtype == DType::f64 ? with_gradient(double{}) : with_gradient(float{});
}

template <class From, class To>
Call bind_casts(std::span<const Binding> bindings)
{
    std::vector<k::CastOf<From, To>> arrays;
    for (const Binding& b : bindings) {
        const Args a{b};
        arrays.push_back({a.in<From>(0), a.out<To>(0), a.n(0)});
    }
    return [arrays](const k::Exec& e) { k::cast_all<From, To>(e, arrays); };
}

/// Muon's ops, averages and balances: double or float.
template <class R>
Call bind_matrix_update(const Binding& b)
{
    const Args a{b};
    switch (b.op->kind) {
    case OpKind::nesterov: {
        const auto from = [&](auto gradient) {
            using G = decltype(gradient);
            return call_of(k::nesterov<R, G>, a.n(0), *a.attrs().momentum, a.in<double>(2) + 1, a.in<G>(1),
                           a.out<R>(0), a.out<R>(1));
        };
        return a.in_type(1).dtype == DType::bf16 ? from(bf16{}) : from(R{});
    }
    case OpKind::unit_norm: {
        const i64 count = a.n(1);
        return call_of(k::unit_norm<R>, count, count > 0 ? a.n(0) / count : 0, a.in<double>(1), a.in<R>(0),
                       a.out<R>(0));
    }
    case OpKind::weighted_sum:
        return call_of(k::weighted_sum<R>, a.n(0), *a.attrs().alpha, a.in<R>(0), *a.attrs().beta, a.in<R>(1),
                       a.out<R>(0));
    case OpKind::descent:
        return call_of(k::descent<R>, a.n(0), a.in<double>(2), *a.attrs().weight_decay, *a.attrs().scale,
                       a.in<R>(1), a.out<R>(0));
    case OpKind::moving_average:
        return call_of(k::moving_average<R>, a.n(0), *a.attrs().momentum, a.in<double>(3), a.in<R>(1),
                       a.out<R>(0));
    case OpKind::balance: return call_of(k::balance<R>, a.n(0), *a.attrs().rate, a.in<R>(1), a.out<R>(0));
    case OpKind::weight_average:
        return call_of(k::weighted_sum<R>, a.n(0), *a.attrs().momentum, a.in<R>(0), 1 - *a.attrs().momentum,
                       a.in<R>(1), a.out<R>(0));
    default: return {};
    }
}

/// The scalars may be anywhere in the arena; positions of scalars on other ranks are 0.
Call bind_stack(const Binding& b)
{
    std::vector<k::StackPart> parts;
    const std::vector<i64>& places = *b.op->attrs->at;
    TRV_CHECK(places.size() == b.operands.size(), "a stack of ", b.operands.size(), " scalars with ",
              places.size(), " places");
    for (std::size_t i = 0; i < places.size(); ++i)
        parts.push_back({places[i], static_cast<const double*>(b.operands[i])});
    return [parts, n = Args{b}.out_type(0).elements(),
            y = static_cast<double*>(b.results[0])](const k::Exec& e) { k::stack(e, n, parts, y); };
}

/// A call for several ops of one kind; empty for the kinds that bind alone.
Call bind_shared(std::span<const Binding> bindings)
{
    const Binding& first = bindings.front();
    switch (first.op->kind) {
    case OpKind::sum_squares:
        return with_type(Args{first}.in_type(0).dtype,
                         [&](auto t) { return bind_squares<decltype(t)>(bindings); });
    case OpKind::adamw:
        return with_update_types(first, [&](auto real, auto gradient) {
            return bind_adamw<decltype(real), decltype(gradient)>(bindings);
        });
    default: return {};
    }
}

} // namespace

Call bind_optimizer(const Binding& b)
{
    if (Call call = bind_shared({&b, 1}))
        return call;
    const Args a{b};
    switch (b.op->kind) {
    case OpKind::global_norm: { // totals: loss sum, tokens, then the sums of squares
        const double* totals = a.in<double>(0);
        const auto* count = a.attrs().lists.find(Attr::count);
        return call_of(k::global_norm, count ? count->front() : a.n(0) - 2, totals + 2, totals + 1,
                       *a.attrs().clip, a.out<double>(0));
    }
    case OpKind::stack: return bind_stack(b);
    case OpKind::nesterov:
    case OpKind::unit_norm:
    case OpKind::weighted_sum:
    case OpKind::descent:
    case OpKind::moving_average:
    case OpKind::balance:
    case OpKind::weight_average: {
        const DType type = a.in_type(0).dtype;
        return type == DType::f64   ? bind_matrix_update<double>(b)
               : type == DType::f32 ? bind_matrix_update<float>(b)
                                    : Call{};
    }
    default: return {};
    }
}

bool can_bind_together(const Binding& first, const Binding& next)
{
    const Op &a = *first.op, &b = *next.op;
    if (a.kind != b.kind)
        return false;
    const Args x{first}, y{next};
    const auto reads_alike = [&](int i) { return x.in_type(i).dtype == y.in_type(i).dtype; };
    switch (a.kind) {
    case OpKind::adamw: // one clipping factor and one step
        return reads_alike(0) && reads_alike(gradient_at(a)) &&
               std::equal(a.operands.end() - 2, a.operands.end(), b.operands.end() - 2);
    case OpKind::sum_squares: return reads_alike(0);
    case OpKind::cast:
        return reads_alike(0) && x.in_type(0).dtype != DType::i32 && x.out_type(0).dtype != DType::i32 &&
               x.out_type(0).dtype == y.out_type(0).dtype;
    default: return false;
    }
}

Call Dispatch::bind_together(std::span<const Binding> bindings)
{
    const Binding& first = bindings.front();
    for (const Binding& b : bindings.subspan(1))
        TRV_CHECK(can_bind_together(first, b), "ops '", info(*first.op).name, "' and '", info(*b.op).name,
                  "' together");
    if (first.op->kind == OpKind::cast)
        return with_type(Args{first}.in_type(0).dtype, [&](auto from) {
            return with_type(Args{first}.out_type(0).dtype,
                             [&](auto to) { return bind_casts<decltype(from), decltype(to)>(bindings); });
        });
    Call call = bind_shared(bindings);
    TRV_CHECK(call, "no kernel runs several ops '", info(*first.op).name, "' together");
    return call;
}

} // namespace trivium
