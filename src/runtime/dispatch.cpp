#include "runtime/dispatch.hpp"

#include "base/check.hpp"
#include "ir/general/columns.hpp"
#include "kernels/attention.hpp"
#include "kernels/cache.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/embedding.hpp"
#include "kernels/loss.hpp"
#include "kernels/norm.hpp"
#include "kernels/rope.hpp"
#include "runtime/dispatch_general.hpp"
#include "runtime/dispatch_optimizer.hpp"
#include "runtime/op_args.hpp"

#include <algorithm>
#include <tuple>
#include <type_traits>

namespace trivium {

namespace k = kernels;

namespace {

k::NormShape norm_shape(const Args& a, int x) { return {a.rows(x), a.last(x), a.attrs().eps.value_or(0)}; }

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
    return {a.dim(0, 0), a.dim(0, 1), a.n(0) / (a.dim(0, 0) * a.dim(0, 1) * e), e, a.in_row(0), a.out_row(0)};
}

/// The call of an op with storage type T. It contains copies of everything that it needs, so running it
/// allocates nothing.
template <class T>
Call bind_typed(const Binding& b)
{
    using A = k::Acc<T>;
    const Args a{b};
    switch (b.op->kind) {
    case OpKind::embedding: {
        const k::EmbeddingShape s{a.n(1), a.dim(0, 0), a.dim(0, 1), a.first_token()};
        return [s, t = a.in<T>(0), ids = a.ids(1), y = a.out<T>(0)](const k::Exec& e) {
            k::embedding(e, s, t, ids, y);
        };
    }
    case OpKind::embedding_grad: {
        const k::EmbeddingShape s{a.n(1), a.out_type(0).shape[0], a.out_type(0).shape[1], a.first_token()};
        return [s, dy = a.in<T>(0), ids = a.ids(1), dt = a.out<A>(0), o = a.over()](const k::Exec& e) {
            k::embedding_grad(e, s, dy, ids, dt, o);
        };
    }
    case OpKind::rms_norm: {
        const k::NormShape s = norm_shape(a, 0);
        return [s, x = a.in<T>(0), w = a.in<T>(1), y = a.out<T>(0), rstd = a.out<A>(1)](const k::Exec& e) {
            k::rms_norm(e, s, x, w, y, rstd);
        };
    }
    case OpKind::rms_norm_grad_x: {
        const k::NormShape s = norm_shape(a, 0);
        return [s, dy = a.in<T>(0), x = a.in<T>(1), w = a.in<T>(2), rstd = a.in<A>(3),
                dx = a.out<T>(0)](const k::Exec& e) { k::rms_norm_grad_x(e, s, dy, x, w, rstd, dx); };
    }
    case OpKind::rms_norm_grad_w: {
        const k::NormShape s = norm_shape(a, 0);
        return [s, dy = a.in<T>(0), x = a.in<T>(1), rstd = a.in<A>(2), dw = a.out<A>(0),
                o = a.over()](const k::Exec& e) { k::rms_norm_grad_w(e, s, dy, x, rstd, dw, o); };
    }
    case OpKind::layer_norm: {
        const k::NormShape s = norm_shape(a, 0);
        return [s, x = a.in<T>(0), w = a.in<T>(1), c = a.in<T>(2), y = a.out<T>(0), mean = a.out<A>(1),
                rstd = a.out<A>(2)](const k::Exec& e) { k::layer_norm(e, s, x, w, c, y, mean, rstd); };
    }
    case OpKind::layer_norm_grad_x: {
        const k::NormShape s = norm_shape(a, 0);
        return [s, dy = a.in<T>(0), x = a.in<T>(1), w = a.in<T>(2), mean = a.in<A>(3), rstd = a.in<A>(4),
                dx = a.out<T>(0)](const k::Exec& e) { k::layer_norm_grad_x(e, s, dy, x, w, mean, rstd, dx); };
    }
    case OpKind::layer_norm_grad_w: {
        const k::NormShape s = norm_shape(a, 0);
        return [s, dy = a.in<T>(0), x = a.in<T>(1), mean = a.in<A>(2), rstd = a.in<A>(3), dw = a.out<A>(0),
                o = a.over()](const k::Exec& e) { k::layer_norm_grad_w(e, s, dy, x, mean, rstd, dw, o); };
    }
    case OpKind::add_rms_norm: {
        const k::NormShape s = norm_shape(a, 0);
        return [s, x = a.in<T>(0), r = a.in<T>(1), w = a.in<T>(2), n = a.out<T>(0), rstd = a.out<A>(1),
                y = a.out<T>(2)](const k::Exec& e) { k::add_rms_norm(e, s, x, r, w, y, n, rstd); };
    }
    case OpKind::add_layer_norm: {
        const k::NormShape s = norm_shape(a, 0);
        return [s, x = a.in<T>(0), r = a.in<T>(1), w = a.in<T>(2), c = a.in<T>(3), n = a.out<T>(0),
                mean = a.out<A>(1), rstd = a.out<A>(2),
                y = a.out<T>(3)](const k::Exec& e) { k::add_layer_norm(e, s, x, r, w, c, y, n, mean, rstd); };
    }
    case OpKind::rms_norm_grad_x_add: {
        const k::NormShape s = norm_shape(a, 0);
        return [s, dy = a.in<T>(0), x = a.in<T>(1), w = a.in<T>(2), rstd = a.in<A>(3), r = a.in<T>(4),
                dx = a.out<T>(0)](const k::Exec& e) { k::rms_norm_grad_x_add(e, s, dy, x, w, rstd, r, dx); };
    }
    case OpKind::layer_norm_grad_x_add: {
        const k::NormShape s = norm_shape(a, 0);
        return [s, dy = a.in<T>(0), x = a.in<T>(1), w = a.in<T>(2), mean = a.in<A>(3), rstd = a.in<A>(4),
                r = a.in<T>(5), dx = a.out<T>(0)](const k::Exec& e) {
            k::layer_norm_grad_x_add(e, s, dy, x, w, mean, rstd, r, dx);
        };
    }
    case OpKind::rope:
    case OpKind::rope_grad: {
        const k::RopeShape s = rope_shape(a);
        return [s, x = a.in<T>(0), pos = a.ids(1), table = a.in<A>(2), y = a.out<T>(0),
                inverse = b.op->kind == OpKind::rope_grad](const k::Exec& e) {
            k::rope(e, s, x, pos, table, inverse, y);
        };
    }
    case OpKind::attention:
    case OpKind::attention_cached: {
        const k::AttentionShape s = attention_shape(a, 0, false);
        const std::int32_t* start = b.op->kind == OpKind::attention_cached ? a.ids(3) : nullptr;
        return
            [s, q = a.in<T>(0), key = a.in<T>(1), v = a.in<T>(2), start, y = a.out<T>(0), lse = a.out<A>(1),
             w = a.scratch()](const k::Exec& e) { k::attention(e, s, q, key, v, start, y, lse, w); };
    }
    case OpKind::attention_grad: {
        const k::AttentionShape s = attention_shape(a, 1, true);
        const k::AttentionGrad<T> g{a.in<T>(0), a.in<T>(1),  a.in<T>(2),  a.in<T>(3), a.in<T>(4),
                                    a.in<A>(5), a.out<T>(0), a.out<T>(1), a.out<T>(2)};
        return [s, g, w = a.scratch()](const k::Exec& e) { k::attention_grad(e, s, g, w); };
    }
    case OpKind::cache_write: {
        const k::CacheShape s{a.dim(0, 0), a.dim(0, 1), a.dim(1, 1), a.dim(0, 2) * a.dim(0, 3)};
        return [s, cache = a.out<T>(0), x = a.in<T>(1), start = a.ids(2)](const k::Exec& e) {
            k::cache_write(e, s, x, start, cache);
        };
    }
    case OpKind::select_row: {
        const k::CacheShape s{a.dim(0, 0), a.dim(0, 1), 1, a.dim(0, 2)};
        return [s, x = a.in<T>(0), row = a.ids(1), y = a.out<T>(0)](const k::Exec& e) {
            k::select_row(e, s, x, row, y);
        };
    }
    case OpKind::swiglu: {
        const i64 n = width_of(a, 0);
        return [rows = a.n(0) / std::max<i64>(n, 1), n, g = rows_of(a.in<T>(0), a.in_row(0), n),
                u = rows_of(a.in<T>(1), a.in_row(1), n), y = rows_of(a.out<T>(0), a.out_row(0), n)](
                   const k::Exec& e) { k::swiglu<T>(e, rows, n, g, u, y); };
    }
    case OpKind::swiglu_grad: {
        const i64 n = width_of(a, 0);
        return [rows = a.n(0) / std::max<i64>(n, 1), n, dy = rows_of(a.in<T>(0), a.in_row(0), n),
                g = rows_of(a.in<T>(1), a.in_row(1), n), u = rows_of(a.in<T>(2), a.in_row(2), n),
                dg = rows_of(a.out<T>(0), a.out_row(0), n), du = rows_of(a.out<T>(1), a.out_row(1), n)](
                   const k::Exec& e) { k::swiglu_grad<T>(e, rows, n, dy, g, u, dg, du); };
    }
    case OpKind::gelu:
        return [n = a.n(0), x = a.in<T>(0), y = a.out<T>(0)](const k::Exec& e) { k::gelu(e, n, x, y); };
    case OpKind::gelu_grad:
        return [n = a.n(0), dy = a.in<T>(0), x = a.in<T>(1), dx = a.out<T>(0)](const k::Exec& e) {
            k::gelu_grad(e, n, dy, x, dx);
        };
    case OpKind::add:
        return [n = a.n(0), x = a.in<T>(0), y = a.in<T>(1), z = a.out<T>(0)](const k::Exec& e) {
            k::add(e, n, x, y, z);
        };
    case OpKind::bias_add:
        return [rows = a.n(0) / a.n(1), n = a.n(1), x = a.in<T>(0), c = a.in<T>(1),
                y = a.out<T>(0)](const k::Exec& e) { k::bias_add(e, rows, n, x, c, y); };
    case OpKind::reduce_sum: {
        const i64 n = a.out_type(0).elements();
        return [rows = a.n(0) / n, n, apart = a.in_row(0), x = a.in<T>(0), y = a.out<A>(0),
                o = a.over()](const k::Exec& e) { k::column_sum(e, rows, n, x, y, o, apart); };
    }
    case OpKind::accumulate: {
        const auto into = [&](auto to) -> Call {
            return [n = a.n(0), x = a.in<T>(0), y = a.out<decltype(to)>(0), o = a.over()](const k::Exec& e) {
                k::accumulate(e, n, y, x, o);
            };
        };
        if constexpr (std::is_same_v<T, bf16>)
            if (a.out_type(0).dtype == DType::f64)
                return into(double{});
        return a.out_type(0).dtype == DType::bf16 ? into(bf16{}) : into(A{});
    }
    case OpKind::cast:
        return with_type(a.out_type(0).dtype, [&](auto to) -> Call {
            using To = decltype(to);
            return [n = a.n(0), x = a.in<T>(0), y = a.out<To>(0)](const k::Exec& e) { k::cast(e, n, x, y); };
        });
    case OpKind::transfer: // both arenas are memory of what computes
    case OpKind::reshard:  // only in a graph that was never partitioned
        return [n = a.n(0), x = a.in<T>(0), y = a.out<T>(0)](const k::Exec& e) {
            if (x != y)
                k::cast(e, n, x, y);
        };
    case OpKind::copy_into:
        return [n = a.n(1), x = a.in<T>(1), y = a.out<T>(0)](const k::Exec& e) { k::cast(e, n, x, y); };
    case OpKind::fill:
        return [n = a.n(0), v = *a.attrs().value, y = a.out<T>(0)](const k::Exec& e) { k::fill(e, n, v, y); };
    case OpKind::xent_stats: {
        const k::LossShape s{a.rows(0), a.last(0), a.first_token()};
        return [s, x = a.in<T>(0), t = a.ids(1), lse = a.out<A>(0), picked = a.out<A>(1)](const k::Exec& e) {
            k::xent_stats(e, s, x, t, lse, picked);
        };
    }
    case OpKind::xent_stats_grad: {
        const k::LossShape s{a.rows(0), a.last(0), a.first_token()};
        return
            [s, x = a.in<T>(0), t = a.ids(1), lse = a.in<A>(2), dlse = a.in<A>(3), dpicked = a.in<A>(4),
             dx = a.out<T>(0)](const k::Exec& e) { k::xent_stats_grad(e, s, x, t, lse, dlse, dpicked, dx); };
    }
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
        return [n = a.n(0), lse = a.in<R>(0), picked = a.in<R>(1), t = a.ids(2),
                y = a.out<R>(0)](const k::Exec& e) { k::token_loss(e, n, lse, picked, t, y); };
    case OpKind::token_loss_grad:
        return [n = a.n(0), dy = a.in<R>(0), t = a.ids(1), dl = a.out<R>(0),
                dp = a.out<R>(1)](const k::Exec& e) { k::token_loss_grad(e, n, dy, t, dl, dp); };
    case OpKind::sum:
        return [n = a.n(0), x = a.in<R>(0), y = a.out<double>(0), o = a.over()](const k::Exec& e) {
            k::sum_into(e, n, x, y, o);
        };
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
    case OpKind::count_valid:
        return [n = a.n(0), t = a.ids(0), y = a.out<double>(0), o = a.over()](const k::Exec& e) {
            k::count_valid(e, n, t, y, o);
        };
    case OpKind::convolution:
    case OpKind::convolution_grad_x:
    case OpKind::convolution_grad_w: return bind_convolution(b);
    case OpKind::split:
    case OpKind::concat: return bind_parts(b);
    case OpKind::pack_columns: return bind_pack(b);
    default: break;
    }
    if (Call call = bind_optimizer(b))
        return call;
    if (Call call = bind_general(b))
        return call;
    if (Call call = bind_integers(b))
        return call;
    const DType type = a.in_type(0).dtype;
    if (type == DType::f64 || type == DType::f32)
        if (Call call = type == DType::f64 ? bind_real<double>(b) : bind_real<float>(b))
            return call;
    return with_type(type, [&](auto t) { return bind_typed<decltype(t)>(b); });
}

} // namespace trivium
