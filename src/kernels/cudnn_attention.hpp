#pragma once
// Internal: attention by cuDNN (device/cudnn_attention.cpp), where the build has it; no_cudnn_attention.cpp
// has none. attention.cpp asks here first.
//
// It applies to bf16 with head sizes up to 128 that are multiples of 8, as many keys as queries, a multiple
// of 128, on GPUs from sm_80. A plan of cuDNN is made once per shape, on the first call, which takes about a
// second and must not be captured into a graph; from then on a call only enqueues kernels.
//
// The deterministic gradient keeps dP [batch, heads, q_len, kv_len] in bf16 in its workspace. Where the
// scratch does not do for the whole batch it goes by parts: some samples, or some kv heads of one. Bytes of a
// part, with r queries a key:
//   2 * heads * q_len * kv_len, and where r > 1 also 4 * heads * kv_len * head_dim; about 1/400 more.
#include "kernels/attention.hpp"

namespace trivium::kernels {

/// attention() for start = 0; false, and nothing done, where it does not apply or the scratch does not do.
/// \throws IoError where cuDNN fails
bool cudnn_attention(const Exec& exec, const AttentionShape& shape, const bf16* q_bsgre, const bf16* k_btge,
                     const bf16* v_btge, bf16* o_bsgre, float* lse_bgrs, Scratch scratch);

/// attention_grad(); false, and nothing done, where it does not apply or the scratch does not do.
/// \throws IoError where cuDNN fails
bool cudnn_attention_grad(const Exec& exec, const AttentionShape& shape, const AttentionGrad<bf16>& args,
                          Scratch scratch);

} // namespace trivium::kernels
