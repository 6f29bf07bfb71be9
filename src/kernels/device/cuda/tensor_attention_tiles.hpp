#pragma once
// Internal: tiles of attention on tensor cores, in shared memory and in registers.
//
// The queries of one batch element and kv head, a "group", are one list of rows: row i is query
// i / q_per_kv of head i % q_per_kv. So a block uses the same keys for all heads of the group, and grouped
// queries need no special code.
//
// A tile [rows, dim] of bf16 is stored in shared memory row by row, in chunks of 16 B that are permuted
// (swizzled) within a row, so that the 8 rows of an ldmatrix matrix are in different banks. Products
// accumulate in fragments of 16 x 8 (mma.m16n8k16): lane l holds the columns 2 (l % 4) and 2 (l % 4) + 1 of
// row l / 4, in c[0] and c[1], and of row l / 4 + 8, in c[2] and c[3].
#include "kernels/attention.hpp"
#include "kernels/math.hpp"
#include "tensor_block.hpp"

#include <algorithm>
#include <cmath>

namespace trivium::kernels {

/// n / divisor for n < 2^31 as a multiplication (Granlund & Montgomery 1994).
struct Divider {
    explicit Divider(u32 d) : divisor(d)
    {
        while ((u64{1} << shift) < d)
            ++shift;
        factor = static_cast<u32>((((u64{1} << shift) - d) << 32) / d + 1);
    }
    TRV_HOST_DEVICE u32 quotient(u32 n) const
    {
        return (static_cast<u32>((static_cast<u64>(n) * factor) >> 32) + n) >> shift;
    }

    u32 divisor, factor = 0, shift = 0;
};

/// The rows of a group's statistics are padded to a multiple of this, so that tiles are complete.
inline constexpr i64 statistics_rows = 64;

/// Largest stride between tokens, in elements.
inline i64 widest_row(const AttentionShape& shape)
{
    const AttentionRows s = shape.strides();
    return std::max({s.q, s.k, s.v, s.dq, s.dk, s.dv, shape.query_row()});
}

/// Whether the shape and its blocks fit the kernels' 32-bit indices.
inline bool fits_tensor_attention(const AttentionShape& shape)
{
    constexpr i64 most = i64{1} << 30;
    return shape.batch * shape.kv_heads < most && shape.q_len * shape.q_per_kv < most &&
           (shape.kv_len + 1024) * shape.q_per_kv < most &&
           std::max(shape.q_len, shape.kv_len) * widest_row(shape) < 4 * most &&
           shape.batch * shape.kv_heads * ceil_div(std::max(shape.q_len * shape.q_per_kv, shape.kv_len), 32) <
               most;
}

/// An AttentionShape for the kernels, with strides in elements. \pre fits_tensor_attention(shape)
struct TensorShape {
    explicit TensorShape(const AttentionShape& shape)
        : q_len(static_cast<u32>(shape.q_len)), kv_len(static_cast<u32>(shape.kv_len)),
          kv_heads(static_cast<u32>(shape.kv_heads)), groups(static_cast<u32>(shape.batch * shape.kv_heads)),
          rows(static_cast<u32>(shape.q_len * shape.q_per_kv)),
          padded_rows(static_cast<u32>(round_up(rows, statistics_rows))),
          q_per_kv(static_cast<u32>(shape.q_per_kv)), dim(static_cast<u32>(shape.head_dim)),
          o(static_cast<u32>(shape.query_row())), q(static_cast<u32>(shape.strides().q)),
          k(static_cast<u32>(shape.strides().k)), v(static_cast<u32>(shape.strides().v)),
          dq(static_cast<u32>(shape.strides().dq)), dk(static_cast<u32>(shape.strides().dk)),
          dv(static_cast<u32>(shape.strides().dv)),
          scale(static_cast<float>(shape.scale != 0 ? shape.scale
                                                    : 1 / std::sqrt(static_cast<double>(shape.head_dim))))
    {
    }

