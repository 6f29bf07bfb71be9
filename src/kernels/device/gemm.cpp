// Products on devices without cuBLASLt: multiply() of a library, or the plain one, with epilogues and FP8
// around it.
#include "kernels/gemm.hpp"

#include "base/check.hpp"
#include "kernels/device/fill.hpp"
#include "kernels/epilogue.hpp"
#include "multiply.hpp"

#include <algorithm>

namespace trivium::kernels {

namespace {

/// Alignment of every address that run() gets, like the arena's offsets.
constexpr Bytes alignment = 256;

} // namespace

// In FP8 the operands are rounded but stored as bf16, which gives the same products as bytes.
struct Product::Impl {
    ProductShape shape;
    Bytes in_a = 0, in_b = 0; ///< in scratch: the rounded operands, after their scaling data
    Bytes workspace = 0;      ///< of multiply(), after them

    bool fp8() const { return shape.fp8_a != Fp8::none; }
    Bytes operands() const { return fp8() ? fp8_scratch + in_a + in_b : 0; }

    void make(Bytes most_scratch)
    {
        if (fp8()) {
            in_a = round_up(shape.m * shape.k * size_of(shape.in), alignment);
            in_b = round_up(shape.k * shape.n * size_of(shape.in), alignment);
        }
        workspace = multiply_scratch(shape, std::max<Bytes>(0, most_scratch - operands()));
    }

    void round_operands(const Exec& exec, const void*& a, const void*& b, Scratch lent) const
    {
        char* const at = static_cast<char*>(lent.data) + fp8_scratch;
        auto *const to_a = reinterpret_cast<bf16*>(at), *const to_b = reinterpret_cast<bf16*>(at + in_a);
        fp8_round(exec, shape.fp8_a, shape.m * shape.k, static_cast<const bf16*>(a), to_a, lent);
        fp8_round(exec, shape.fp8_b, shape.k * shape.n, static_cast<const bf16*>(b), to_b, lent);
        a = to_a;
        b = to_b;
    }
};

Product::Product(const ProductShape& shape, int threads, Bytes most_scratch) : impl_(std::make_unique<Impl>())
{
    check_product(shape, threads);
    impl_->shape = shape;
    if (!shape.empty() && shape.k > 0)
        impl_->make(most_scratch);
}

Product::Product(Product&&) noexcept = default;
Product& Product::operator=(Product&&) noexcept = default;
Product::~Product() = default;

bool Product::take(int algorithm) { return algorithm == 0; }

Bytes Product::scratch_bytes() const { return impl_->operands() + impl_->workspace; }

void Product::run(const Exec& exec, const void* a, const void* b, void* c, bool overwrite, Scratch scratch,
                  const EpilogueOperands& operands) const
{
    const Impl& p = *impl_;
    const ProductShape& shape = p.shape;
    TRV_CHECK(overwrite || shape.epilogue == Epilogue::none, "a product with an epilogue cannot accumulate");
    TRV_CHECK(scratch.size >= scratch_bytes(), "a product of m ", shape.m, ", n ", shape.n, ", k ", shape.k,
              " needs ", scratch_bytes(), " B of scratch and got ", scratch.size);
    if (shape.empty())
        return;
    void* const target = product_target(shape, c, operands);
    if (shape.k == 0) {
        for (i64 i = 0; overwrite && i < shape.batch; ++i)
            fill(exec, static_cast<char*>(target) + i * shape.stride_c * size_of(shape.out), 0,
                 shape.m * shape.n * size_of(shape.out));
    } else {
        if (p.fp8())
            p.round_operands(exec, a, b, scratch);
        multiply(exec, shape, a, b, target, overwrite,
                 {static_cast<char*>(scratch.data) + p.operands(), p.workspace});
    }
    finish_product(exec, shape, c, operands);
}

} // namespace trivium::kernels
