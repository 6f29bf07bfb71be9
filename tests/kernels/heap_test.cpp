// Kernels get their memory from the caller. A counting operator new measures their heap allocations.
#include "kernels/attention.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/gemm.hpp"
#include "kernels/loss.hpp"
#include "kernels/norm.hpp"
#include "kernels/optimizer.hpp"
#include "support.hpp"

#include <Kokkos_Macros.hpp>
#include <atomic>
#include <cstdlib>

using namespace trivium;
using namespace trivium::kernels;

namespace {
std::atomic<std::size_t> largest{0}, total{0};

void* counted(std::size_t size, std::size_t alignment)
{
    total += size;
    if (size > largest)
        largest = size;
    return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}
} // namespace

void* operator new(std::size_t size)
{
    if (void* data = counted(size, alignof(std::max_align_t)))
        return data;
    throw std::bad_alloc();
}
void* operator new(std::size_t size, std::align_val_t alignment)
{
    if (void* data = counted(size, static_cast<std::size_t>(alignment)))
        return data;
    throw std::bad_alloc();
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, std::size_t) noexcept { std::free(data); }
void operator delete(void* data, std::align_val_t) noexcept { std::free(data); }
void operator delete(void* data, std::size_t, std::align_val_t) noexcept { std::free(data); }

TEST_CASE("a product allocates less than 64 KiB from the heap, other kernels nothing")
{
    start_runtime();
    const Exec exec{2};
    const i64 n = 512;
    const auto x = random<float>(n * n, "x");
    std::vector<float> y(x.size()), z(x.size()), row(static_cast<std::size_t>(n));
    const Tokens target = random_tokens(n, "target", 0, n);
    const AttentionShape shape{1, n, n, 8, 1, 64};
    const TestScratch scratch(8 << 20);
    const auto watch = [&](const std::function<void()>& call) {
        call(); // threads start, thread-local storage is allocated
        largest = total = 0;
        call();
        return std::pair<std::size_t, std::size_t>(largest, total);
    };
    for (const bool transpose_a : {false, true})
        for (const DType in : {DType::f64, DType::f32, DType::bf16}) {
            // Reinterprets x as any type, because only the heap matters here.
            const Product product(
                {128, 128, 256, transpose_a, false, in, in == DType::bf16 ? DType::f32 : in}, 2);
            REQUIRE(product.scratch_bytes() <= 8 << 20);
            CHECK(watch([&] { product.run(exec, x.data(), x.data(), y.data(), true, scratch); }).first <
                  (64 << 10));
        }
    double out = 0;
    const auto all = watch([&] {
        rms_norm(exec, {n, n}, x.data(), x.data(), y.data(), row.data());
        rms_norm_grad_w(exec, {n, n}, x.data(), x.data(), row.data(), row.data(), true);
        gelu(exec, n * n, x.data(), y.data());
        xent_stats(exec, {n, n, 0}, x.data(), target.data(), row.data(), y.data());
        const SquaresOf<float> array{x.data(), n * n, &out};
        sum_squares<float>(exec, {&array, 1}, scratch);
        attention(exec, shape, x.data(), x.data(), x.data(), nullptr, y.data(), z.data(), scratch);
        attention_grad<float>(
            exec, shape,
            {x.data(), x.data(), x.data(), x.data(), y.data(), z.data(), y.data(), y.data(), y.data()},
            scratch);
    });
#ifdef KOKKOS_ENABLE_THREADS // after each launch it waits in a call that has a name, which is a string
    CHECK(all.first < 64);
#else
    CHECK(all.second == 0);
#endif
}
