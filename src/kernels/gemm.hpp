#pragma once
// Matrix products: C (+)= op(A) · op(B), all row-major and contiguous, and what may follow one before it is
// stored.
#include "kernels/exec.hpp"
#include "kernels/fp8.hpp"

#include <memory>

namespace trivium::kernels {

/// What becomes of a product P = op(A) · op(B) before it is stored; gelu is the one of elementwise.hpp.
/// A bias's own gradient is no epilogue: it is summed over microbatches in f32, and libraries overwrite it in
/// C's type.
enum class Epilogue {
    none,
    bias,      ///< C = P + bias_n on every row
    bias_gelu, ///< pre = P + bias_n, C = gelu(pre)
    gelu_grad, ///< C = P * gelu'(pre)
};

/// The further operands of an epilogue, of C's type; pre_mn is written by bias_gelu, read by gelu_grad.
struct EpilogueOperands {
    const void* bias_n = nullptr;
    void* pre_mn = nullptr;
};

/// op(A) is [m, k] (stored [k, m] where transpose_a), op(B) is [k, n] (stored [n, k] where transpose_b),
/// C is [m, n]. A batch repeats this `batch` times with the given distances in elements;
/// a distance of 0 for A or B means that all products share it.
struct ProductShape {
    i64 m = 0, n = 0, k = 0;
    bool transpose_a = false, transpose_b = false;
    DType in = DType::f32;  ///< of A and B
    DType out = DType::f32; ///< `in`, or f32 for bf16 inputs
    i64 batch = 1;
    i64 stride_a = 0, stride_b = 0, stride_c = 0;
    Epilogue epilogue = Epilogue::none; ///< others want batch 1 and out = in
    /// Formats to which A and B, of bf16, are rounded before they are multiplied; both or none, and batch 1.
    Fp8 fp8_a = Fp8::none, fp8_b = Fp8::none;
};

/// The scratch that a product may take where nobody says how much.
inline constexpr Bytes usual_product_scratch = Bytes{32} << 20;

/// Scratch that run() needs with that many threads. Makes the product to find out: not for hot paths.
/// oneDNN 2.6 asks for at most 1.64 MiB a thread (m, n up to 128256, k up to 128256); double, and bf16 on
/// processors for which oneDNN has no such products, take up to 0.22 MiB.
Bytes product_scratch(const ProductShape& shape, int threads);

/// A product made ready. Making one is slow (it compiles code) and belongs to start-up; run() is lean.
/// m, n or k of 0 is allowed (k = 0 zeroes C, or leaves it where accumulating).
class Product {
public:
    /// Chooses the way to compute it that `most_scratch` allows: fewer threads on the host, another algorithm
    /// on a device. Where nothing is little enough, scratch_bytes() says what is needed at least. \throws
    /// InternalError for a combination of types that is not stated above
    explicit Product(const ProductShape& shape, int threads = 1, Bytes most_scratch = usual_product_scratch);
    Product(Product&&) noexcept;
    Product& operator=(Product&&) noexcept;
    ~Product();

    /// c = op(a)·op(b), or c += where not `overwrite`; with an epilogue always overwrites. No two tensors
    /// overlap. Runs on the threads that it was made for, whatever exec.threads says; not on two threads at a
    /// time. On a device all addresses must be aligned to 256 bytes. \throws InternalError where scratch.size
    /// < scratch_bytes()
    void run(const Exec& exec, const void* a, const void* b, void* c, bool overwrite, Scratch scratch,
             const EpilogueOperands& beside = {}) const;

    Bytes scratch_bytes() const;
    const ProductShape& shape() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace trivium::kernels