    /// Offset of a group in q_bsgre, and of a row within the group. `stride`: between tokens.
    TRV_HOST_DEVICE u64 queries_of(u32 group, u32 stride) const
    {
        const u64 b = group / kv_heads, g = group % kv_heads;
        return b * q_len * stride + g * q_per_kv.divisor * dim;
    }
    TRV_HOST_DEVICE u32 query_at(u32 row, u32 stride) const
    {
        const u32 s = q_per_kv.quotient(row);
        return s * stride + (row - s * q_per_kv.divisor) * dim;
    }
    /// Offset of a group in k_btge; its key t is t * stride after it.
    TRV_HOST_DEVICE u64 keys_of(u32 group, u32 stride) const
    {
        const u64 b = group / kv_heads, g = group % kv_heads;
        return b * kv_len * stride + g * dim;
    }
    /// Offset of a row of a group in lse_bgrs.
    TRV_HOST_DEVICE u64 lse_at(u32 group, u32 row) const
    {
        const u32 s = q_per_kv.quotient(row);
        return (static_cast<u64>(group) * q_per_kv.divisor + (row - s * q_per_kv.divisor)) * q_len + s;
    }

    u32 q_len, kv_len, kv_heads;
    u32 groups;            ///< batch * kv_heads
    u32 rows, padded_rows; ///< per group
    Divider q_per_kv;
    u32 dim;
    u32 o;                   ///< stride between the tokens of o and dout
    u32 q, k, v, dq, dk, dv; ///< stride between the tokens of each other tensor
    float scale;
};

/// What an AttentionShape and its extras ask for besides causal attention. Kernels are compiled without it,
/// too, so that it costs nothing there.
struct TensorOptions {
    TensorOptions(const AttentionShape& shape, const AttentionExtras<bf16>& extras)
        : chunk(static_cast<u32>(shape.chunk > 0 ? shape.chunk : 1)), window(static_cast<u32>(shape.window)),
          chunked(shape.chunk > 0), cap(static_cast<float>(shape.cap)), starts_bs(extras.starts_bs),
          sinks_gr(extras.sinks_gr), any(window > 0 || chunked || cap > 0 || starts_bs || sinks_gr)
    {
    }

    /// The first key that query s of a group sees, whose own key is `own`; it grows with s. Queries past the
    /// end count as the last one.
    TRV_HOST_DEVICE u32 first_seen(const TensorShape& shape, u32 group, u32 s, u32 own) const
    {
        if (s >= shape.q_len) {
            own -= s - shape.q_len + 1;
            s = shape.q_len - 1;
        }
        u32 first = 0;
        if (starts_bs) { // a query always sees its own key
            const std::int32_t document =
                starts_bs[static_cast<u64>(group / shape.kv_heads) * shape.q_len + s];
            first = document < 0 ? 0 : static_cast<u32>(document) < own ? static_cast<u32>(document) : own;
        }
        if (chunked)
            first += chunk.quotient(own - first) * chunk.divisor;
        return window > 0 && own >= window + first ? own - window + 1 : first;
    }

    /// The first query of a group that sees neither key t nor an earlier one, if the own key of query 0 is
    /// key 0.
    TRV_HOST_DEVICE u32 end_of_queries(const TensorShape& shape, u32 group, u32 t) const
    {
        u32 begin = t < shape.q_len ? t : shape.q_len, end = shape.q_len;
        while (begin < end) {
            const u32 middle = (begin + end) / 2;
            if (first_seen(shape, group, middle, middle) <= t)
                begin = middle + 1;
            else
                end = middle;
        }
        return begin;
    }

    /// Factor of what scores() leaves in place of scores.
    TRV_HOST_DEVICE float unit(const TensorShape& shape) const { return cap > 0 ? cap : shape.scale; }

