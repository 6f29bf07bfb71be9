#pragma once
// Internal: the tiles of blockwise attention.
//
// A task works on one (batch, kv head), its "group". The queries of a group are one list of rows, row i being
// query i / q_per_kv of the head i % q_per_kv, in blocks of `rows`. Tiles of scores are [key, query]: queries
// run along registers, so maxima and sums over keys need no shuffles, and keys and values are used in their
// memory layout. Suffixes: s row of the block, t key, e element of a head.
#include "kernels/attention.hpp"
#include "kernels/math.hpp"
#include "tile_product.hpp"

namespace trivium::kernels {

/// The rows of a tensor: a head has `dim` elements, `width` of them with the padding of a tile, and
/// consecutive tokens are `apart` elements.
struct HeadRows {
    i64 dim, width, apart;
};

struct AttentionTiles {
    AttentionTiles(const AttentionShape& shape, i64 lanes_per_vector, const std::int32_t* starts = nullptr)
        : q_len(shape.q_len), kv_len(shape.kv_len), kv_heads(shape.kv_heads), q_per_kv(shape.q_per_kv),
          dim(shape.head_dim), value_dim(shape.width_of_values()), groups(shape.batch * shape.kv_heads),
          lanes(lanes_per_vector), total_rows(shape.q_len * shape.q_per_kv),
          rows(round_up(std::max<i64>(1, std::min<i64>(64, total_rows)), lanes)), width(round_up(dim, lanes)),
          value_width(round_up(value_dim, lanes)), stride(shape.strides()), result_row(shape.result_row()),
          scale(shape.scale != 0 ? shape.scale : 1 / square_root(static_cast<double>(shape.head_dim))),
          cap(shape.cap), window(shape.window), chunk(shape.chunk), order(shape.order),
          first_query(shape.first_query), first_key(shape.first_key), starts_bs(starts)
    {
        for (i64 s = 0; s < q_len; s = query_run_end(s))
            query_blocks += blocks_of_run(s);
        TRV_CHECK(dim > 0 && q_per_kv > 0, "attention: head_dim ", dim, ", q_per_kv ", q_per_kv);
    }

    static constexpr i64 keys = 64; ///< keys per tile

    i64 q_len, kv_len, kv_heads, q_per_kv;
    i64 dim, value_dim;     ///< elements of a head: of queries and keys; of values and results
    i64 groups;             ///< batch * kv_heads
    i64 lanes;              ///< columns of a tile are padded to a multiple of this
    i64 total_rows;         ///< queries of a group
    i64 rows;               ///< queries of a tile, padded
    i64 query_blocks = 0;   ///< tiles of queries, which have consecutive positions
    i64 width, value_width; ///< dim and value_dim, padded
    AttentionRows stride;
    i64 result_row; ///< stride of o and dout
    double scale, cap;
    i64 window, chunk;
    SequenceOrder order;
    i64 first_query, first_key;
    const std::int32_t* starts_bs;

    /// The first query after query s that does not follow the one before it in the sequence.
    TRV_HOST_DEVICE i64 query_run_end(i64 s) const
    {
        const i64 end = order.run_end(first_query + s) - first_query;
        return end < q_len ? end : q_len;
    }
    /// The same of keys.
    TRV_HOST_DEVICE i64 key_run_end(i64 t) const
    {
        const i64 end = order.run_end(first_key + t) - first_key;
        return end < kv_len ? end : kv_len;
    }
    TRV_HOST_DEVICE i64 blocks_of_run(i64 s) const
    {
        return ((query_run_end(s) - s) * q_per_kv + rows - 1) / rows;
    }
    /// The first row of a block.
    TRV_HOST_DEVICE i64 first_row(i64 block) const
    {
        i64 s = 0;
        for (i64 blocks = blocks_of_run(s); block >= blocks; blocks = blocks_of_run(s)) {
            block -= blocks;
            s = query_run_end(s);
        }
        return s * q_per_kv + block * rows;
    }
    /// What the position of a row i of the block at row i0 is more than i / q_per_kv. `start`: of query 0 in
    /// the natural order.
    TRV_HOST_DEVICE i64 start_of(i64 i0, i64 start) const
    {
        return start + order.position(first_query + i0 / q_per_kv) - i0 / q_per_kv;
    }

    // Below, a block's `start` is start_of().

