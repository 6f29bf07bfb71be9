// Products on the host: oneDNN for f32 and bf16 with AVX-512; tiled_product for double, and on other
// processors.
#include "kernels/gemm.hpp"

#include "base/check.hpp"
#include "dnnl_calls.hpp"
#include "kernels/epilogue.hpp"
#include "kernels/host/kernel_scope.hpp"
#include "tiled_product.hpp"

#include <array>
#include <cstring>

namespace trivium::kernels {

namespace {

/// [batch, rows, columns], each matrix row-major, or column-major if `transposed`; `apart`: elements between
/// its stored rows.
dnnl::memory::desc matrix(DType type, i64 batch, i64 stride, i64 rows, i64 columns, bool transposed,
                          i64 apart)
{
    const i64 row = transposed ? 1 : apart, column = transposed ? apart : 1;
    if (batch == 1)
        return {{rows, columns}, dnnl_type(type), dnnl::memory::dims{row, column}};
    // A shared operand broadcasts: its batch is 1.
    return {{stride == 0 ? 1 : batch, rows, columns},
            dnnl_type(type),
            dnnl::memory::dims{stride == 0 ? rows * columns : stride, row, column}};
}

/// Whether the number of threads leaves the order of sums alone (but for stable_threads()). oneDNN's kernels
/// for AVX2 add in another order at the edges of a partition.
bool partitions_keep_bits()
{
    const auto bits = [](dnnl::cpu_isa isa) { return static_cast<unsigned>(isa); }; // of sets of instructions
    const unsigned wide = bits(dnnl::cpu_isa::avx512_core);
    return (bits(dnnl::get_effective_cpu_isa()) & wide) == wide;
}

/// Maximum threads that do not change the order of sums. If A is transposed, k is long and n has few blocks
/// of 64, oneDNN splits the sum over k among threads beyond the blocks of n, and the result depends on their
/// number.
int stable_threads(const ProductShape& shape, int threads)
{
    if (!shape.transpose_a || shape.k <= 1024)
        return threads;
    return static_cast<int>(std::min<i64>(threads, ceil_div(shape.n, 64)));
}

/// A batch with shared B and dense A and C is one taller product.
ProductShape folded(ProductShape shape)
{
    if (shape.batch > 1 && shape.stride_b == 0 && !shape.transpose_a && shape.stride_a == shape.m * shape.k &&
        shape.stride_c == shape.m * shape.n) {
        shape.m *= shape.batch;
        shape.batch = 1;
    }
    return shape;
}

} // namespace

struct Product::Impl {
    ProductShape shape;
    int threads = 1;
    bool tiled = false; ///< by tiled_product
    Bytes scratch = 0;
    Bytes rounded_a = 0, rounded_b = 0; ///< in scratch: the operands rounded to FP8, stored as bf16
    dnnl::memory::desc a, b, c;
    std::array<dnnl::matmul, 2> primitive;             // [overwrite]
    std::array<dnnl::memory::desc, 2> scratchpad_desc; // [overwrite]

    /// Returns false if oneDNN does not support the product on this processor, with stable bits.
    bool make()
    {
        if (shape.in == DType::f64 || !partitions_keep_bits())
            return false;
        a = matrix(shape.in, shape.batch, shape.stride_a, shape.m, shape.k, shape.transpose_a,
                   shape.row_of_a());
        b = matrix(shape.in, shape.batch, shape.stride_b, shape.k, shape.n, shape.transpose_b,
                   shape.row_of_b());
        c = matrix(shape.out, shape.batch, shape.stride_c, shape.m, shape.n, false, shape.n);
        const int stable = stable_threads(shape, threads);
        const ThreadScope scope(stable);
        for (const bool overwrite : {false, true}) {
            dnnl::primitive_attr attributes;
            attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
            if (!overwrite) {
                dnnl::post_ops after;
                after.append_sum(1.0f);
                attributes.set_post_ops(after);
            }
            const dnnl::matmul::primitive_desc desc({a, b, c}, attributes, dnnl_engine(), true);
            if (!desc)
                return false;
            primitive[overwrite] = dnnl::matmul(desc);
            scratchpad_desc[overwrite] = desc.scratchpad_desc();
            scratch = std::max(scratch, static_cast<Bytes>(scratchpad_desc[overwrite].get_size()));
        }
        threads = stable;
        return true;
    }

