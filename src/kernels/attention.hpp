#pragma once
// Causal grouped-query attention in tiles with an online softmax, without storing the matrix of scores:
// FlashAttention-2 (Dao 2023, arXiv:2307.08691). On a device, bf16 uses cuDNN if the build has it and the
// shape fits (cudnn_attention.hpp), otherwise on NVIDIA GPUs the tensor cores for head sizes 32, 64, 96 and
// 128 (tensor_attention.hpp). Everything else uses attention_tiles.hpp, on the host and on a device.
//
// Shapes: q, o, dq, dout [batch, q_len, kv_heads, q_per_kv, head_dim]; k, v, dk, dv [batch, kv_len, kv_heads,
// head_dim]; lse [batch, kv_heads, q_per_kv, q_len]. Suffixes: b batch, s query, t key, g kv head, r query
// head of a kv head, e element of a head.
#include "kernels/exec.hpp"

namespace trivium::kernels {

/// Elements between consecutive tokens of each tensor, which may be columns of a wider one; 0: dense. On a
/// device, multiples of 16 bytes.
struct AttentionRows {
    i64 q = 0, k = 0, v = 0, dq = 0, dk = 0, dv = 0;
};

struct AttentionShape {
    i64 batch = 0, q_len = 0, kv_len = 0;
    i64 kv_heads = 0, q_per_kv = 1, head_dim = 0;
    double scale = 0;          ///< factor of the scores; 0: 1 / sqrt(head_dim)
    bool cudnn = true;         ///< use cuDNN if the build has it and the shape fits
    bool deterministic = true; ///< false: cuDNN's gradient may add in a changing order, with less scratch
    AttentionRows rows{};

    i64 query_row() const { return kv_heads * q_per_kv * head_dim; } ///< stride of a dense tensor of queries
    i64 key_row() const { return kv_heads * head_dim; }
    /// `rows`, with the strides of dense tensors instead of 0.
    AttentionRows strides() const
    {
        const auto of = [](i64 row, i64 dense) { return row > 0 ? row : dense; };
        return {of(rows.q, query_row()),  of(rows.k, key_row()),  of(rows.v, key_row()),
                of(rows.dq, query_row()), of(rows.dk, key_row()), of(rows.dv, key_row())};
    }
};

/// Scratch of attention() on `threads` threads, in bytes.
template <class T>
Bytes attention_scratch(const AttentionShape& shape, int threads);
/// Scratch of attention_grad() on `threads` threads, in bytes. More may let cuDNN apply.
template <class T>
Bytes attention_grad_scratch(const AttentionShape& shape, int threads);

/// Query i sees the keys t <= *start + i (start null: 0), so keys beyond the filled range of the cache cost
/// nothing. lse is the log-sum-exp of a query's scaled scores. With less scratch than attention_scratch(),
/// fewer threads compute. The choice of algorithm depends only on types, shapes, addresses and scratch.
/// \pre *start + q_len <= kv_len (checked if `start` is null and contracts are on)
/// \throws InternalError if the scratch is too small for one thread
template <class T>
void attention(const Exec& exec, const AttentionShape& shape, const T* q_bsgre, const T* k_btge,
               const T* v_btge, const std::int32_t* start, T* o_bsgre, Acc<T>* lse_bgrs, Scratch scratch);

/// Inputs (from the forward call) and outputs of attention_grad.
template <class T>
struct AttentionGrad {
    const T *dout_bsgre, *q_bsgre, *k_btge, *v_btge, *o_bsgre;
    const Acc<T>* lse_bgrs;
    T *dq_bsgre, *dk_btge, *dv_btge;
};

/// The gradient for start = 0. \pre q_len <= kv_len \throws InternalError as attention()
template <class T>
void attention_grad(const Exec& exec, const AttentionShape& shape, const AttentionGrad<T>& args,
                    Scratch scratch);

} // namespace trivium::kernels