    /// The position of the first key that row i of a group sees; it grows with i within a block.
    TRV_HOST_DEVICE i64 first_seen(i64 group, i64 i, i64 start) const
    {
        const i64 s = i / q_per_kv, own = start + s;
        i64 first = 0;
        if (starts_bs) { // a query always sees its own key
            const i64 document = starts_bs[group / kv_heads * q_len + s];
            first = document < 0 ? 0 : document < own ? document : own;
        }
        if (chunk > 0)
            first = own - (own - first) % chunk;
        return window > 0 && own - window >= first ? own - window + 1 : first;
    }
    /// Number of rows of the block at row i0, without and with padding.
    TRV_HOST_DEVICE i64 rows_of(i64 i0) const
    {
        const i64 left = query_run_end(i0 / q_per_kv) * q_per_kv - i0;
        return left < rows ? left : rows;
    }
    TRV_HOST_DEVICE i64 lanes_of(i64 i0) const { return (rows_of(i0) + lanes - 1) / lanes * lanes; }
    /// Calls use(t, position, count) for each tile of keys that some row of the block at row i0 sees: the
    /// keys t, t + 1, …, which have consecutive positions.
    template <class Use>
    TRV_HOST_DEVICE void each_tile(i64 group, i64 i0, i64 start, const Use& use) const
    {
        const i64 first = first_seen(group, i0, start), end = start + (i0 + rows_of(i0) - 1) / q_per_kv + 1;
        const bool natural = order.ranks <= 1 && first_key <= first;
        for (i64 t = natural ? (first - first_key) / keys * keys : 0; t < kv_len;) {
            const i64 run = key_run_end(t) - t, position = order.position(first_key + t);
            const i64 count = run < keys ? run : keys, seen = end - position < count ? end - position : count;
            if (seen > 0 && position + seen > first)
                use(t, position, seen);
            else if (natural)
                return;
            t += count;
        }
    }
    /// Offset of row i of a group in q_bsgre or o_bsgre.
    TRV_HOST_DEVICE i64 query_at(i64 group, i64 i, HeadRows of) const
    {
        const i64 b = group / kv_heads, g = group % kv_heads;
        return (b * q_len + i / q_per_kv) * of.apart + (g * q_per_kv + i % q_per_kv) * of.dim;
    }
    /// Offset of key t of a group in k_btge or v_btge.
    TRV_HOST_DEVICE i64 key_at(i64 group, i64 t, HeadRows of) const
    {
        const i64 b = group / kv_heads, g = group % kv_heads;
        return (b * kv_len + t) * of.apart + g * of.dim;
    }
    TRV_HOST_DEVICE HeadRows of_heads(i64 apart) const { return {dim, width, apart}; }
    TRV_HOST_DEVICE HeadRows of_values(i64 apart) const { return {value_dim, value_width, apart}; }
    TRV_HOST_DEVICE HeadRows of_results() const { return of_values(result_row); }
    /// Offset of row i of a group in lse_bgrs.
    TRV_HOST_DEVICE i64 lse_at(i64 group, i64 i) const
    {
        return (group * q_per_kv + i % q_per_kv) * q_len + i / q_per_kv;
    }
};

/// Allocates arrays from a worker's scratch; with null memory it only counts their bytes.
template <class A>
class Cutter {
public:
    TRV_HOST_DEVICE explicit Cutter(char* memory) : memory_(memory) {}
    TRV_HOST_DEVICE A* take(i64 count)
    {
        A* const result = memory_ ? reinterpret_cast<A*>(memory_ + used_) : nullptr;
        used_ += (count * static_cast<i64>(sizeof(A)) + 63) / 64 * 64;
        return result;
    }
    TRV_HOST_DEVICE Bytes used() const { return used_; }

private:
    char* memory_;
    Bytes used_ = 0;
};

template <class A>
struct ForwardTiles {
    TRV_HOST_DEVICE ForwardTiles(char* memory, const AttentionTiles& at) : ForwardTiles(Cutter<A>(memory), at)
    {
    }
    static Bytes bytes(const AttentionTiles& at) { return ForwardTiles(nullptr, at).size; }

    A *q_es, *k_te, *v_te, *p_ts, *o_es, *row_max_s, *row_sum_s, *rescale_s;
    Bytes size;

private:
    TRV_HOST_DEVICE ForwardTiles(Cutter<A> cut, const AttentionTiles& at)
        : q_es(cut.take(at.dim * at.rows)), k_te(cut.take(at.keys * at.width)),
          v_te(cut.take(at.keys * at.value_width)), p_ts(cut.take(at.keys * at.rows)),
          o_es(cut.take(at.value_dim * at.rows)), row_max_s(cut.take(at.rows)), row_sum_s(cut.take(at.rows)),
          rescale_s(cut.take(at.rows)), size(cut.used())
    {
    }
};

template <class A>
struct BackwardTiles {
    TRV_HOST_DEVICE BackwardTiles(char* memory, const AttentionTiles& at)
        : BackwardTiles(Cutter<A>(memory), at)
    {
    }
    static Bytes bytes(const AttentionTiles& at) { return BackwardTiles(nullptr, at).size; }

