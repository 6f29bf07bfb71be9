#pragma once
// Internal: attention with cuDNN (device/cuda/cudnn_attention.cpp), if the build has it; otherwise
// no_cudnn_attention.cpp. attention.cpp tries this first.
//
// It applies to bf16 with head sizes up to 128 that are multiples of 8, as many keys as queries, a multiple
// of 128, and addresses aligned to 16 bytes, on GPUs from sm_80; with a window, but without chunks, caps,
// documents and sinks. The first call with a shape and a size of scratch makes a cuDNN plan, which takes
// about a second and must not be captured into a graph. Later calls only enqueue kernels. Calls on different
// threads run one at a time.
//
// The deterministic gradient stores dP [batch, heads, q_len, kv_len] in bf16 in its workspace. If the scratch
// is too small for the whole batch, a call runs the plan several times, each for some samples or for some kv
// heads of one sample. Bytes of a run with `heads` query heads, r per kv head:
//   2 * heads * q_len * kv_len, plus 4 * heads * kv_len * head_dim if r > 1, plus about 1/400.
#include "kernels/attention.hpp"

namespace trivium::kernels {

/// attention() for start = 0, without extras. Returns false without any effect if cuDNN does not apply or the
/// scratch is too small. \throws IoError if cuDNN fails
bool cudnn_attention(const Exec& exec, const AttentionShape& shape, const bf16* q_bsgre, const bf16* k_btge,
                     const bf16* v_btge, bf16* o_bsgre, float* lse_bgrs, Scratch scratch);

/// attention_grad() without documents. Returns false without any effect if cuDNN does not apply or the
/// scratch is too small. \throws IoError if cuDNN fails
bool cudnn_attention_grad(const Exec& exec, const AttentionShape& shape, const AttentionGrad<bf16>& args,
                          Scratch scratch);

} // namespace trivium::kernels
