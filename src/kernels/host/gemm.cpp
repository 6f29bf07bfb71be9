// Products on the host: oneDNN for f32 and bf16; tiled_product for double, and for bf16 on old processors.
#include "kernels/gemm.hpp"

#include "base/check.hpp"
#include "dnnl_calls.hpp"
#include "kernels/epilogue.hpp"
#include "kernels/host/kernel_scope.hpp"
#include "row_parallel.hpp"
#include "tiled_product.hpp"

#include <array>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>

namespace trivium::kernels {

namespace {

/// Whether oneDNN's partition among threads leaves the order of sums alone (but for stable_threads()). Its
/// kernels for AVX2 add in another order at the edges of a partition.
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

namespace products {

/// A part of a row-major matrix, or of a column-major one if `transposed`: [batch, rows, columns].
struct Matrix {
    i64 rows, columns; ///< of the whole matrix
    bool transposed;
    DType type;
    i64 batch, stride;

    i64 row() const { return transposed ? 1 : columns; }
    i64 column() const { return transposed ? rows : 1; }
    dnnl::memory::desc part(i64 part_rows, i64 part_columns) const
    {
        if (batch == 1)
            return {{part_rows, part_columns}, dnnl_type(type), dnnl::memory::dims{row(), column()}};
        // A shared operand broadcasts: its batch is 1.
        return {{stride == 0 ? 1 : batch, part_rows, part_columns},
                dnnl_type(type),
                dnnl::memory::dims{stride == 0 ? rows * columns : stride, row(), column()}};
    }
    Bytes offset(i64 at_row, i64 at_column, i64 index) const
    {
        return (at_row * row() + at_column * column() + index * stride) * size_of(type);
    }
};

/// Parts of a product along its rows or columns, which depend on its size alone: each is a product by one
/// thread.
struct Parts {
    bool of_rows = true;
    i64 size = 0, count = 1;

    explicit Parts(const ProductShape& shape) : of_rows(shape.m >= shape.n)
    {
        const i64 extent = of_rows ? shape.m : shape.n;
        size = std::max<i64>(128, round_up(ceil_div(extent, 16), 64));
        count = ceil_div(extent, size);
    }
};

/// oneDNN's product of one size, overwriting or adding.
struct Primitive {
    dnnl::memory::desc a, b, c;
    std::array<dnnl::matmul, 2> matmul;                // [overwrite]
    std::array<dnnl::memory::desc, 2> scratchpad_desc; // [overwrite]

    /// Returns false if oneDNN does not support the product on this processor.
    bool make()
    {
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
            matmul[overwrite] = dnnl::matmul(desc);
            scratchpad_desc[overwrite] = desc.scratchpad_desc();
        }
        return true;
    }
    Bytes scratch() const
    {
        return static_cast<Bytes>(std::max(scratchpad_desc[0].get_size(), scratchpad_desc[1].get_size()));
    }
    void run(const void* from_a, const void* from_b, void* to, bool overwrite, void* scratch) const
    {
        dnnl::stream stream(dnnl_engine());
        const auto memory = [&](const dnnl::memory::desc& desc, const void* data) {
            return dnnl::memory(desc, dnnl_engine(), const_cast<void*>(data));
        };
        matmul[overwrite].execute(stream,
                                  {{DNNL_ARG_SRC, memory(a, from_a)},
                                   {DNNL_ARG_WEIGHTS, memory(b, from_b)},
                                   {DNNL_ARG_DST, memory(c, to)},
                                   {DNNL_ARG_SCRATCHPAD, memory(scratchpad_desc[overwrite], scratch)}});
        stream.wait();
    }
};

} // namespace products

struct Product::Impl {
    ProductShape asked, shape;
    int threads = 1;
    bool tiled = false; ///< by tiled_product
    Bytes scratch = 0;
    Bytes rounded_a = 0, rounded_b = 0;   ///< in scratch: the operands rounded to FP8, stored as bf16
    std::optional<products::Parts> parts; ///< otherwise oneDNN's own threads
    products::Primitive whole, last;      ///< of a part, and of the last one; or `whole` of all
    Bytes each = 0;                       ///< scratch of a worker on parts

    bool empty() const { return shape.m * shape.n * shape.batch == 0; }

    products::Matrix matrix_a(bool batched) const
    {
        return {shape.m, shape.k, shape.transpose_a, shape.in, batched ? shape.batch : 1, shape.stride_a};
    }
    products::Matrix matrix_b(bool batched) const
    {
        return {shape.k, shape.n, shape.transpose_b, shape.in, batched ? shape.batch : 1, shape.stride_b};
    }
    products::Matrix matrix_c(bool batched) const
    {
        return {shape.m, shape.n, false, shape.out, batched ? shape.batch : 1, shape.stride_c};
    }

