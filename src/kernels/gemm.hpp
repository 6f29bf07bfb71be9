#pragma once
// Matrix products: C (+)= op(A) · op(B), all row-major and contiguous.
#include "kernels/exec.hpp"

#include <memory>

namespace trivium::kernels {

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
};

/// Scratch that run() needs with that many threads. Makes the product to find out: not for hot paths.
/// oneDNN 2.6 asks for at most 1.64 MiB a thread (m, n up to 128256, k up to 128256); double takes 0.22 MiB.
Bytes product_scratch(const ProductShape& shape, int threads);

/// A product made ready. Making one is slow (it compiles code) and belongs to start-up; run() is lean.
/// m, n or k of 0 is allowed (k = 0 zeroes C, or leaves it where accumulating).
class Product {
public:
    /// \throws InternalError for a combination of types that is not stated above
    explicit Product(const ProductShape& shape, int threads = 1);
    Product(Product&&) noexcept;
    Product& operator=(Product&&) noexcept;
    ~Product();

    /// c = op(a)·op(b), or c += where not `overwrite`. a, b, c do not overlap.
    /// Runs on the threads that it was made for, whatever exec.threads says.
    /// \throws InternalError where scratch.size < scratch_bytes()
    void run(const Exec& exec, const void* a, const void* b, void* c, bool overwrite, Scratch scratch) const;

    Bytes scratch_bytes() const;
    const ProductShape& shape() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace trivium::kernels