    void multiply(const void* from_a, const void* from_b, void* to, bool overwrite, Scratch lent) const
    {
        if (shape.k == 0) {
            for (i64 i = 0; overwrite && i < shape.batch; ++i)
                std::memset(static_cast<char*>(to) + i * shape.stride_c * size_of(shape.out), 0,
                            static_cast<std::size_t>(shape.m * shape.n * size_of(shape.out)));
            return;
        }
        if (tiled)
            return tiled_product({.threads = threads}, shape, from_a, from_b, to, overwrite, lent);
        checked_dnnl("running a product", [&] {
            const KernelScope shown("product", omp_in_parallel() == 0);
            const ThreadScope scope(threads);
            dnnl::stream stream(dnnl_engine());
            const auto memory = [&](const dnnl::memory::desc& desc, const void* data) {
                return dnnl::memory(desc, dnnl_engine(), const_cast<void*>(data));
            };
            primitive[overwrite].execute(
                stream, {{DNNL_ARG_SRC, memory(a, from_a)},
                         {DNNL_ARG_WEIGHTS, memory(b, from_b)},
                         {DNNL_ARG_DST, memory(c, to)},
                         {DNNL_ARG_SCRATCHPAD, memory(scratchpad_desc[overwrite], lent.data)}});
            stream.wait();
        });
    }
};

Product::Product(const ProductShape& shape, int threads, Bytes most_scratch)
{
    check_product(shape, threads);
    for (bool fits = false; !fits && threads >= 1; threads /= 2) {
        impl_ = std::make_unique<Impl>();
        impl_->shape = folded(shape);
        impl_->threads = threads;
        if (impl_->shape.empty() || impl_->shape.k == 0)
            return;
        impl_->tiled = !checked_dnnl("making a product", [&] { return impl_->make(); });
        if (impl_->tiled)
            impl_->scratch = tiled_product_scratch(impl_->shape, impl_->threads);
        if (shape.fp8_a != Fp8::none) {
            impl_->rounded_a = round_up(shape.m * shape.k * size_of(shape.in), 64);
            impl_->rounded_b = round_up(shape.k * shape.n * size_of(shape.in), 64);
            impl_->scratch += impl_->rounded_a + impl_->rounded_b;
        }
        fits = impl_->scratch <= most_scratch;
    }
}

Product::Product(Product&&) noexcept = default;
Product& Product::operator=(Product&&) noexcept = default;
Product::~Product() = default;

bool Product::take(int algorithm) { return algorithm == 0; }

Bytes Product::scratch_bytes() const { return impl_->scratch; }

void Product::run(const Exec& exec, const void* a, const void* b, void* c, bool overwrite, Scratch scratch,
                  const EpilogueOperands& operands) const
{
    const ProductShape& shape = impl_->shape;
    TRV_CHECK(overwrite || shape.epilogue == Epilogue::none, "a product with an epilogue cannot accumulate");
    TRV_CHECK(scratch.size >= impl_->scratch, "a product of m ", shape.m, ", n ", shape.n, ", k ", shape.k,
              " needs ", impl_->scratch, " B of scratch and got ", scratch.size);
    if (impl_->shape.empty())
        return;
    if (impl_->rounded_a > 0) {
        char* const at = static_cast<char*>(scratch.data);
        auto *rounded_a = reinterpret_cast<bf16*>(at),
             *rounded_b = reinterpret_cast<bf16*>(at + impl_->rounded_a);
        fp8_round(exec, shape.fp8_a, shape.m * shape.k, static_cast<const bf16*>(a), rounded_a, {});
        fp8_round(exec, shape.fp8_b, shape.k * shape.n, static_cast<const bf16*>(b), rounded_b, {});
        a = rounded_a;
        b = rounded_b;
        const Bytes taken = impl_->rounded_a + impl_->rounded_b;
        scratch = {at + taken, scratch.size - taken};
    }
    impl_->multiply(a, b, product_target(shape, c, operands), overwrite, scratch);
    finish_product(exec, shape, c, operands);
}

} // namespace trivium::kernels
