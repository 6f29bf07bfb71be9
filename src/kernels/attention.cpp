#include "kernels/attention.hpp"

#include "base/check.hpp"
#include "kernels/attention_tiles.hpp"
#include "kernels/cudnn_attention.hpp"
#include "kernels/instantiate.hpp"
#include "kernels/tensor_attention.hpp"

#include <algorithm>
#include <limits>
#include <type_traits>

namespace trivium::kernels {

template <class T>
Bytes attention_scratch(const AttentionShape& shape, int threads)
{
    const AttentionTiles tiles(shape, tile_lanes<Acc<T>>);
    return task_workers(threads, tiles.groups * tiles.query_blocks) * ForwardTiles<Acc<T>>::bytes(tiles);
}

template <class T>
Bytes attention_grad_scratch(const AttentionShape& shape, int threads)
{
    const AttentionTiles tiles(shape, tile_lanes<Acc<T>>);
    const Bytes bytes = task_workers(threads, tiles.groups) * BackwardTiles<Acc<T>>::bytes(tiles);
    return std::is_same_v<T, bf16> && shape.one_width()
               ? std::max(bytes, tensor_attention_grad_scratch(shape))
               : bytes;
}

namespace {

/// Number of workers for which the scratch is large enough.
i64 affordable_workers(i64 requested, Bytes each, const Scratch& scratch, const char* place)
{
    const i64 workers = std::min<i64>(requested, scratch.size / each);
    TRV_CHECK(workers >= 1, place, " needs ", each, " B of scratch and got ", scratch.size);
    return workers;
}

/// Whether queries and keys are one sequence in its own order, all that the libraries' kernels know.
bool whole(const AttentionShape& shape)
{
    return shape.order.ranks <= 1 && shape.first_query == 0 && shape.first_key == 0;
}

/// Without limits that hide nothing, so that the fastest kernel applies.
AttentionShape simplest(AttentionShape shape)
{
    for (i64* const limit : {&shape.window, &shape.chunk})
        if (whole(shape) && *limit >= shape.kv_len)
            *limit = 0;
    return shape;
}

} // namespace

template <class T>
void attention(const Exec& exec, const AttentionShape& given, const T* q_bsgre, const T* k_btge,
               const T* v_btge, const std::int32_t* start_b, T* o_bsgre, Acc<T>* lse_bgrs, Scratch scratch,
               const AttentionExtras<T>& extras)
{
    const AttentionShape shape = simplest(given);
    TRV_EXPECT(!whole(shape) || start_b != nullptr || shape.q_len <= shape.kv_len, shape.q_len,
               " queries of ", shape.kv_len, " keys");
    using A = Acc<T>;
    if (shape.batch * shape.q_len * shape.kv_heads * shape.q_per_kv == 0)
        return;
    if constexpr (std::is_same_v<T, bf16>)
        if (whole(shape) && shape.one_width() && !extras.o_sum_bsgre &&
            ((!start_b && !extras.starts_bs && !extras.sinks_gr &&
              cudnn_attention(exec, shape, q_bsgre, k_btge, v_btge, o_bsgre, lse_bgrs, scratch)) ||
             tensor_attention(exec, shape, q_bsgre, k_btge, v_btge, start_b, o_bsgre, lse_bgrs, extras)))
            return;
    const AttentionTiles at(shape, tile_lanes<A>, extras.starts_bs);
    const A *const sinks_gr = extras.sinks_gr, *const o_before = extras.o_before_bsgre,
                   *const lse_before = extras.lse_before_bgrs;
    A* const o_sum = extras.o_sum_bsgre;
    // Finite, because a row may see none of the keys of its first tiles.
    const A lowest = std::numeric_limits<A>::lowest();
    const Bytes each = ForwardTiles<A>::bytes(at);
    const i64 tasks = at.groups * at.query_blocks;
    const i64 workers = affordable_workers(task_workers(exec.threads, tasks), each, scratch, "attention");
    char* const memory = static_cast<char*>(scratch.data);
    for_tasks(
        exec, "attention", tasks, workers, KOKKOS_LAMBDA(const Row& row, i64 task, i64 worker) {
            const ForwardTiles<A> tile(memory + worker * each, at);
            const i64 group = task / at.query_blocks;
            // Longest rows first, to balance the threads.
            const i64 i0 = at.first_row(at.query_blocks - 1 - task % at.query_blocks);
            const i64 n = at.lanes_of(i0),
                      first = at.start_of(i0, start_b ? start_b[group / at.kv_heads] : 0);
            const HeadRows of_q = at.of_heads(at.stride.q), of_k = at.of_heads(at.stride.k),
                           of_v = at.of_values(at.stride.v);
            load_queries(row, at, group, i0, q_bsgre, of_q, A(at.scale), tile.q_es);
            const i64 count = at.rows_of(i0);
            row.each(n, [=](i64 i) {
                const A lse = lse_before && i < count ? lse_before[at.lse_at(group, i0 + i)] : -A(INFINITY);
                tile.row_max_s[i] = lse > lowest ? lse : lowest;
                tile.row_sum_s[i] = lse > lowest ? A(1) : A(0);
            });
            bool any = o_before != nullptr;
            if (any)
                load_queries(row, at, group, i0, o_before, at.of_results(), A(1), tile.o_es);
            at.each_tile(group, i0, first, [&](i64 j0, i64 position, i64 keys) {
                load_keys(row, at, group, j0, keys, k_btge, of_k, tile.k_te);
                load_keys(row, at, group, j0, keys, v_btge, of_v, tile.v_te);
                tile_product(row, keys, n, at.dim, tile.k_te, at.width, i64{1}, tile.q_es, at.rows, tile.p_ts,
                             at.rows, false);
                if (at.cap > 0)
                    cap_scores(row, at, n, keys, tile.p_ts);
                mask(row, at, i0, position, keys, first, tile.p_ts);
                mask_first(row, at, group, i0, position, keys, first, tile.p_ts);
                running_softmax(row, at, n, keys, tile);
                // o = o * exp(old row_max - new row_max) + p · v, transposed: o [e, s], v [t, e].
                if (any)
                    for (i64 e = 0; e < at.value_dim; ++e) {
                        A* o = tile.o_es + e * at.rows;
                        row.each(n, [=](i64 i) { o[i] *= tile.rescale_s[i]; });
                    }
                tile_product(row, at.value_dim, n, keys, tile.v_te, i64{1}, at.value_width, tile.p_ts,
                             at.rows, tile.o_es, at.rows, any);
                any = true;
            });
            if (!any)
                row.each(at.value_dim * at.rows, [=](i64 i) { tile.o_es[i] = 0; });
            row.each(n, [=](i64 i) {
                A part = 1;
                if (sinks_gr) {
                    const A sink = sinks_gr[group % at.kv_heads * at.q_per_kv + (i0 + i) % at.q_per_kv];
                    const A most = tile.row_max_s[i] > sink ? tile.row_max_s[i] : sink;
                    part = fast_exp(tile.row_max_s[i] - most);
                    tile.row_sum_s[i] = tile.row_sum_s[i] * part + fast_exp(sink - most);
                    tile.row_max_s[i] = most;
                }
                tile.rescale_s[i] = tile.row_sum_s[i] > 0 ? part / tile.row_sum_s[i] : A(0);
            });
            row.sync();
            if (o_sum)
                store_queries(row, at, group, i0, tile.o_es, tile.rescale_s, o_sum, at.of_results());
            else
                store_queries(row, at, group, i0, tile.o_es, tile.rescale_s, o_bsgre, at.of_results());
            row.each(count, [=](i64 i) {
                lse_bgrs[at.lse_at(group, i0 + i)] = tile.row_max_s[i] + logarithm(tile.row_sum_s[i]);
            });
            row.sync();
        });
}

template <class T>
void attention_grad(const Exec& exec, const AttentionShape& given, const AttentionGrad<T>& args,
                    Scratch scratch)
{
    using A = Acc<T>;
    const AttentionShape shape = simplest(given);
    TRV_CHECK(!whole(shape) || shape.q_len <= shape.kv_len, "attention_grad: q_len ", shape.q_len,
              " exceeds kv_len ", shape.kv_len);
    if (shape.batch * shape.kv_len * shape.kv_heads == 0)
        return;
    if constexpr (std::is_same_v<T, bf16>)
        if (whole(shape) && shape.one_width() && !args.dq_sum_bsgre &&
            ((!args.starts_bs && cudnn_attention_grad(exec, shape, args, scratch)) ||
             tensor_attention_grad(exec, shape, args, scratch)))
            return;
    const AttentionTiles at(shape, tile_lanes<A>, args.starts_bs);
    const Bytes each = BackwardTiles<A>::bytes(at);
    const i64 workers =
        affordable_workers(task_workers(exec.threads, at.groups), each, scratch, "attention_grad");
    char* const memory = static_cast<char*>(scratch.data);
    for_tasks(
        exec, "attention_grad", at.groups, workers, KOKKOS_LAMBDA(const Row& row, i64 group, i64 worker) {
            const BackwardTiles<A> tile(memory + worker * each, at);
            const HeadRows of_q = at.of_heads(at.stride.q), of_k = at.of_heads(at.stride.k),
                           of_v = at.of_values(at.stride.v), of_o = at.of_results();
            row.each(at.kv_len * of_k.width, [=](i64 i) { tile.dk_te[i] = 0; });
            row.each(at.kv_len * of_v.width, [=](i64 i) { tile.dv_te[i] = 0; });
            for (i64 block = 0; block < at.query_blocks; ++block) {
                const i64 i0 = at.first_row(block), n = at.lanes_of(i0), first = at.start_of(i0, 0);
                load_queries(row, at, group, i0, args.q_bsgre, of_q, A(at.scale), tile.q_es);
                load_queries(row, at, group, i0, args.dout_bsgre, of_o, A(1), tile.do_es);
                load_query_rows(row, at, group, i0, args.q_bsgre, of_q, A(at.scale), tile.q_se);
                load_query_rows(row, at, group, i0, args.dout_bsgre, of_o, A(1), tile.do_se);
                load_statistics(row, at, group, i0, args, tile);
                bool any = false;
                at.each_tile(group, i0, first, [&](i64 j0, i64 position, i64 keys) {
                    load_keys(row, at, group, j0, keys, args.k_btge, of_k, tile.k_te);
                    load_keys(row, at, group, j0, keys, args.v_btge, of_v, tile.v_te);
                    tile_product(row, keys, n, of_k.dim, tile.k_te, of_k.width, i64{1}, tile.q_es, at.rows,
                                 tile.p_ts, at.rows, false);
                    tile_product(row, keys, n, of_v.dim, tile.v_te, of_v.width, i64{1}, tile.do_es, at.rows,
                                 tile.ds_ts, at.rows, false);
                    if (at.cap > 0)
                        cap_scores(row, at, n, keys, tile.p_ts);
                    mask(row, at, i0, position, keys, first, tile.p_ts);
                    mask_first(row, at, group, i0, position, keys, first, tile.p_ts);
                    for (i64 c = 0; c < keys; ++c) {
                        A *p = tile.p_ts + c * at.rows, *ds = tile.ds_ts + c * at.rows;
                        if (at.cap > 0) // by 1 - tanh^2, the slope of the cap; 0 where p is hidden
                            row.each(n, [=](i64 i) {
                                const A tanh = p[i] / A(at.cap), slope = tanh > -1 ? 1 - tanh * tanh : A(0);
                                p[i] = fast_exp(p[i] - tile.lse_s[i]);
                                ds[i] = p[i] * (ds[i] - tile.delta_s[i]) * slope;
                            });
                        else
                            row.each(n, [=](i64 i) {
                                p[i] = fast_exp(p[i] - tile.lse_s[i]);
                                ds[i] = p[i] * (ds[i] - tile.delta_s[i]);
                            });
                    }
                    tile_product(row, keys, of_v.dim, n, tile.p_ts, at.rows, i64{1}, tile.do_se, of_v.width,
                                 tile.dv_te + j0 * of_v.width, of_v.width, true);
                    tile_product(row, keys, of_k.dim, n, tile.ds_ts, at.rows, i64{1}, tile.q_se, of_k.width,
                                 tile.dk_te + j0 * of_k.width, of_k.width, true);
                    tile_product(row, of_k.dim, n, keys, tile.k_te, i64{1}, of_k.width, tile.ds_ts, at.rows,
                                 tile.dq_es, at.rows, any);
                    any = true;
                });
                if (!any)
                    row.each(at.dim * at.rows, [=](i64 i) { tile.dq_es[i] = 0; });
                row.each(n, [=](i64 i) { tile.delta_s[i] = A(at.scale); });
                row.sync();
                if (args.dq_sum_bsgre)
                    store_queries(row, at, group, i0, tile.dq_es, tile.delta_s, args.dq_sum_bsgre,
                                  at.of_heads(at.stride.dq), args.dq_before_bsgre);
                else
                    store_queries(row, at, group, i0, tile.dq_es, tile.delta_s, args.dq_bsgre,
                                  at.of_heads(at.stride.dq));
                row.sync();
            }
            store_keys(row, at, group, tile.dk_te, args.dk_btge, at.of_heads(at.stride.dk));
            store_keys(row, at, group, tile.dv_te, args.dv_btge, at.of_values(at.stride.dv));
            row.sync();
        });
}

template <class T>
void attention_grad_sinks(const Exec& exec, const AttentionShape& shape, const T* dout_bsgre,
                          const T* o_bsgre, const Acc<T>* lse_bgrs, const Acc<T>* sinks_gr, Acc<T>* dsinks_gr,
                          bool overwrite)
{
    using A = Acc<T>;
    const i64 q_len = shape.q_len, tokens = shape.batch * q_len, heads = shape.kv_heads * shape.q_per_kv,
              dim = shape.width_of_values();
    for_rows<T>(
        exec, "attention_grad_sinks", heads, tokens * dim, KOKKOS_LAMBDA(const Row& row, i64 head) {
            const A sink = sinks_gr[head];
            const A sum = row.sum<A>(tokens, [=](i64 token) {
                const i64 at = (token * heads + head) * dim, b = token / q_len;
                const T *dout = dout_bsgre + at, *o = o_bsgre + at;
                A delta = 0;
                for (i64 e = 0; e < dim; ++e)
                    delta += A(dout[e]) * A(o[e]);
                return delta * fast_exp(sink - lse_bgrs[(b * heads + head) * q_len + token % q_len]);
            });
            row.single([=] { dsinks_gr[head] = (overwrite ? A(0) : dsinks_gr[head]) - sum; });
        });
}

TRV_FOR_STORAGE(attention_scratch)
TRV_FOR_STORAGE(attention_grad_scratch)
TRV_FOR_STORAGE(attention)
TRV_FOR_STORAGE(attention_grad)
TRV_FOR_STORAGE(attention_grad_sinks)

} // namespace trivium::kernels
