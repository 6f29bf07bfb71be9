#pragma once
// Internal: attention on the tensor cores of a device (device/tensor_attention.cpp), for bf16 and the head
// sizes 32, 64, 96 and 128. host/tensor_attention.cpp has none. attention.cpp asks here first, and else works
// by teams or threads.
//
// The tiles, for head size 64 and 128 (rows: queries of all heads that share a key):
//                        threads  blocks a multiprocessor  a block's own      goes over, a step
//   forward              128      2                        128 rows           64, 64 keys
//   statistics, dq       128      2                        128 rows           64, 32 keys
//   dk and dv            128, 256 2, 1                     128 keys           32, 64 rows
// What a block goes over is copied one step ahead. On an H200 nothing of this has been measured yet.
#include "kernels/attention.hpp"

namespace trivium::kernels {

/// attention() for what it applies to; false, and nothing done, elsewhere. Needs no scratch.
bool tensor_attention(const Exec& exec, const AttentionShape& shape, const bf16* q_bsgre, const bf16* k_btge,
                      const bf16* v_btge, const std::int32_t* start, bf16* o_bsgre, float* lse_bgrs);

/// Scratch for tensor_attention_grad(); 0 where it does not apply.
Bytes tensor_attention_grad_scratch(const AttentionShape& shape);

/// attention_grad() for what it applies to; false, and nothing done, elsewhere.
/// \throws InternalError where the scratch does not do
bool tensor_attention_grad(const Exec& exec, const AttentionShape& shape, const AttentionGrad<bf16>& args,
                           Scratch scratch);

} // namespace trivium::kernels