    /// Makes the product of `rows` x `columns` results.
    bool make(products::Primitive& primitive, i64 rows, i64 columns, bool batched) const
    {
        primitive.a = matrix_a(batched).part(rows, shape.k);
        primitive.b = matrix_b(batched).part(shape.k, columns);
        primitive.c = matrix_c(batched).part(rows, columns);
        return primitive.make();
    }

    /// Returns false if oneDNN does not support the product on this processor.
    bool make()
    {
        if (partitions_keep_bits()) {
            threads = stable_threads(shape, threads);
            const ThreadScope scope(threads);
            if (!make(whole, shape.m, shape.n, true))
                return false;
            scratch = whole.scratch();
            return true;
        }
        const ThreadScope scope(1);
        parts.emplace(shape);
        const auto make_part = [&](products::Primitive& primitive, i64 size) {
            return make(primitive, parts->of_rows ? size : shape.m, parts->of_rows ? shape.n : size, false);
        };
        const i64 extent = parts->of_rows ? shape.m : shape.n;
        if (!make_part(last, extent - (parts->count - 1) * parts->size) ||
            (parts->count > 1 && !make_part(whole, parts->size)))
            return false;
        each = round_up(std::max(last.scratch(), parts->count > 1 ? whole.scratch() : 0), 64);
        threads = static_cast<int>(std::min<i64>(threads, tasks()));
        scratch = each * threads;
        return true;
    }
    i64 tasks() const { return shape.batch * parts->count; }

    void multiply_part(const void* from_a, const void* from_b, void* to, bool overwrite, i64 task,
                       char* lent) const
    {
        const i64 index = task / parts->count, part = task % parts->count;
        const i64 row = parts->of_rows ? part * parts->size : 0,
                  column = parts->of_rows ? 0 : part * parts->size;
        (part + 1 < parts->count ? whole : last)
            .run(static_cast<const char*>(from_a) + matrix_a(false).offset(row, 0, index),
                 static_cast<const char*>(from_b) + matrix_b(false).offset(0, column, index),
                 static_cast<char*>(to) + matrix_c(false).offset(row, column, index), overwrite, lent);
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
            if (!parts) {
                const KernelScope shown("product");
                const ThreadScope scope(threads);
                return whole.run(from_a, from_b, to, overwrite, lent.data);
            }
            std::once_flag once;
            std::exception_ptr failed; // must not leave a thread
            for_tasks({}, "product", tasks(), threads, [&](const Row&, i64 task, i64 worker) {
                try {
                    const ThreadScope scope(1); // in threads of ours
                    multiply_part(from_a, from_b, to, overwrite, task,
                                  static_cast<char*>(lent.data) + worker * each);
                } catch (...) {
                    std::call_once(once, [&] { failed = std::current_exception(); });
                }
            });
            if (failed)
                std::rethrow_exception(failed);
        });
    }
};

Product::Product(const ProductShape& shape, int threads, Bytes most_scratch)
{
    check_product(shape, threads);
    for (bool fits = false; !fits && threads >= 1; threads /= 2) {
        impl_ = std::make_unique<Impl>();
        impl_->asked = shape;
        impl_->shape = folded(shape);
        impl_->threads = threads;
        if (impl_->empty() || impl_->shape.k == 0)
            return;
        impl_->tiled =
            shape.in == DType::f64 || !checked_dnnl("making a product", [&] { return impl_->make(); });
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

Bytes Product::scratch_bytes() const { return impl_->scratch; }

const ProductShape& Product::shape() const { return impl_->asked; }

void Product::run(const Exec& exec, const void* a, const void* b, void* c, bool overwrite, Scratch scratch,
                  const EpilogueOperands& operands) const
{
    const ProductShape& shape = impl_->shape;
    TRV_CHECK(overwrite || shape.epilogue == Epilogue::none, "a product with an epilogue cannot accumulate");
    TRV_CHECK(scratch.size >= impl_->scratch, "a product of m ", shape.m, ", n ", shape.n, ", k ", shape.k,
              " needs ", impl_->scratch, " B of scratch and got ", scratch.size);
    if (impl_->empty())
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

Bytes product_scratch(const ProductShape& shape, int threads)
{
    return Product(shape, threads).scratch_bytes();
}

} // namespace trivium::kernels
