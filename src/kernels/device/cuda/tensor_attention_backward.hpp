#pragma once
// Internal: the gradient of attention on tensor cores, in three kernels without atomics, so that every run
// gives the same bits. They compute statistics of the rows; dk and dv, where a block owns keys and iterates
// over the rows that see them; dq, where a block owns rows and iterates over the keys that they see.
// FlashAttention-2 (Dao 2023, algorithm 2) computes dk, dv and dq together, with atomics on dq; separate
// kernels need 7 products instead of 5.
#include "tensor_attention_forward.hpp"

namespace trivium::kernels {

struct BackwardCall {
    TensorShape shape;
    AttentionGrad<bf16> args;
    float* statistics; ///< [groups, padded_rows, 2]: lse * log2 e, and delta = sum over e of dout * o
    u32 row_blocks;    ///< blocks per group in query_gradient()
    u32 key_blocks;    ///< blocks per group in key_gradient()
    TensorOptions options;

    TRV_HOST_DEVICE u64 statistics_at(u32 group, u32 row) const
    {
        return (static_cast<u64>(group) * shape.padded_rows + row) * 2;
    }
};

/// Threads and rows per block of row_statistics(): 8 threads per row.
inline constexpr int statistics_threads = 256;
inline constexpr int statistics_block = statistics_threads / 8;
static_assert(statistics_rows % statistics_block == 0);

/// Registers per thread: m dim for dk and dv, m step for scores and their gradients; at most 192 in total.
template <int Dim, int M, int Warps, int Step>
struct KeyGradientBlocks : BlockForm<Dim, M, Warps, Step> {
    using Base = BlockForm<Dim, M, Warps, Step>;
    static constexpr int blocks = Base::threads > 128 ? 1 : 2;
    static constexpr u32 statistics_bytes = Base::step * 8;
    static constexpr u32 stage_bytes = 2 * Base::step_bytes + statistics_bytes;
    static constexpr u32 shared_bytes =
        2 * Base::rows_bytes + 2 * stage_bytes; ///< k and v; two buffers of q, dout and statistics
};
template <int Dim>
struct KeyGradientForm : KeyGradientBlocks<Dim, 1, 8, 64> {
};
template <>
struct KeyGradientForm<64> : KeyGradientBlocks<64, 2, 4, 32> {
};
template <>
struct KeyGradientForm<32> : KeyGradientBlocks<32, 2, 4, 32> {
};

/// Registers per thread: m dim / 2 for dq, m step for scores and their gradients; at most 192 in total.
template <int Dim, int Step>
struct QueryGradientBlocks : BlockForm<Dim, 2, 4, Step> {
    using Base = BlockForm<Dim, 2, 4, Step>;
    static constexpr int blocks = 2;
    static constexpr u32 shared_bytes =
        2 * Base::rows_bytes + 4 * Base::step_bytes; ///< q and dout; two buffers of k and v
};
template <int Dim>
struct QueryGradientForm : QueryGradientBlocks<Dim, Dim <= 64 ? 64 : 32> {
};

/// One block: statistics of statistics_block rows. Rows past the end get lse = +inf, so their probabilities
/// are 0.
template <int Dim, class Block>
TRV_DEVICE void row_statistics(Block& block, const BackwardCall& call)
{
    const TensorShape& shape = call.shape;
    const u32 blocks = shape.padded_rows / statistics_block, group = block.index() / blocks;
    const u32 row = block.index() % blocks * statistics_block + block.thread() / 8, part = block.thread() % 8;
    float delta = 0;
    if (row < shape.rows)
        for (u32 chunk = part; chunk < Dim / 8; chunk += 8) {
            const u64 from = shape.queries_of(group, shape.o) + shape.query_at(row, shape.o) + chunk * 8;
            const Words dout = block.load(call.args.dout_bsgre + from),
                        o = block.load(call.args.o_bsgre + from);
            TRV_UNROLL
            for (int i = 0; i < 4; ++i) // a bf16 is the upper half of an f32
                delta += __builtin_bit_cast(float, dout.word[i] << 16) *
                             __builtin_bit_cast(float, o.word[i] << 16) +
                         __builtin_bit_cast(float, dout.word[i] & 0xffff0000u) *
                             __builtin_bit_cast(float, o.word[i] & 0xffff0000u);
        }
    for (const u32 mask : {4u, 2u, 1u})
        delta += block.shuffle_xor(delta, mask);
    if (part == 0) {
        float* const to = call.statistics + call.statistics_at(group, row);
        block.store(to, row < shape.rows
                            ? block.load_float(call.args.lse_bgrs + shape.lse_at(group, row)) * log2_e
                            : INFINITY);
        block.store(to + 1, delta);
    }
}

/// One block: dk and dv of Form::rows keys. Scores are transposed, [key, query], so p^T and ds^T are already
/// the left operands of dv += p^T dout and dk += ds^T q. The blocks of the first keys, which most rows see,
/// come first.
template <class Form, bool Options = false, class Block>
TRV_DEVICE void key_gradient(Block& block, const BackwardCall& call)
{
    constexpr int dim = Form::dim, step = Form::step;
    const TensorShape& shape = call.shape;
    const TensorOptions& options = call.options;
    const AttentionGrad<bf16>& args = call.args;
    const u32 lane = block.thread() % 32, warp = block.thread() / 32;
    const u32 group = block.index() / call.key_blocks, key0 = block.index() % call.key_blocks * Form::rows;
    const u32 warp_key = key0 + warp * Form::warp_rows, own = warp * Form::warp_rows * dim * 2;
    const u32 k_tile = 0, v_tile = Form::rows_bytes, stages = 2 * Form::rows_bytes;

    const bf16 *const queries = args.q_bsgre + shape.queries_of(group, shape.q), *const douts =
                                                                                     args.dout_bsgre +
                                                                                     shape.queries_of(
                                                                                         group, shape.o);
    const auto load_rows = [&](u32 row) {
        const u32 stage = stages + row / step % 2 * Form::stage_bytes;
        load_tiles<Form, step>(
            block, stage, row, shape.rows, [&](u32 at) { return shape.query_at(at, shape.q); }, queries);
        load_tiles<Form, step>(
            block, stage + Form::step_bytes, row, shape.rows,
            [&](u32 at) { return shape.query_at(at, shape.o); }, douts);
        if (block.thread() < Form::statistics_bytes / 16)
            block.copy_async(stage + 2 * Form::step_bytes + block.thread() * 16,
                             call.statistics + call.statistics_at(group, row) + block.thread() * 4);
    };

    // Rows from t * q_per_kv on see key t; with options only those before the end.
    const u32 per = shape.q_per_kv.divisor, begin = key0 * per / step * step;
    const u32 all = (key0 + Form::rows - 1) * per; // these rows see every key
    u32 end = shape.rows;
    float unit = shape.scale;
    if constexpr (Options) {
        end = options.end_of_queries(shape, group, key0 + Form::rows - 1) * per;
        unit = options.unit(shape);
    }
    Piece<Form::m, dim / 8> dk, dv;
    dk.clear();
    dv.clear();
    if (begin < end) {
        load_tiles<Form, Form::rows>(
            block, k_tile, key0, shape.kv_len, [&](u32 at) { return at * shape.k; },
            args.k_btge + shape.keys_of(group, shape.k));
        load_tiles<Form, Form::rows>(
            block, v_tile, key0, shape.kv_len, [&](u32 at) { return at * shape.v; },
            args.v_btge + shape.keys_of(group, shape.v));
        load_rows(begin);
        block.commit();
    }
    const auto k = Pieces<dim>::down(k_tile + own, lane), v = Pieces<dim>::down(v_tile + own, lane);
    for (u32 row = begin; row < end; row += step) {
        block.wait();
        block.sync();
        if (row + step < end)
            load_rows(row + step);
        block.commit();
        const u32 q_tile = stages + row / step % 2 * Form::stage_bytes, dout_tile = q_tile + Form::step_bytes;
        const u32 statistics =
            dout_tile + Form::step_bytes + lane % 4 * 16; // two rows: lse, delta, lse, delta

        Piece<Form::m, step / 8> p, ds;
        product_of_rows(block, k, Pieces<dim>::right(q_tile, lane), p);
        product_of_rows(block, v, Pieces<dim>::right(dout_tile, lane), ds);
        if constexpr (Options)
            cap_scores(block, shape, options, p);
        if (row < all) {
            TRV_UNROLL
            for (u32 i = 0; i < Form::m; ++i)
                TRV_UNROLL
            for (u32 half = 0; half < 2; ++half) {
                const int from = static_cast<int>((warp_key + 16 * i + 8 * half + lane / 4) * per) -
                                 static_cast<int>(row + lane % 4 * 2);
                TRV_UNROLL
                for (int j = 0; j < step / 8; ++j)
                    TRV_UNROLL
                for (int e = 0; e < 2; ++e)
                    if (8 * j + e < from)
                        p.c[i][j][2 * half + e] = -INFINITY;
            }
        }
        if constexpr (Options) {
            const u32 last = shape.q_per_kv.quotient(row + step - 1);
            if (options.first_seen(shape, group, last, last) > key0) {
                TRV_UNROLL
                for (u32 j = 0; j < step / 8; ++j)
                    TRV_UNROLL
                for (u32 e = 0; e < 2; ++e) {
                    const u32 s = shape.q_per_kv.quotient(row + lane % 4 * 2 + 8 * j + e);
                    const u32 first = options.first_seen(shape, group, s, s);
                    TRV_UNROLL
                    for (u32 i = 0; i < Form::m; ++i)
                        TRV_UNROLL
                    for (u32 half = 0; half < 2; ++half)
                        if (warp_key + 16 * i + 8 * half + lane / 4 < first)
                            p.c[i][j][2 * half + e] = -INFINITY;
                }
            }
        }
        TRV_UNROLL
        for (u32 j = 0; j < step / 8; ++j) {
            const Words rows = block.load_shared(statistics + j * 64);
            TRV_UNROLL
            for (int i = 0; i < Form::m; ++i)
                TRV_UNROLL
            for (int e = 0; e < 4; ++e) {
                const float lse = __builtin_bit_cast(float, rows.word[e % 2 * 2]);
                const float delta = __builtin_bit_cast(float, rows.word[e % 2 * 2 + 1]);
                float slope = 1;
                if constexpr (Options)
                    slope = slope_of_cap(options, p.c[i][j][e]);
                p.c[i][j][e] = block.exp2(fmaf(p.c[i][j][e], unit * log2_e, -lse));
                ds.c[i][j][e] = p.c[i][j][e] * (ds.c[i][j][e] - delta);
                if constexpr (Options)
                    ds.c[i][j][e] *= slope;
            }
        }
        add_product(block, p, Pieces<dim>::down(dout_tile, lane), dv);
        add_product(block, ds, Pieces<dim>::down(q_tile, lane), dk);
    }

    dk.scale(shape.scale);
    store_rows<dim>(block, k_tile + own, dk, args.dk_btge + shape.keys_of(group, shape.dk), warp_key,
                    shape.kv_len, [&](u32 at) { return at * shape.dk; });
    store_rows<dim>(block, v_tile + own, dv, args.dv_btge + shape.keys_of(group, shape.dv), warp_key,
                    shape.kv_len, [&](u32 at) { return at * shape.dv; });
}

/// One block: dq of Form::rows rows of a group. Blocks are ordered as in attention_forward().
template <class Form, bool Options = false, class Block>
TRV_DEVICE void query_gradient(Block& block, const BackwardCall& call)
{
    constexpr int dim = Form::dim, step = Form::step;
    const TensorShape& shape = call.shape;
    const TensorOptions& options = call.options;
    const AttentionGrad<bf16>& args = call.args;
    const u32 lane = block.thread() % 32, warp = block.thread() / 32;
    const u32 group = block.index() / call.row_blocks;
    const u32 row0 = (call.row_blocks - 1 - block.index() % call.row_blocks) * Form::rows;
    const u32 warp_row = row0 + warp * Form::warp_rows, own = warp * Form::warp_rows * dim * 2;
    const u32 q_tile = 0, dout_tile = Form::rows_bytes, stages = 2 * Form::rows_bytes;
    const u32 last_row = (row0 + Form::rows < shape.rows ? row0 + Form::rows : shape.rows) - 1;
    const u32 all = shape.q_per_kv.quotient(row0) + 1, seen = shape.q_per_kv.quotient(last_row) + 1;
    u32 late = 0, begin = 0, first_key[Form::m][2];
    float unit = shape.scale;
    if constexpr (Options) {
        late = options.first_seen(shape, group, seen - 1, seen - 1);
        begin = options.first_seen(shape, group, all - 1, all - 1) / step * step;
        unit = options.unit(shape);
        first_keys(shape, options, group, warp_row, 0, lane, first_key);
    }

    const bf16 *const keys = args.k_btge + shape.keys_of(group, shape.k), *const values =
                                                                              args.v_btge +
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
        args.q_bsgre + shape.queries_of(group, shape.q));
    load_tiles<Form, Form::rows>(
        block, dout_tile, row0, shape.rows, [&](u32 row) { return shape.query_at(row, shape.o); },
        args.dout_bsgre + shape.queries_of(group, shape.o));
    load_keys(begin);
    block.commit();

