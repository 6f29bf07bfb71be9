#pragma once
// Matrix products C (+)= op(A) · op(B), all row-major, with optional epilogues.
#include "kernels/exec.hpp"
#include "kernels/fp8.hpp"

#include <memory>

namespace trivium::kernels {

/// Epilogue of a product P = op(A) · op(B); gelu as in elementwise.hpp. The gradient of a bias is not an
/// epilogue: it accumulates over microbatches in f32, but libraries would overwrite it in C's type.
enum class Epilogue {
    none,
    bias,      ///< C = P + bias_n on every row
    bias_gelu, ///< pre = P + bias_n, C = gelu(pre)
    gelu_grad, ///< C = P * gelu'(pre)
    add,       ///< C = P + D, with D in the place of pre
};

/// Further operands of an epilogue, of C's type. bias_gelu writes pre_mn, gelu_grad and add read it.
struct EpilogueOperands {
    const void* bias_n = nullptr;
    void* pre_mn = nullptr;
};

/// op(A) is [m, k] (stored as [k, m] if transpose_a), op(B) is [k, n] (stored as [n, k] if transpose_b), C is
/// [m, n]. A batch repeats the product `batch` times with the given strides in elements; a stride of 0 for A
/// or B means that all products share that operand.
struct ProductShape {
    i64 m = 0, n = 0, k = 0;
    bool transpose_a = false, transpose_b = false;
    DType in = DType::f32;  ///< type of A and B
    DType out = DType::f32; ///< `in`, or f32 for bf16 inputs
    i64 batch = 1;
    i64 stride_a = 0, stride_b = 0, stride_c = 0;
    /// Elements between the stored rows of A and B, which may be columns of a wider matrix; 0: dense. Strides
    /// require batch 1 and no FP8.
    i64 row_a = 0, row_b = 0;
    Epilogue epilogue = Epilogue::none; ///< other than none requires batch 1 and out = in
    /// FP8 formats to which A and B (bf16) are rounded before multiplying; both or neither; requires batch 1.
    Fp8 fp8_a = Fp8::none, fp8_b = Fp8::none;

    auto operator<=>(const ProductShape&) const = default;
    bool empty() const { return m * n * batch == 0; }
    i64 row_of_a() const { return row_a > 0 ? row_a : transpose_a ? m : k; }
    i64 row_of_b() const { return row_b > 0 ? row_b : transpose_b ? k : n; }
};

/// Default limit of a product's scratch.
inline constexpr Bytes usual_product_scratch = Bytes{32} << 20;

/// A prepared product. Preparing is slow (it compiles code) and belongs in start-up; run() is fast. m, n or k
/// may be 0 (k = 0 zeroes C, or leaves it unchanged when accumulating).
class Product {
public:
    /// Chooses an implementation within `most_scratch`: fewer threads on the host, another algorithm on a
    /// device. If none fits, scratch_bytes() is the minimum; only cuBLASLt throws InternalError instead.
    /// \throws InternalError for an unsupported shape or combination of types
    explicit Product(const ProductShape& shape, int threads = 1, Bytes most_scratch = usual_product_scratch);
    Product(Product&&) noexcept;
    Product& operator=(Product&&) noexcept;
    ~Product();

    /// c = op(a)·op(b), or c += op(a)·op(b) if not `overwrite`; an epilogue requires `overwrite`. Tensors
    /// must not overlap. Uses the number of threads of the constructor, not exec.threads. Not thread-safe. On
    /// a device all addresses must be aligned to 256 bytes, those of operands with a row stride to 16.
    /// \throws InternalError if scratch.size < scratch_bytes() or cuBLASLt gets a misaligned address
    void run(const Exec& exec, const void* a, const void* b, void* c, bool overwrite, Scratch scratch,
             const EpilogueOperands& operands = {}) const;

    /// Switches to another of the library's algorithms within the constructor's `most_scratch`, which may
    /// change scratch_bytes(). Algorithm 0 is the constructor's choice, the library's best guess. Returns
    /// false, without effect, if there is no algorithm with this number.
    bool take(int algorithm);

    /// oneDNN 2.6 needs at most 1.64 MiB per thread (m, n, k up to 128256). double, and all types on
    /// processors without AVX-512, need at most 248 KiB per thread.
    Bytes scratch_bytes() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace trivium::kernels
