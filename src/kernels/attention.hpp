#pragma once
// Causal grouped-query attention in tiles with an online softmax, without storing the matrix of scores:
// FlashAttention-2 (Dao 2023, arXiv:2307.08691). On a device, bf16 uses cuDNN if the build has it and the
// shape fits (cudnn_attention.hpp), otherwise on NVIDIA GPUs the tensor cores for head sizes 32, 64, 96 and
// 128 (tensor_attention.hpp). Everything else uses attention_tiles.hpp, on the host and on a device. None of
// them computes tiles of scores that are hidden from all of their queries.
//
// Shapes: q, dq [batch, q_len, kv_heads, q_per_kv, head_dim]; k, dk [batch, kv_len, kv_heads, head_dim]; o,
// dout and v, dv have value_dim instead of head_dim, which only attention_tiles.hpp takes if it is another;
// lse [batch, kv_heads, q_per_kv, q_len]. Suffixes: b batch, s query, t key, g kv head, r query head of a kv
// head, e element of a head (of queries and keys, or of values).
#include "base/sequence_order.hpp"
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
    i64 window = 0; ///< a query sees only this many keys, up to its own; 0: no limit
    i64 chunk = 0;  ///< and only those in its own chunk of so many keys of its document; 0: no chunks
    /// Scaled scores x become cap tanh(x / cap) (Gemma Team 2024, arXiv:2408.00118); 0: they stay.
    double cap = 0;
    /// The order of the queries and of the keys, which may be parts of a sequence, and the indices in it of
    /// the first ones. starts_bs, windows and chunks are about positions.
    SequenceOrder order{};
    i64 first_query = 0, first_key = 0;
    i64 value_dim = 0; ///< 0: head_dim

    i64 width_of_values() const { return value_dim > 0 ? value_dim : head_dim; }
    bool one_width() const { return width_of_values() == head_dim; }
    i64 query_row() const { return kv_heads * q_per_kv * head_dim; } ///< stride of a dense tensor of queries
    i64 key_row() const { return kv_heads * head_dim; }
    i64 result_row() const { return kv_heads * q_per_kv * width_of_values(); } ///< of o
    i64 value_row() const { return kv_heads * width_of_values(); }
    /// `rows`, with the strides of dense tensors instead of 0.
    AttentionRows strides() const
    {
        const auto of = [](i64 row, i64 dense) { return row > 0 ? row : dense; };
        return {of(rows.q, query_row()),  of(rows.k, key_row()),  of(rows.v, value_row()),
                of(rows.dq, query_row()), of(rows.dk, key_row()), of(rows.dv, value_row())};
    }
};

/// Scratch of attention() on `threads` threads, in bytes.
template <class T>
Bytes attention_scratch(const AttentionShape& shape, int threads);
/// Scratch of attention_grad() on `threads` threads, in bytes. More may let cuDNN apply.
template <class T>
Bytes attention_grad_scratch(const AttentionShape& shape, int threads);

/// Optional inputs of attention.
template <class T>
struct AttentionExtras {
    /// For each query the first key of its document, by which it sees no earlier key. Documents are
    /// contiguous: the next query's is the same or, if it begins a document, its own key. Null: all keys are
    /// one document.
    const std::int32_t* starts_bs = nullptr;
    /// For each head, a score without a value: exp(sink) is added to the sum of a query's exponentials (Xiao
    /// et al. 2023, arXiv:2309.17453; gpt-oss). Null: none.
    const Acc<T>* sinks_gr = nullptr;
    // Of keys in parts: o and lse of the keys so far, among which these are counted (null: none; lse -inf:
    // the query saw none), and o in its accumulator type, instead of o_bsgre. They may be the same buffers.
    const Acc<T>*o_before_bsgre = nullptr, *lse_before_bgrs = nullptr;
    Acc<T>* o_sum_bsgre = nullptr;
};

/// A query sees the keys whose positions are not after its own, which is start[b] + i for query i
/// in the natural order (start null: 0), so keys beyond the filled range of the cache cost nothing; of these,
/// those that shape.window, shape.chunk and `extras` let it see. lse is the log-sum-exp of a query's scaled
/// and capped scores, and of its sink; without any, o is 0 and lse -inf. With less scratch than
/// attention_scratch(), fewer threads compute. The choice of algorithm depends only on types, shapes,
/// addresses, scratch, and on which inputs are null. \pre start[b] + q_len <= kv_len (checked if `start`
/// is null and contracts are on) \throws InternalError if the scratch is too small for one thread
template <class T>
void attention(const Exec& exec, const AttentionShape& shape, const T* q_bsgre, const T* k_btge,
               const T* v_btge, const std::int32_t* start_b, T* o_bsgre, Acc<T>* lse_bgrs, Scratch scratch,
               const AttentionExtras<T>& extras = {});

/// Inputs (from the forward call) and outputs of attention_grad. Sinks count through o and lse only.
template <class T>
struct AttentionGrad {
    const T *dout_bsgre, *q_bsgre, *k_btge, *v_btge, *o_bsgre;
    const Acc<T>* lse_bgrs;
    T *dq_bsgre, *dk_btge, *dv_btge;
    const std::int32_t* starts_bs = nullptr; ///< as in AttentionExtras
    // Of keys in parts, where o and lse are of all: what is added to dq (null: nothing), and the sum instead
    // of dq_bsgre. They may be the same buffer.
    const Acc<T>* dq_before_bsgre = nullptr;
    Acc<T>* dq_sum_bsgre = nullptr;
};

/// The gradient for start = 0. \pre q_len <= kv_len \throws InternalError as attention()
template <class T>
void attention_grad(const Exec& exec, const AttentionShape& shape, const AttentionGrad<T>& args,
                    Scratch scratch);

/// The gradient of the sinks: -exp(sink - lse) times the sum over e of dout * o, summed over the queries of a
/// head.
template <class T>
void attention_grad_sinks(const Exec& exec, const AttentionShape& shape, const T* dout_bsgre,
                          const T* o_bsgre, const Acc<T>* lse_bgrs, const Acc<T>* sinks_gr, Acc<T>* dsinks_gr,
                          bool overwrite);

} // namespace trivium::kernels