    Divider chunk;
    u32 window;
    bool chunked;
    float cap;
    const std::int32_t* starts_bs;
    const float* sinks_gr;
    bool any;
};

/// Tiling of a kernel: `warps` warps of 16 m rows, iterating over the other sequence in steps of `step`.
template <int Dim, int M, int Warps, int Step>
struct BlockForm {
    static_assert(Dim % 16 == 0 && Step % 16 == 0);
    static constexpr int dim = Dim, m = M, warps = Warps, step = Step;
    static constexpr int threads = 32 * warps, warp_rows = 16 * m, rows = warp_rows * warps;
    static constexpr u32 rows_bytes = rows * dim * 2, step_bytes = step * dim * 2;
};

inline constexpr float log2_e = 1.44269504f;

/// In row `row`, 16-byte chunk c is at position c ^ swizzle(row).
template <int Dim>
TRV_HOST_DEVICE constexpr u32 swizzle(u32 row)
{
    constexpr u32 chunks = Dim / 8;
    return chunks % 8 == 0 ? row & 7 : chunks % 4 == 0 ? row >> 1 & 3 : row >> 2 & 1;
}
/// Byte offset of that chunk in its tile.
template <int Dim>
TRV_HOST_DEVICE constexpr u32 chunk_at(u32 row, u32 chunk)
{
    return (row * (Dim / 8) + (chunk ^ swizzle<Dim>(row))) * 16;
}

/// The row of 16 bytes that a lane passes to ldmatrix.x4, for 16 x 16 blocks of a tile.
template <int Dim>
class Pieces {
public:
    /// Register order of operand A: down, then right. With load_transposed(): operand B of a tile [k, n].
    static TRV_DEVICE Pieces down(u32 tile, u32 lane) { return {tile, lane & 15, lane >> 4}; }
    /// Right, then down: operand B of a tile [n, k].
    static TRV_DEVICE Pieces right(u32 tile, u32 lane)
    {
        return {tile, (lane & 7) + (lane >> 4) * 8, lane >> 3 & 1};
    }

    TRV_DEVICE u32 at(u32 down, u32 right) const
    {
        return row_ + down * (16 * Dim * 2) + ((right * 32) ^ turn_);
    }

private:
    TRV_DEVICE Pieces(u32 tile, u32 row, u32 half)
        : row_(tile + row * (Dim * 2)), turn_((half ^ swizzle<Dim>(row)) * 16)
    {
    }
    u32 row_, turn_;
};

/// [16 M, 8 N] f32 in the registers of a warp.
template <int M, int N>
struct Piece {
    float c[M][N][4];

    TRV_DEVICE void clear()
    {
        TRV_UNROLL
        for (int i = 0; i < M; ++i)
            TRV_UNROLL
        for (int j = 0; j < N; ++j)
            TRV_UNROLL
        for (int e = 0; e < 4; ++e)
            c[i][j][e] = 0;
    }

