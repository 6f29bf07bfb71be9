#pragma once
// Internal: the forward pass of attention on tensor cores: FlashAttention-2 (Dao 2023, algorithm 1).
#include "tensor_attention_tiles.hpp"

namespace trivium::kernels {

struct ForwardCall {
    TensorShape shape;
    const bf16 *q_bsgre, *k_btge, *v_btge;
    const std::int32_t* start_b; ///< query i of sequence b sees the keys t <= start_b[b] + i; null: 0
    bf16* o_bsgre;
    float* lse_bgrs;
    u32 row_blocks; ///< thread blocks per group
    TensorOptions options;

    TRV_HOST_DEVICE u32 first(u32 group) const
    {
        return start_b ? static_cast<u32>(start_b[group / shape.kv_heads]) : 0;
    }
};

/// 128 rows by 64 keys: with 32 rows per warp, a fragment of K or V serves two products, so shared memory
/// (128 B per clock) keeps up with the tensor cores. Per thread, o needs `dim` registers, the scores 64. Two
/// blocks share a multiprocessor, so one multiplies while the other computes exponentials.
template <int Dim>
struct ForwardForm : BlockForm<Dim, 2, 4, 64> {
    using Base = BlockForm<Dim, 2, 4, 64>;
    static constexpr int blocks = 2; ///< per multiprocessor
    static constexpr u32 shared_bytes =
        Base::rows_bytes + 4 * Base::step_bytes; ///< q, and two buffers of k and v
};

/// Masks with -inf: rows before s * q_per_kv do not see key first + s. `score` begins at row `warp_row` and
/// key `key`.
template <int M, int N>
TRV_DEVICE void mask_keys(const TensorShape& shape, u32 warp_row, u32 first, u32 key, u32 lane,
                          Piece<M, N>& score)
{
    const int per = static_cast<int>(shape.q_per_kv.divisor), row = static_cast<int>(warp_row + lane / 4);
    const int s = static_cast<int>(key + lane % 4 * 2) - static_cast<int>(first);
    TRV_UNROLL
    for (int j = 0; j < N; ++j)
        TRV_UNROLL
    for (int e = 0; e < 2; ++e) {
        const int begin = (s + 8 * j + e) * per - row; // first row of this lane that sees the key
        TRV_UNROLL
        for (int i = 0; i < M; ++i)
            TRV_UNROLL
        for (int half = 0; half < 2; ++half)
            if (16 * i + 8 * half < begin)
                score.c[i][j][2 * half + e] = -INFINITY;
    }
}

/// The first keys that the rows of this lane see. The own key of query 0 is key `first`.
template <int M>
TRV_DEVICE void first_keys(const TensorShape& shape, const TensorOptions& options, u32 group, u32 warp_row,
                           u32 first, u32 lane, u32 (&keys)[M][2])
{
    TRV_UNROLL
    for (u32 i = 0; i < M; ++i)
        TRV_UNROLL
    for (u32 half = 0; half < 2; ++half) {
        const u32 s = shape.q_per_kv.quotient(warp_row + 16 * i + 8 * half + lane / 4);
        keys[i][half] = options.first_seen(shape, group, s, first + s);
    }
}

/// Masks with -inf the keys before the first ones. `score` begins at key `key`.
template <int M, int N>
TRV_DEVICE void mask_before(const u32 (&first)[M][2], u32 key, u32 lane, Piece<M, N>& score)
{
    TRV_UNROLL
    for (u32 i = 0; i < M; ++i)
        TRV_UNROLL
    for (u32 j = 0; j < N; ++j)
        TRV_UNROLL
    for (u32 e = 0; e < 4; ++e)
        if (key + lane % 4 * 2 + 8 * j + e % 2 < first[i][e / 2])
            score.c[i][j][e] = -INFINITY;
}

/// Online softmax: scores become exp(scale (score - row_max)), and row_sum and o are rescaled. `unit` is
/// scale * log2 e. Each of 4 lanes has a partial row_sum of a row.
template <int M, int N, int D, class Block>
TRV_DEVICE void running_softmax(Block& block, float unit, Piece<M, N>& score, float (&row_max)[M][2],
                                float (&row_sum)[M][2], Piece<M, D>& o)
{
    TRV_UNROLL
    for (int i = 0; i < M; ++i)
        TRV_UNROLL
    for (int half = 0; half < 2; ++half) {
        float now = row_max[i][half];
        TRV_UNROLL
        for (int j = 0; j < N; ++j)
            now = fmaxf(now, fmaxf(score.c[i][j][2 * half], score.c[i][j][2 * half + 1]));
        now = fmaxf(now, block.shuffle_xor(now, 1));
        now = fmaxf(now, block.shuffle_xor(now, 2));
        const float rescale = block.exp2((row_max[i][half] - now) * unit), origin = now * unit;
        row_max[i][half] = now;
        float sum = 0;
        TRV_UNROLL
        for (int j = 0; j < N; ++j)
            TRV_UNROLL
        for (int e = 2 * half; e < 2 * half + 2; ++e) {
            score.c[i][j][e] = block.exp2(fmaf(score.c[i][j][e], unit, -origin));
            sum += score.c[i][j][e];
        }
        row_sum[i][half] = row_sum[i][half] * rescale + sum;
        TRV_UNROLL
        for (int j = 0; j < D; ++j)
            TRV_UNROLL
        for (int e = 2 * half; e < 2 * half + 2; ++e)
            o.c[i][j][e] *= rescale;
    }
}

/// One block: Form::rows rows of a group. The blocks of the last rows, which see most keys, come first. The
/// blocks of a group are consecutive, so its keys stay in the L2 cache.
template <class Form, bool Options = false, class Block>
TRV_DEVICE void attention_forward(Block& block, const ForwardCall& call)
{
    constexpr int dim = Form::dim, step = Form::step;
    const TensorShape& shape = call.shape;
    const TensorOptions& options = call.options;
    const u32 lane = block.thread() % 32, warp = block.thread() / 32;
    const u32 group = block.index() / call.row_blocks;
    const u32 row0 = (call.row_blocks - 1 - block.index() % call.row_blocks) * Form::rows;
    const u32 warp_row = row0 + warp * Form::warp_rows;
    const u32 q_tile = 0, stages = Form::rows_bytes;
    const u32 own_tile = q_tile + warp * Form::warp_rows * dim * 2;

    // All rows see the keys from `late` on and before `all`, and none before `begin`; the last row sees the
    // keys before `seen`.
    const u32 first = call.first(group),
              last_row = (row0 + Form::rows < shape.rows ? row0 + Form::rows : shape.rows) - 1;
    const u32 all = first + shape.q_per_kv.quotient(row0) + 1,
              seen = first + shape.q_per_kv.quotient(last_row) + 1;
    u32 late = 0, begin = 0, first_key[Form::m][2];
    float unit = shape.scale;
    if constexpr (Options) {
        late = options.first_seen(shape, group, seen - 1 - first, seen - 1);
        begin = options.first_seen(shape, group, all - 1 - first, all - 1) / step * step;
        unit = options.unit(shape);
        first_keys(shape, options, group, warp_row, first, lane, first_key);
    }

    const bf16 *const keys = call.k_btge + shape.keys_of(group, shape.k), *const values =
                                                                              call.v_btge +
                                                                              shape.keys_of(group, shape.v);
    const auto load_keys = [&](u32 t) {
        const u32 stage = stages + t / step % 2 * (2 * Form::step_bytes);
        load_tiles<Form, step>(
            block, stage, t, seen, [&](u32 at) { return at * shape.k; }, keys);
        load_tiles<Form, step>(
            block, stage + Form::step_bytes, t, seen, [&](u32 at) { return at * shape.v; }, values);
    };

    load_tiles<Form, Form::rows>(
        block, q_tile, row0, shape.rows, [&](u32 row) { return shape.query_at(row, shape.q); },
        call.q_bsgre + shape.queries_of(group, shape.q));
    load_keys(begin);
    block.commit();

    const auto q = Pieces<dim>::down(own_tile, lane);
    Piece<Form::m, dim / 8> o;
    o.clear();
    float row_max[Form::m][2], row_sum[Form::m][2];
    TRV_UNROLL
    for (int i = 0; i < Form::m; ++i)
        TRV_UNROLL
    for (int half = 0; half < 2; ++half) {
        row_max[i][half] = Options ? -1e30f : -INFINITY; // finite: a row may see none of the first tiles
        row_sum[i][half] = 0;
    }

    // Without options all rows see key 0, so row_max is finite after the first tile.
    for (u32 t = begin; t < seen; t += step) {
        block.wait();
        block.sync();
        if (t + step < seen)
            load_keys(t + step);
        block.commit();
        const u32 stage = stages + t / step % 2 * (2 * Form::step_bytes);
        Piece<Form::m, step / 8> score;
        product_of_rows(block, q, Pieces<dim>::right(stage, lane), score);
        if constexpr (Options)
            cap_scores(block, shape, options, score);
        if (t + step > all)
            mask_keys(shape, warp_row, first, t, lane, score);
        if constexpr (Options)
            if (t < late)
                mask_before(first_key, t, lane, score);
        running_softmax(block, unit * log2_e, score, row_max, row_sum, o);
        add_product(block, score, Pieces<dim>::down(stage + Form::step_bytes, lane), o);
    }

    TRV_UNROLL
    for (u32 i = 0; i < Form::m; ++i)
        TRV_UNROLL
    for (u32 half = 0; half < 2; ++half) {
        float sum = row_sum[i][half];
        sum += block.shuffle_xor(sum, 1);
        sum += block.shuffle_xor(sum, 2);
        [[maybe_unused]] float most = 0;
        float part = 1;
        if constexpr (Options) {
            most = unit * row_max[i][half];
            if (options.sinks_gr) {
                const u32 row = warp_row + 16 * i + 8 * half + lane / 4;
                const u32 per = shape.q_per_kv.divisor, head = row - shape.q_per_kv.quotient(row) * per;
                const float sink = block.load_float(options.sinks_gr + group % shape.kv_heads * per + head);
                const float before = most;
                most = fmaxf(most, sink);
                part = block.exp2((before - most) * log2_e);
                sum = sum * part + block.exp2((sink - most) * log2_e);
            }
        }
        TRV_UNROLL
        for (int j = 0; j < dim / 8; ++j) {
            o.c[i][j][2 * half] *= part / sum;
            o.c[i][j][2 * half + 1] *= part / sum;
        }
        const u32 row = warp_row + 16 * i + 8 * half + lane / 4;
        if (lane % 4 == 0 && row < shape.rows) {
            if constexpr (Options)
                block.store(call.lse_bgrs + shape.lse_at(group, row), most + ::logf(sum));
            else
                block.store(call.lse_bgrs + shape.lse_at(group, row),
                            fmaf(shape.scale, row_max[i][half], ::logf(sum)));
        }
    }
    store_rows<dim>(block, own_tile, o, call.o_bsgre + shape.queries_of(group, shape.o), warp_row, shape.rows,
                    [&](u32 row) { return shape.query_at(row, shape.o); });
}

} // namespace trivium::kernels