    A *q_es, *do_es, *q_se, *do_se, *k_te, *v_te, *p_ts, *ds_ts, *dq_es, *lse_s, *delta_s, *dk_te, *dv_te;
    Bytes size;

private:
    TRV_HOST_DEVICE BackwardTiles(Cutter<A> cut, const AttentionTiles& at)
        : q_es(cut.take(at.dim * at.rows)), do_es(cut.take(at.value_dim * at.rows)),
          q_se(cut.take(at.rows * at.width)), do_se(cut.take(at.rows * at.value_width)),
          k_te(cut.take(at.keys * at.width)), v_te(cut.take(at.keys * at.value_width)),
          p_ts(cut.take(at.keys * at.rows)), ds_ts(cut.take(at.keys * at.rows)),
          dq_es(cut.take(at.dim * at.rows)), lse_s(cut.take(at.rows)), delta_s(cut.take(at.rows)),
          dk_te(cut.take(at.kv_len * at.width)), dv_te(cut.take(at.kv_len * at.value_width)), size(cut.used())
    {
    }
};

/// to_es[e, i] = factor * row i0 + i of the group; rows past the end are 0.
template <class T, class A>
KOKKOS_FUNCTION void load_queries(const Row& row, const AttentionTiles& at, i64 group, i64 i0,
                                  const T* from_bsgre, HeadRows of, A factor, A* to_es)
{
    const i64 count = at.rows_of(i0), n = at.lanes_of(i0);
    for (i64 i = 0; i < n; ++i) {
        const T* from = from_bsgre + at.query_at(group, i < count ? i0 + i : i0, of);
        const A f = i < count ? factor : A(0);
        row.each(of.dim, [=](i64 e) { to_es[e * at.rows + i] = f * A(from[e]); });
    }
    row.sync();
}

/// load_queries() in row-major order: to_se[i, e], whose columns from of.dim to of.width are 0.
template <class T, class A>
KOKKOS_FUNCTION void load_query_rows(const Row& row, const AttentionTiles& at, i64 group, i64 i0,
                                     const T* from_bsgre, HeadRows of, A factor, A* to_se)
{
    const i64 count = at.rows_of(i0), n = at.lanes_of(i0);
    for (i64 i = 0; i < n; ++i) {
        const T* from = from_bsgre + at.query_at(group, i < count ? i0 + i : i0, of);
        const A f = i < count ? factor : A(0);
        A* to = to_se + i * of.width;
        row.each(of.dim, [=](i64 e) { to[e] = f * A(from[e]); });
        row.each(of.width - of.dim, [=](i64 e) { to[of.dim + e] = A(0); });
    }
    row.sync();
}

/// Row i0 + i of the group = factor_s[i] * from_es[:, i], with `before` plus what that has there.
template <class T, class A>
KOKKOS_FUNCTION void store_queries(const Row& row, const AttentionTiles& at, i64 group, i64 i0,
                                   const A* from_es, const A* factor_s, T* to_bsgre, HeadRows of,
                                   const T* before_bsgre = nullptr)
{
    const i64 count = at.rows_of(i0);
    for (i64 i = 0; i < count; ++i) {
        const i64 place = at.query_at(group, i0 + i, of);
        T* to = to_bsgre + place;
        if (before_bsgre)
            row.each(of.dim, [=](i64 e) {
                to[e] = before_bsgre[place + e] + T(factor_s[i] * from_es[e * at.rows + i]);
            });
        else
            row.each(of.dim, [=](i64 e) { to[e] = T(factor_s[i] * from_es[e * at.rows + i]); });
    }
}

/// to_te[c, :] = key (or value) j0 + c of the group, for c < keys; rows are of.width apart.
template <class T, class A>
KOKKOS_FUNCTION void load_keys(const Row& row, const AttentionTiles& at, i64 group, i64 j0, i64 keys,
                               const T* from_btge, HeadRows of, A* to_te)
{
    for (i64 c = 0; c < keys; ++c) {
        const T* from = from_btge + at.key_at(group, j0 + c, of);
        A* to = to_te + c * of.width;
        row.each(of.dim, [=](i64 e) { to[e] = A(from[e]); });
    }
    row.sync();
}

/// Keys (or values) of the group = the rows of from_te, of.width apart.
template <class T, class A>
KOKKOS_FUNCTION void store_keys(const Row& row, const AttentionTiles& at, i64 group, const A* from_te,
                                T* to_btge, HeadRows of)
{
    for (i64 t = 0; t < at.kv_len; ++t) {
        const A* from = from_te + t * of.width;
        T* to = to_btge + at.key_at(group, t, of);
        row.each(of.dim, [=](i64 e) { to[e] = T(from[e]); });
    }
}

/// Sets the scores of keys after the last that a query sees to -inf; the first key is at position j0. Padded
/// rows see all keys.
template <class A>
KOKKOS_FUNCTION void mask(const Row& row, const AttentionTiles& at, i64 i0, i64 j0, i64 keys, i64 start,
                          A* score_ts)
{
    if (j0 + keys - 1 <= start + i0 / at.q_per_kv)
        return;
    const i64 count = at.rows_of(i0);
    for (i64 c = 0; c < keys; ++c) {
        // Key j0 + c is hidden from queries below j0 + c - start, that is from the rows before `first`.
        const i64 first = (j0 + c - start) * at.q_per_kv - i0;
        A* score = score_ts + c * at.rows;
        row.each(first < 0 ? 0 : first < count ? first : count, [=](i64 i) { score[i] = -A(INFINITY); });
    }
    row.sync();
}

/// The same for keys before the first that a query sees.
template <class A>
KOKKOS_FUNCTION void mask_first(const Row& row, const AttentionTiles& at, i64 group, i64 i0, i64 j0, i64 keys,
                                i64 start, A* score_ts)
{
    const i64 count = at.rows_of(i0);
    if (at.first_seen(group, i0 + count - 1, start) <= j0)
        return;
    row.each(count, [=](i64 i) {
        const i64 before = at.first_seen(group, i0 + i, start) - j0, end = before < keys ? before : keys;
        for (i64 c = 0; c < end; ++c)
            score_ts[c * at.rows + i] = -A(INFINITY);
    });
    row.sync();
}

/// Scores x of n rows become cap tanh(x / cap).
template <class A>
KOKKOS_FUNCTION void cap_scores(const Row& row, const AttentionTiles& at, i64 n, i64 keys, A* score_ts)
{
    const A cap = A(at.cap), part = A(1 / at.cap);
    for (i64 c = 0; c < keys; ++c) {
        A* score = score_ts + c * at.rows;
        row.each(n, [=](i64 i) { score[i] = cap * fast_tanh(score[i] * part); });
    }
    row.sync();
}

/// Online softmax (Milakov & Gimelshein 2018, arXiv:1805.02867): scores become exp(score - row_max) with the
/// new row_max; updates row_max and row_sum; rescale = exp(old row_max - new row_max).
template <class A>
KOKKOS_FUNCTION void running_softmax(const Row& row, const AttentionTiles& at, i64 n, i64 keys,
                                     const ForwardTiles<A>& tile)
{
    A *row_max = tile.row_max_s, *row_sum = tile.row_sum_s, *rescale = tile.rescale_s;
    row.each(n, [=](i64 i) { rescale[i] = row_max[i]; });
    for (i64 c = 0; c < keys; ++c) {
        const A* score = tile.p_ts + c * at.rows;
        row.each(n, [=](i64 i) { row_max[i] = score[i] > row_max[i] ? score[i] : row_max[i]; });
    }
    row.each(n, [=](i64 i) {
        rescale[i] = fast_exp(rescale[i] - row_max[i]);
        row_sum[i] *= rescale[i];
    });
    for (i64 c = 0; c < keys; ++c) {
        A* score = tile.p_ts + c * at.rows;
        row.each(n, [=](i64 i) {
            score[i] = fast_exp(score[i] - row_max[i]);
            row_sum[i] += score[i];
        });
    }
    row.sync();
}

/// Loads lse of the rows, and computes delta = sum over e of dout * o, which equals the row sums of p * dp.
template <class T, class A>
KOKKOS_FUNCTION void load_statistics(const Row& row, const AttentionTiles& at, i64 group, i64 i0,
                                     const AttentionGrad<T>& args, const BackwardTiles<A>& tile)
{
    const i64 count = at.rows_of(i0), n = at.lanes_of(i0);
    for (i64 i = 0; i < n; ++i) {
        const i64 from = at.query_at(group, i < count ? i0 + i : i0, at.of_results());
        const T *dout = args.dout_bsgre + from, *o = args.o_bsgre + from;
        const A delta = row.sum<A>(i < count ? at.value_dim : 0, [=](i64 e) { return A(dout[e]) * A(o[e]); });
        const A lse = i < count ? args.lse_bgrs[at.lse_at(group, i0 + i)] : A(0);
        row.single([=] {
            tile.delta_s[i] = delta;
            tile.lse_s[i] = lse == -A(INFINITY) ? A(INFINITY) : lse; // it sees no key: p = 0
        });
    }
    row.sync();
}

} // namespace trivium::kernels
