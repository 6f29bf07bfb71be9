#include "kernels/tensor_attention.hpp"

#include "base/check.hpp"
#include "check.hpp"
#include "kernels/device/aligned.hpp"
#include "kernels/device/stream.hpp"
#include "mma.hpp"
#include "tensor_attention_backward.hpp"

#include <type_traits>

namespace trivium::kernels {

namespace {

cudaStream_t native_stream(const Exec& exec) { return static_cast<cudaStream_t>(stream_of(exec)); }

template <class Form, bool Options>
__global__ void __launch_bounds__(Form::threads, Form::blocks) forward_kernel(const ForwardCall call)
{
    CudaBlock block;
    attention_forward<Form, Options>(block, call);
}

template <int Dim>
__global__ void __launch_bounds__(statistics_threads) statistics_kernel(const BackwardCall call)
{
    CudaBlock block;
    row_statistics<Dim>(block, call);
}

template <class Form, bool Options>
__global__ void __launch_bounds__(Form::threads, Form::blocks) key_gradient_kernel(const BackwardCall call)
{
    CudaBlock block;
    key_gradient<Form, Options>(block, call);
}

template <class Form, bool Options>
__global__ void __launch_bounds__(Form::threads, Form::blocks) query_gradient_kernel(const BackwardCall call)
{
    CudaBlock block;
    query_gradient<Form, Options>(block, call);
}

/// Allows `bytes` of shared memory per block of a kernel.
template <class Kernel>
bool allow_shared(Kernel kernel, u32 bytes)
{
    check_cuda(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
        "cudaFuncSetAttribute(MaxDynamicSharedMemorySize)");
    check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                    cudaSharedmemCarveoutMaxShared),
               "cudaFuncSetAttribute(PreferredSharedMemoryCarveout)");
    return true;
}

template <int Dim, bool Options>
void run_forward(cudaStream_t stream, const ForwardCall& call)
{
    using Form = ForwardForm<Dim>;
    static const bool allowed = allow_shared(forward_kernel<Form, Options>, Form::shared_bytes);
    if (allowed)
        forward_kernel<Form, Options>
            <<<call.shape.groups * call.row_blocks, Form::threads, Form::shared_bytes, stream>>>(call);
    check_cuda(cudaGetLastError(), "attention");
}

template <int Dim, bool Options>
void run_backward(cudaStream_t stream, BackwardCall call)
{
    using KeyForm = KeyGradientForm<Dim>;
    using QueryForm = QueryGradientForm<Dim>;
    static const bool allowed =
        allow_shared(key_gradient_kernel<KeyForm, Options>, KeyForm::shared_bytes) &&
        allow_shared(query_gradient_kernel<QueryForm, Options>, QueryForm::shared_bytes);
    const u32 groups = call.shape.groups;
    call.row_blocks = static_cast<u32>(ceil_div(call.shape.rows, QueryForm::rows));
    call.key_blocks = static_cast<u32>(ceil_div(call.shape.kv_len, KeyForm::rows));
    if (allowed && call.shape.rows > 0) {
        statistics_kernel<Dim>
            <<<groups*(call.shape.padded_rows / statistics_block), statistics_threads, 0, stream>>>(call);
        check_cuda(cudaGetLastError(), "attention_grad, statistics");
        query_gradient_kernel<QueryForm, Options>
            <<<groups * call.row_blocks, QueryForm::threads, QueryForm::shared_bytes, stream>>>(call);
        check_cuda(cudaGetLastError(), "attention_grad, queries");
    }
    key_gradient_kernel<KeyForm, Options>
        <<<groups * call.key_blocks, KeyForm::threads, KeyForm::shared_bytes, stream>>>(call);
    check_cuda(cudaGetLastError(), "attention_grad, keys");
}

/// Calls f with the head size as a constant; returns false if no kernel exists for it.
template <class F>
bool with_dim(i64 dim, F f)
{
    switch (dim) {
    case 32: f(std::integral_constant<int, 32>()); return true;
    case 64: f(std::integral_constant<int, 64>()); return true;
    case 96: f(std::integral_constant<int, 96>()); return true;
    case 128: f(std::integral_constant<int, 128>()); return true;
    default: return false;
    }
}

bool applies(const AttentionShape& shape)
{
    return with_dim(shape.head_dim, [](auto) {}) && shape.scale >= 0 && fits_tensor_attention(shape);
}

} // namespace

bool tensor_attention(const Exec& exec, const AttentionShape& shape, const bf16* q_bsgre, const bf16* k_btge,
                      const bf16* v_btge, const std::int32_t* start_b, bf16* o_bsgre, float* lse_bgrs,
                      const AttentionExtras<bf16>& extras)
{
    if (!applies(shape) || !aligned(q_bsgre, k_btge, v_btge, o_bsgre))
        return false;
    ForwardCall call{TensorShape(shape),          q_bsgre, k_btge, v_btge, start_b, o_bsgre, lse_bgrs, 0,
                     TensorOptions(shape, extras)};
    if (call.shape.rows == 0 || call.shape.groups == 0)
        return true;
    return with_dim(shape.head_dim, [&](auto dim) {
        call.row_blocks = static_cast<u32>(ceil_div(call.shape.rows, ForwardForm<dim()>::rows));
        const auto run = call.options.any ? run_forward<dim(), true> : run_forward<dim(), false>;
        run(native_stream(exec), call);
    });
}

Bytes tensor_attention_grad_scratch(const AttentionShape& shape)
{
    return applies(shape)
               ? shape.batch * shape.kv_heads * round_up(shape.q_len * shape.q_per_kv, statistics_rows) * 8
               : 0;
}

bool tensor_attention_grad(const Exec& exec, const AttentionShape& shape, const AttentionGrad<bf16>& args,
                           Scratch scratch)
{
    if (!applies(shape) || !aligned(args.dout_bsgre, args.q_bsgre, args.k_btge, args.v_btge, args.o_bsgre,
                                    args.dq_bsgre, args.dk_btge, args.dv_btge, scratch.data))
        return false;
    const Bytes needed = tensor_attention_grad_scratch(shape);
    TRV_CHECK(scratch.size >= needed, "attention_grad needs ", needed, " B of scratch and got ",
              scratch.size);
    const BackwardCall call{TensorShape(shape),
                            args,
                            static_cast<float*>(scratch.data),
                            0,
                            0,
                            TensorOptions(shape, {args.starts_bs, nullptr})};
    if (call.shape.kv_len == 0 || call.shape.groups == 0)
        return true;
    return with_dim(shape.head_dim, [&](auto dim) {
        const auto run = call.options.any ? run_backward<dim(), true> : run_backward<dim(), false>;
        run(native_stream(exec), call);
    });
}

} // namespace trivium::kernels
