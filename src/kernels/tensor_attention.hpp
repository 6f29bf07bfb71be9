#pragma once
// Internal: attention on the tensor cores of a device (device/cuda/tensor_attention.cpp), for bf16 and the
// head sizes 32, 64, 96 and 128; otherwise no_tensor_attention.cpp. attention.cpp tries this after cuDNN, and
// otherwise uses attention_tiles.hpp.
//
// The tiles, for head sizes 64 and 128 (rows: queries of all heads that share a kv head):
//                        threads   blocks per SM  a block owns  iterates over, per step
//   forward              128       2              128 rows      64, 64 keys
//   dq                   128       2              128 rows      64, 32 keys
//   dk and dv            128, 256  2, 1           128 keys      32, 64 rows
// A block copies the data of the next step during a step. A separate kernel computes the statistics of rows.
#include "kernels/attention.hpp"

namespace trivium::kernels {

/// attention() for supported shapes and addresses aligned to 16 bytes; otherwise returns false without any
/// effect. Needs no scratch.
bool tensor_attention(const Exec& exec, const AttentionShape& shape, const bf16* q_bsgre, const bf16* k_btge,
                      const bf16* v_btge, const std::int32_t* start_b, bf16* o_bsgre, float* lse_bgrs,
                      const AttentionExtras<bf16>& extras = {});

/// Bytes of scratch of tensor_attention_grad(); 0 for unsupported shapes.
Bytes tensor_attention_grad_scratch(const AttentionShape& shape);

/// attention_grad() for supported shapes and addresses aligned to 16 bytes; otherwise returns false without
/// any effect. \throws InternalError if the scratch is too small
bool tensor_attention_grad(const Exec& exec, const AttentionShape& shape, const AttentionGrad<bf16>& args,
                           Scratch scratch);

} // namespace trivium::kernels
