#include "runtime/dispatch.hpp"

#include "base/check.hpp"
#include "base/rng.hpp"
#include "ir/general/columns.hpp"
#include "kernels/attention.hpp"
#include "kernels/cache.hpp"
#include "kernels/dropout.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/embedding.hpp"
#include "kernels/loss.hpp"
#include "kernels/norm.hpp"
#include "kernels/rope.hpp"
#include "runtime/dispatch_general.hpp"
#include "runtime/dispatch_optimizer.hpp"
#include "runtime/elements.hpp"
#include "runtime/op_args.hpp"

#include <algorithm>
#include <tuple>
#include <type_traits>

namespace trivium {

namespace k = kernels;

namespace {

k::NormShape norm_shape(const Args& a, i64 rows, i64 dim)
{
    const Attributes& attrs = a.attrs();
    return {rows, dim, attrs.eps.value_or(0), attrs.offset.value_or(0), a.number_or(Attr::rounded, 0) != 0};
}
k::NormShape norm_shape(const Args& a, int x) { return norm_shape(a, a.rows(x), a.last(x)); }

/// Of rows that a rule divides: x has `rows` of them.
k::NormShape rows_shape(const Args& a, int x, i64 rows)
{
    return norm_shape(a, rows, a.n(x) / std::max<i64>(rows, 1));
}

/// q, k and v are the operands from `q` on; `gradient`: their gradients are the results.
k::AttentionShape attention_shape(const Args& a, int q, bool gradient)
{
    const int key = q + 1;
    k::AttentionShape s{a.dim(q, 0),
                        a.dim(q, 1),
                        a.dim(key, 1),
                        a.dim(q, 2),
                        a.dim(q, 3),
                        a.dim(q, 4),
                        a.attrs().scale.value_or(0),
                        a.b.cudnn,
                        a.b.deterministic};
    s.rows = {a.in_row(q), a.in_row(q + 1), a.in_row(q + 2)};
    s.window = a.number_or(Attr::window, 0);
    s.chunk = a.number_or(Attr::chunk, 0);
    s.cap = a.attrs().cap.value_or(0);
    s.order = a.attrs().order_of_tokens();
    s.first_query = a.attrs().offset_of("s");
    s.value_dim = a.last(q + 2);
    s.first_key = a.number_or(Attr::begin, 0);
    if (gradient)
        std::tie(s.rows.dq, s.rows.dk, s.rows.dv) = std::tuple(a.out_row(0), a.out_row(1), a.out_row(2));
    return s;
}

/// The last extent of an operand; 1 of a scalar.
i64 width_of(const Args& a, int i) { return a.in_shape(i).empty() ? 1 : a.last(i); }

/// An operand or result as a matrix, if it has `columns` per row.
template <class T>
k::RowsOf<T> rows_of(T* at, i64 apart, i64 columns)
{
    return {at, apart > 0 ? apart : columns};
}

k::RopeShape rope_shape(const Args& a)
{
    const i64 e = a.last(0);
    return {a.dim(0, 0), a.dim(0, 1), a.n(0) / (a.dim(0, 0) * a.dim(0, 1) * e),
            e,           a.dim(2, 1), a.number_or(Attr::interleaved, 0) != 0,
            a.in_row(0), a.out_row(0)};
}

k::LossShape loss_shape(const Args& a)
{
    return {a.rows(0), a.last(0), a.first_token(), a.attrs().alpha.value_or(1), a.attrs().beta.value_or(0)};
}

k::DropoutShape dropout_shape(const Args& a)
{
    const std::vector<i64>& stream = a.list(Attr::stream);
    const RandomStream numbers(static_cast<u64>(stream[0]), str("dropout ", stream[1]));
    return {a.dim(0, 0), a.dim(0, 1),   a.dim(0, 2),     a.attrs().offset_of("s"),   a.attrs().offset_of("d"),
            a.dim(1, 1), numbers.key(), *a.attrs().rate, a.attrs().order_of_tokens()};
}

/// The call of an op with storage type T.
template <class T>
Call bind_typed(const Binding& b)
{
    using A = k::Acc<T>;
    const Args a{b};
    switch (b.op->kind) {
    case OpKind::embedding: {
        const k::EmbeddingShape s{a.n(1), a.dim(0, 0), a.dim(0, 1), a.first_token()};
        return call_of(k::embedding<T>, s, a.in<T>(0), a.ids(1), a.out<T>(0));
    }
    case OpKind::embedding_grad: {
        const k::EmbeddingShape s{a.n(1), a.out_type(0).shape[0], a.out_type(0).shape[1], a.first_token()};
        return call_of(k::embedding_grad<T>, s, a.in<T>(0), a.ids(1), a.out<A>(0), a.over());
    }
    case OpKind::rms_norm:
        return call_of(k::rms_norm<T>, norm_shape(a, 0), a.in<T>(0), a.in<T>(1), a.out<T>(0), a.out<A>(1));
    case OpKind::rms_norm_grad_x:
        return call_of(k::rms_norm_grad_x<T>, norm_shape(a, 0), a.in<T>(0), a.in<T>(1), a.in<T>(2),
                       a.in<A>(3), a.out<T>(0));
    case OpKind::rms_norm_grad_w:
        return call_of(k::rms_norm_grad_w<T>, norm_shape(a, 0), a.in<T>(0), a.in<T>(1), a.in<A>(2),
                       a.out<A>(0), a.over());
    case OpKind::row_squares:
        return call_of(k::row_squares<T>, rows_shape(a, 0, a.out_type(0).elements()), a.in<T>(0),
                       a.out<A>(0));
    case OpKind::row_squares_grad:
        return call_of(k::row_squares_grad<T>, rows_shape(a, 1, a.n(0)), a.in<A>(0), a.in<T>(1), a.out<T>(0));
    case OpKind::scale_rows:
        return call_of(k::scale_rows<T>, rows_shape(a, 0, a.n(2)), a.in<T>(0), a.in<T>(1), a.in<A>(2),
                       a.out<T>(0));
    case OpKind::scale_rows_grad_w:
        return call_of(k::rms_norm_grad_w<T>, norm_shape(a, a.n(2), a.out_type(0).elements()), a.in<T>(0),
                       a.in<T>(1), a.in<A>(2), a.out<A>(0), a.over());
    case OpKind::scale_rows_grad_rows:
        return call_of(k::scale_rows_grad_rows<T>, rows_shape(a, 0, a.out_type(0).elements()), a.in<T>(0),
                       a.in<T>(1), a.in<T>(2), a.out<A>(0));
    case OpKind::layer_norm:
        return call_of(k::layer_norm<T>, norm_shape(a, 0), a.in<T>(0), a.in<T>(1), a.in<T>(2), a.out<T>(0),
                       a.out<A>(1), a.out<A>(2));
    case OpKind::layer_norm_grad_x:
        return call_of(k::layer_norm_grad_x<T>, norm_shape(a, 0), a.in<T>(0), a.in<T>(1), a.in<T>(2),
                       a.in<A>(3), a.in<A>(4), a.out<T>(0));
    case OpKind::layer_norm_grad_w:
        return call_of(k::layer_norm_grad_w<T>, norm_shape(a, 0), a.in<T>(0), a.in<T>(1), a.in<A>(2),
                       a.in<A>(3), a.out<A>(0), a.over());
    case OpKind::add_rms_norm:
        return call_of(k::add_rms_norm<T>, norm_shape(a, 0), a.in<T>(0), a.in<T>(1), a.in<T>(2), a.out<T>(2),
                       a.out<T>(0), a.out<A>(1));
    case OpKind::add_layer_norm:
        return call_of(k::add_layer_norm<T>, norm_shape(a, 0), a.in<T>(0), a.in<T>(1), a.in<T>(2), a.in<T>(3),
                       a.out<T>(3), a.out<T>(0), a.out<A>(1), a.out<A>(2));
    case OpKind::rms_norm_grad_x_add:
        return call_of(k::rms_norm_grad_x_add<T>, norm_shape(a, 0), a.in<T>(0), a.in<T>(1), a.in<T>(2),
                       a.in<A>(3), a.in<T>(4), a.out<T>(0));
    case OpKind::layer_norm_grad_x_add:
        return call_of(k::layer_norm_grad_x_add<T>, norm_shape(a, 0), a.in<T>(0), a.in<T>(1), a.in<T>(2),
                       a.in<A>(3), a.in<A>(4), a.in<T>(5), a.out<T>(0));
    case OpKind::rope:
    case OpKind::rope_grad:
        return call_of(k::rope<T>, rope_shape(a), a.in<T>(0), a.ids(1), a.in<A>(2),
                       b.op->kind == OpKind::rope_grad, a.out<T>(0));
    case OpKind::attention:
    case OpKind::attention_cached: {
        const std::int32_t* start = b.op->kind == OpKind::attention_cached ? a.ids(3) : nullptr;
        k::AttentionExtras<T> extras{a.optional<std::int32_t>(0), a.optional<A>(1)};
        if (a.attrs().dtype)
            extras.o_sum_bsgre = a.out<A>(0);
        return call_of(k::attention<T>, attention_shape(a, 0, false), a.in<T>(0), a.in<T>(1), a.in<T>(2),
                       start, a.out<T>(0), a.out<A>(1), a.scratch(), extras);
    }
    case OpKind::attention_step: {
        k::AttentionExtras<T> extras{a.optional<std::int32_t>(0), nullptr, a.in<A>(3), a.in<A>(4),
                                     a.out<A>(0)};
        return call_of(k::attention<T>, attention_shape(a, 0, false), a.in<T>(0), a.in<T>(1), a.in<T>(2),
                       nullptr, nullptr, a.out<A>(1), a.scratch(), extras);
    }
    case OpKind::attention_grad:
    case OpKind::attention_grad_step: {
        k::AttentionGrad<T> g{a.in<T>(0), a.in<T>(1),  a.in<T>(2),  a.in<T>(3),  a.in<T>(4),
                              a.in<A>(5), a.out<T>(0), a.out<T>(1), a.out<T>(2), a.optional<std::int32_t>(0)};
        const bool further = b.op->kind == OpKind::attention_grad_step;
        if (further)
            g.dq_before_bsgre = a.in<A>(6);
        if (further || a.attrs().dtype)
            g.dq_sum_bsgre = a.out<A>(0);
        return call_of(k::attention_grad<T>, attention_shape(a, 1, true), g, a.scratch());
    }
    case OpKind::attention_grad_sinks: {
        const k::AttentionShape s{a.dim(0, 0), a.dim(0, 1), a.dim(0, 1),
                                  a.dim(0, 2), a.dim(0, 3), a.dim(0, 4)};
        return call_of(k::attention_grad_sinks<T>, s, a.in<T>(0), a.in<T>(1), a.in<A>(2), a.in<A>(3),
                       a.out<A>(0), a.over());
    }
    case OpKind::cache_write: {
        const k::CacheShape s{a.dim(0, 0), a.dim(0, 1), a.dim(1, 1), a.dim(0, 2) * a.dim(0, 3)};
        return call_of(k::cache_write<T>, s, a.in<T>(1), a.ids(2), a.out<T>(0));
    }
    case OpKind::select_row: {
        const k::CacheShape s{a.dim(0, 0), a.dim(0, 1), 1, a.dim(0, 2)};
        return call_of(k::select_row<T>, s, a.in<T>(0), a.ids(1), a.out<T>(0));
    }
    case OpKind::swiglu:
    case OpKind::swiglu_grad: {
        const i64 n = width_of(a, 0), rows = a.n(0) / std::max<i64>(n, 1);
        const auto in = [&](int i) { return rows_of(a.in<T>(i), a.in_row(i), n); };
        const auto out = [&](int i) { return rows_of(a.out<T>(i), a.out_row(i), n); };
        const Activation f = activation_of(a, Activation::silu);
        return b.op->kind == OpKind::swiglu
                   ? call_of(k::swiglu<T>, rows, n, in(0), in(1), out(0), f)
                   : call_of(k::swiglu_grad<T>, rows, n, in(0), in(1), in(2), out(0), out(1), f);
    }
    case OpKind::softcap: return call_of(k::softcap<T>, a.n(0), *a.attrs().cap, a.in<T>(0), a.out<T>(0));
    case OpKind::softcap_grad:
        return call_of(k::softcap_grad<T>, a.n(0), *a.attrs().cap, a.in<T>(0), a.in<T>(1), a.out<T>(0));
    case OpKind::bias_add:
        return call_of(k::bias_add<T>, a.n(0) / a.n(1), a.n(1), a.in<T>(0), a.in<T>(1), a.out<T>(0));
    case OpKind::reduce_sum: {
        const i64 n = a.out_type(0).elements();
        return call_of(k::column_sum<T>, a.n(0) / n, n, a.in<T>(0), a.out<A>(0), a.over(), a.in_row(0));
    }
    case OpKind::accumulate: {
        const auto into = [&](auto to) {
            using To = decltype(to);
            return call_of(k::accumulate<T, To>, a.n(0), a.out<To>(0), a.in<T>(0), a.over());
        };
        if constexpr (std::is_same_v<T, bf16>)
            if (a.out_type(0).dtype == DType::f64)
                return into(double{});
        return a.out_type(0).dtype == DType::bf16 ? into(bf16{}) : into(A{});
    }
    case OpKind::transfer: // both arenas are memory of what computes
    case OpKind::reshard:  // only in a graph that was never partitioned
        return [n = a.n(0), x = a.in<T>(0), y = a.out<T>(0)](const k::Exec& e) {
            if (x != y)
                k::cast(e, n, x, y);
        };
    case OpKind::copy_into:
    case OpKind::running_statistic: return call_of(k::cast<T, T>, a.n(1), a.in<T>(1), a.out<T>(0));
    case OpKind::dropout: return call_of(k::dropout<T>, dropout_shape(a), a.in<T>(0), a.ids(1), a.out<T>(0));
    case OpKind::xent_stats:
        return call_of(k::xent_stats<T>, loss_shape(a), a.in<T>(0), a.ids(1), a.out<A>(0), a.out<A>(1));
    case OpKind::xent_stats_grad:
        return call_of(k::xent_stats_grad<T>, loss_shape(a), a.in<T>(0), a.ids(1), a.in<A>(2), a.in<A>(3),
                       a.in<A>(4), a.out<T>(0));
    default: break;
    }
    throw InternalError(__FILE__, __LINE__,
                        str("op '", info(*b.op).name, "' has no kernel for ", a.in_type(0)));
}

/// Ops on statistics: double or float.
template <class R>
Call bind_real(const Binding& b)
{
    const Args a{b};
    switch (b.op->kind) {
    case OpKind::token_loss:
        return call_of(k::token_loss<R>, a.n(0), a.attrs().beta.value_or(0), a.in<R>(0), a.in<R>(1), a.ids(2),
                       a.out<R>(0));
    case OpKind::token_loss_grad: {
        const R* const lse = a.optional<R>(0);
        return call_of(k::token_loss_grad<R>, a.n(0), lse ? a.attrs().beta.value_or(0) : 0, a.in<R>(0),
                       a.ids(1), lse, a.out<R>(0), a.out<R>(1));
    }
    case OpKind::sum: return call_of(k::sum_into<R>, a.n(0), a.in<R>(0), a.out<double>(0), a.over());
    default: return {};
    }
}

/// Casts each part into its columns of the whole.
Call bind_pack(const Binding& b)
{
    const Args a{b};
    const Columns columns = columns_of(*b.graph, *b.op);
    return with_type(a.in_type(0).dtype, [&](auto from) {
        return with_type(a.out_type(0).dtype, [&](auto to) -> Call {
            using From = decltype(from);
            using To = decltype(to);
            std::vector<std::tuple<const From*, i64, To*>> parts; // from, columns, to
            for (std::size_t i = 0; i < columns.parts.size(); ++i)
                parts.emplace_back(a.in<From>(static_cast<int>(i)),
                                   a.n(static_cast<int>(i)) / std::max<i64>(columns.rows, 1),
                                   a.out<To>(0) + columns.first[i]);
            return [parts, rows = columns.rows, width = columns.width](const k::Exec& e) {
                for (const auto& [x, n, y] : parts)
                    k::cast_rows(e, rows, n, x, n, y, width);
            };
        });
    });
}

} // namespace

Call Dispatch::bind(const Binding& b)
{
    const Args a{b};
    if (const auto& results = b.op->results;
        !results.empty() && std::all_of(results.begin(), results.end(),
                                        [&](ValueId v) { return (*b.graph)[v].type.elements() == 0; }))
        return [](const k::Exec&) {}; // this rank has no part of it
    switch (b.op->kind) {
    case OpKind::matmul:
    case OpKind::matmul_bias:
    case OpKind::matmul_bias_gelu:
    case OpKind::matmul_gelu_grad:
    case OpKind::matmul_add: return bind_product(b);
    case OpKind::in_order: {
        const i64 count = a.out_type(0).shape[1];
        const k::OrderShape s{a.dim(0, 0), a.dim(0, 1), a.attrs().offset_of("s"), count,
                              a.attrs().order_of_tokens()};
        return call_of(k::in_order, s, a.ids(0), static_cast<std::int32_t*>(b.results[0]));
    }
    case OpKind::count_valid: return call_of(k::count_valid, a.n(0), a.ids(0), a.out<double>(0), a.over());
    case OpKind::convolution:
    case OpKind::convolution_grad_x:
    case OpKind::convolution_grad_w: return bind_convolution(b);
    case OpKind::grouped_matmul:
    case OpKind::grouped_matmul_grad_rows:
    case OpKind::grouped_matmul_grad_weight: return bind_grouped_product(b);
    case OpKind::split:
    case OpKind::concat: return bind_parts(b);
    case OpKind::pack_columns: return bind_pack(b);
    default: break;
    }
    if (const ElementCall elements = bind_elements(b))
        return over_all(elements, b);
    for (auto* const bind_kind : {&bind_optimizer, &bind_general, &bind_integers, &bind_experts})
        if (Call call = bind_kind(b))
            return call;
    const DType type = (b.op->kind == OpKind::row_squares_grad ? a.out_type(0) : a.in_type(0)).dtype;
    if (type == DType::f64 || type == DType::f32)
        if (Call call = type == DType::f64 ? bind_real<double>(b) : bind_real<float>(b))
            return call;
    return with_type(type, [&](auto t) { return bind_typed<decltype(t)>(b); });
}

} // namespace trivium
