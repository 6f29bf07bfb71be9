#include "kernels/tensor_attention.hpp"

namespace trivium::kernels {

bool tensor_attention(const Exec&, const AttentionShape&, const bf16*, const bf16*, const bf16*,
                      const std::int32_t*, bf16*, float*, const AttentionExtras<bf16>&)
{
    return false;
}

Bytes tensor_attention_grad_scratch(const AttentionShape&) { return 0; }

bool tensor_attention_grad(const Exec&, const AttentionShape&, const AttentionGrad<bf16>&, Scratch)
{
    return false;
}

} // namespace trivium::kernels
