#include "multiply.hpp"

#include "base/check.hpp"
#include "kernels/device/stream.hpp"

#include <algorithm>
#include <rocblas/rocblas.h>

namespace trivium::kernels {

namespace {

/// Checks every call of rocBLAS.
void check(rocblas_status status, const char* call)
{
    if (status != rocblas_status_success && status != rocblas_status_size_unchanged &&
        status != rocblas_status_size_increased && status != rocblas_status_perf_degraded)
        throw InternalError(__FILE__, __LINE__,
                            str("rocBLAS: ", call, ": ", rocblas_status_to_string(status)));
}

/// One handle per process, never destroyed: the driver may be unloaded before static objects.
rocblas_handle handle()
{
    static const rocblas_handle made = [] {
        rocblas_handle fresh = nullptr;
        check(rocblas_create_handle(&fresh), "rocblas_create_handle");
        // Sums that are split over k would be added in any order.
        check(rocblas_set_atomics_mode(fresh, rocblas_atomics_not_allowed), "rocblas_set_atomics_mode");
        return fresh;
    }();
    return made;
}

rocblas_datatype type_of(DType type)
{
    return type == DType::f64   ? rocblas_datatype_f64_r
           : type == DType::f32 ? rocblas_datatype_f32_r
                                : rocblas_datatype_bf16_r;
}

/// Row-major C = op(A) op(B) is, in column-major order, C' = op(B)' op(A)': the library's A is our b.
rocblas_status call(const ProductShape& s, const void* a, const void* b, void* c, bool overwrite)
{
    const double one = 1, zero = 0;
    const float one_f = 1, zero_f = 0;
    const bool wide = s.in == DType::f64;
    const void *alpha = wide ? static_cast<const void*>(&one) : &one_f,
               *none = wide ? static_cast<const void*>(&zero) : &zero_f;
    const auto size = [](i64 n) { return static_cast<rocblas_int>(n); };
    return rocblas_gemm_strided_batched_ex(
        handle(), s.transpose_b ? rocblas_operation_transpose : rocblas_operation_none,
        s.transpose_a ? rocblas_operation_transpose : rocblas_operation_none, size(s.n), size(s.m), size(s.k),
        alpha, b, type_of(s.in), size(s.row_of_b()), s.stride_b, a, type_of(s.in), size(s.row_of_a()),
        s.stride_a, overwrite ? none : alpha, c, type_of(s.out), size(s.n), s.stride_c, c, type_of(s.out),
        size(s.n), s.stride_c, size(s.batch), wide ? rocblas_datatype_f64_r : rocblas_datatype_f32_r,
        rocblas_gemm_algo_standard, 0, 0);
}

} // namespace

Bytes multiply_scratch(const ProductShape& shape, Bytes)
{
    std::size_t most = 1; // with none at all the library would allocate
    for (const bool overwrite : {false, true}) {
        std::size_t bytes = 0;
        check(rocblas_start_device_memory_size_query(handle()), "rocblas_start_device_memory_size_query");
        const rocblas_status status = call(shape, nullptr, nullptr, nullptr, overwrite);
        check(rocblas_stop_device_memory_size_query(handle(), &bytes),
              "rocblas_stop_device_memory_size_query");
        check(status, "rocblas_gemm_strided_batched_ex");
        most = std::max(most, bytes);
    }
    return round_up(static_cast<Bytes>(most), 256);
}

void multiply(const Exec& exec, const ProductShape& shape, const void* a, const void* b, void* c,
              bool overwrite, Scratch scratch)
{
    check(rocblas_set_stream(handle(), static_cast<hipStream_t>(stream_of(exec))), "rocblas_set_stream");
    check(rocblas_set_workspace(handle(), scratch.data, static_cast<std::size_t>(scratch.size)),
          "rocblas_set_workspace");
    check(call(shape, a, b, c, overwrite), "rocblas_gemm_strided_batched_ex");
}

} // namespace trivium::kernels