    TRV_DEVICE void scale(float factor)
    {
        TRV_UNROLL
        for (int i = 0; i < M; ++i)
            TRV_UNROLL
        for (int j = 0; j < N; ++j)
            TRV_UNROLL
        for (int e = 0; e < 4; ++e)
            c[i][j][e] *= factor;
    }
};

/// c[16 M, 8 N] = a[16 M, Dim] b[8 N, Dim]^T; a and b are in shared memory.
template <int Dim, int M, int N, class Block>
TRV_DEVICE void product_of_rows(Block& block, const Pieces<Dim>& a, const Pieces<Dim>& b, Piece<M, N>& c)
{
    c.clear();
    TRV_UNROLL
    for (u32 k = 0; k < Dim / 16; ++k) {
        u32 left[M][4];
        TRV_UNROLL
        for (u32 i = 0; i < M; ++i)
            block.load_matrices(left[i], a.at(i, k));
        TRV_UNROLL
        for (u32 j = 0; j < N / 2; ++j) {
            u32 right[4];
            block.load_matrices(right, b.at(j, k));
            TRV_UNROLL
            for (u32 i = 0; i < M; ++i) {
                block.multiply(c.c[i][2 * j], left[i], right[0], right[1]);
                block.multiply(c.c[i][2 * j + 1], left[i], right[2], right[3]);
            }
        }
    }
}

/// c[16 M, Dim] += bf16(a[16 M, 8 K]) b[8 K, Dim]: the registers of a already have operand layout.
template <int Dim, int M, int K, class Block>
TRV_DEVICE void add_product(Block& block, const Piece<M, K>& a, const Pieces<Dim>& b, Piece<M, Dim / 8>& c)
{
    TRV_UNROLL
    for (u32 k = 0; k < K / 2; ++k) {
        u32 left[M][4];
        TRV_UNROLL
        for (u32 i = 0; i < M; ++i)
            TRV_UNROLL
        for (u32 e = 0; e < 4; ++e) {
            const float* pair = &a.c[i][2 * k + e / 2][e % 2 * 2];
            left[i][e] = block.pack(pair[0], pair[1]);
        }
        TRV_UNROLL
        for (u32 j = 0; j < Dim / 16; ++j) {
            u32 right[4];
            block.load_transposed(right, b.at(k, j));
            TRV_UNROLL
            for (u32 i = 0; i < M; ++i) {
                block.multiply(c.c[i][2 * j], left[i], right[0], right[1]);
                block.multiply(c.c[i][2 * j + 1], left[i], right[2], right[3]);
            }
        }
    }
}

/// With a cap, products x of queries and keys become tanh(scale x / cap).
template <int M, int N, class Block>
TRV_DEVICE void cap_scores(Block& block, const TensorShape& shape, const TensorOptions& options,
                           Piece<M, N>& score)
{
    if (!(options.cap > 0))
        return;
    const float part = shape.scale / options.cap;
    TRV_UNROLL
    for (int i = 0; i < M; ++i)
        TRV_UNROLL
    for (int j = 0; j < N; ++j)
        TRV_UNROLL
    for (int e = 0; e < 4; ++e) {
        const float x = score.c[i][j][e] * part;
        score.c[i][j][e] = tanh_with(x, block.exp2(2 * log2_e * x));
    }
}

/// The slope of the cap at tanh(x); 1 without one, 0 for hidden scores.
TRV_HOST_DEVICE inline float slope_of_cap(const TensorOptions& options, float tanh)
{
    return options.cap > 0 ? fmaxf(1 - tanh * tanh, 0.0f) : 1.0f;
}

/// Starts copying rows [first, first + Rows) of each tensor into consecutive tiles, with zeros from row `end`
/// on. Row i is at from + at(i). Block::commit() and wait() complete the copies.
template <class Form, int Rows, class Block, class At, class... Tensors>
TRV_DEVICE void load_tiles(Block& block, u32 tile, u32 first, u32 end, At at, Tensors... from)
{
    constexpr u32 chunks = Form::dim / 8, threads = Form::threads;
    static_assert(Rows * chunks % threads == 0);
    TRV_UNROLL
    for (u32 pass = 0; pass < Rows * chunks / threads; ++pass) {
        const u32 i = block.thread() + pass * threads, row = i / chunks, chunk = i % chunks;
        u32 to = tile + chunk_at<Form::dim>(row, chunk);
        const u32 offset = at(first + row) + chunk * 8;
        const bool inside = first + row < end;
        ((block.copy_async(to, from + offset, inside), to += Rows * Form::dim * 2), ...);
    }
}

/// Stores c, a warp's rows from `first` on, as bf16: each row below `end` to `to` + at(row). The buffer is
/// the warp's own shared memory at `tile`.
template <int Dim, int M, class Block, class At>
TRV_DEVICE void store_rows(Block& block, u32 tile, const Piece<M, Dim / 8>& c, bf16* to, u32 first, u32 end,
                           At at)
{
    constexpr u32 chunks = Dim / 8;
    const u32 lane = block.thread() % 32;
    block.sync_warp();
    TRV_UNROLL
    for (u32 i = 0; i < M; ++i)
        TRV_UNROLL
    for (u32 j = 0; j < chunks; ++j)
        TRV_UNROLL
    for (u32 half = 0; half < 2; ++half)
        block.store_shared(tile + chunk_at<Dim>(16 * i + 8 * half + lane / 4, j) + lane % 4 * 4,
                           block.pack(c.c[i][j][2 * half], c.c[i][j][2 * half + 1]));
    block.sync_warp();
    for (u32 i = lane; i < 16 * M * chunks; i += 32) {
        const u32 row = i / chunks, chunk = i % chunks;
        if (first + row < end)
            block.store(to + at(first + row) + chunk * 8,
                        block.load_shared(tile + chunk_at<Dim>(row, chunk)));
    }
}

} // namespace trivium::kernels
