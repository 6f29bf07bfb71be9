// Products on a device: cuBLAS. It uses a workspace of its own so far, none of the scratch that it is lent.
#include "kernels/gemm.hpp"

#include "row_parallel.hpp"

#include <cublas_v2.h>

namespace trivium::kernels {

namespace {

/// The one check for calls of cuBLAS.
void check(cublasStatus_t status, const char* call)
{
    if (status != CUBLAS_STATUS_SUCCESS)
        throw InternalError(__FILE__, __LINE__, str(call, ": ", cublasGetStatusString(status)));
}

/// One per process, kept to its end: making one is slow, and the driver may be gone before static objects are.
cublasHandle_t handle()
{
    static const cublasHandle_t made = [] {
        cublasHandle_t fresh = nullptr;
        check(cublasCreate(&fresh), "cublasCreate");
        return fresh;
    }();
    return made;
}

cudaDataType_t type_of(DType type)
{
    return type == DType::f64 ? CUDA_R_64F : type == DType::f32 ? CUDA_R_32F : CUDA_R_16BF;
}

cublasOperation_t operation(bool transposed) { return transposed ? CUBLAS_OP_T : CUBLAS_OP_N; }

} // namespace

struct Product::Impl {
    ProductShape shape;
};

Product::Product(const ProductShape& shape, int threads) : impl_(std::make_unique<Impl>(Impl{shape}))
{
    TRV_CHECK(threads >= 1 && shape.m >= 0 && shape.n >= 0 && shape.k >= 0 && shape.batch >= 0, "m ", shape.m, ", n ",
              shape.n, ", k ", shape.k, ", batch ", shape.batch, ", threads ", threads);
    TRV_CHECK(shape.out == shape.in || (shape.in == DType::bf16 && shape.out == DType::f32),
              "no product with these types");
}

Product::Product(Product&&) noexcept = default;
Product& Product::operator=(Product&&) noexcept = default;
Product::~Product() = default;

Bytes Product::scratch_bytes() const { return 0; }

const ProductShape& Product::shape() const { return impl_->shape; }

void Product::run(const Exec& exec, const void* a, const void* b, void* c, bool overwrite, Scratch) const
{
    const ProductShape& s = impl_->shape;
    if (s.m * s.n * s.batch == 0)
        return;
    const bool wide = s.in == DType::f64;
    const double one = 1, zero = 0;
    const float one_f = 1, zero_f = 0;
    const void* alpha = wide ? static_cast<const void*>(&one) : &one_f;
    const void* nought = wide ? static_cast<const void*>(&zero) : &zero_f;
    const auto at_least_1 = [](i64 rows) { return std::max<i64>(1, rows); };
    check(cublasSetStream(handle(), space_of(exec).cuda_stream()), "cublasSetStream");
    // cuBLAS counts columns first: row-major C = op(A) op(B) is its C^T = op(B)^T op(A)^T.
    check(cublasGemmStridedBatchedEx_64(handle(), operation(s.transpose_b), operation(s.transpose_a), s.n, s.m, s.k,
                                        alpha, b, type_of(s.in), at_least_1(s.transpose_b ? s.k : s.n), s.stride_b, a,
                                        type_of(s.in), at_least_1(s.transpose_a ? s.m : s.k), s.stride_a,
                                        overwrite ? nought : alpha, c, type_of(s.out), s.n, s.stride_c, s.batch,
                                        wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
          "cublasGemmStridedBatchedEx");
}

Bytes product_scratch(const ProductShape& shape, int threads) { return Product(shape, threads).scratch_bytes(); }

} // namespace trivium::kernels