    float lse[Form::m][2], delta[Form::m][2];
    TRV_UNROLL
    for (u32 i = 0; i < Form::m; ++i)
        TRV_UNROLL
    for (u32 half = 0; half < 2; ++half) {
        const u32 row = warp_row + 16 * i + 8 * half + lane / 4;
        const float* from = call.statistics + call.statistics_at(group, row);
        lse[i][half] = row < shape.rows ? block.load_float(from) : INFINITY;
        delta[i][half] = row < shape.rows ? block.load_float(from + 1) : 0;
    }

    const auto q = Pieces<dim>::down(q_tile + own, lane), dout = Pieces<dim>::down(dout_tile + own, lane);
    Piece<Form::m, dim / 8> dq;
    dq.clear();
    for (u32 t = begin; t < seen; t += step) {
        block.wait();
        block.sync();
        if (t + step < seen)
            load_keys(t + step);
        block.commit();
        const u32 k_tile = stages + t / step % 2 * (2 * Form::step_bytes), v_tile = k_tile + Form::step_bytes;
        Piece<Form::m, step / 8> ds, dp;
        product_of_rows(block, q, Pieces<dim>::right(k_tile, lane), ds);
        product_of_rows(block, dout, Pieces<dim>::right(v_tile, lane), dp);
        if constexpr (Options)
            cap_scores(block, shape, options, ds);
        if (t + step > all)
            mask_keys(shape, warp_row, 0, t, lane, ds);
        if constexpr (Options)
            if (t < late)
                mask_before(first_key, t, lane, ds);
        TRV_UNROLL
        for (int i = 0; i < Form::m; ++i)
            TRV_UNROLL
        for (int j = 0; j < step / 8; ++j)
            TRV_UNROLL
        for (int e = 0; e < 4; ++e) {
            if constexpr (Options)
                dp.c[i][j][e] = (dp.c[i][j][e] - delta[i][e / 2]) * slope_of_cap(options, ds.c[i][j][e]);
            else
                dp.c[i][j][e] -= delta[i][e / 2];
            ds.c[i][j][e] = block.exp2(fmaf(ds.c[i][j][e], unit * log2_e, -lse[i][e / 2])) * dp.c[i][j][e];
        }
        add_product(block, ds, Pieces<dim>::down(k_tile, lane), dq);
    }
    dq.scale(shape.scale);
    store_rows<dim>(block, q_tile + own, dq, args.dq_bsgre + shape.queries_of(group, shape.dq), warp_row,
                    shape.rows, [&](u32 row) { return shape.query_at(row, shape.dq); });
}

} // namespace trivium::kernels
