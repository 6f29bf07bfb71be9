// A step allocates at most 64 KiB from the heap at a time. The test intercepts every allocation function of
// the C library, on which new, OpenMP, oneDNN and Kokkos rely.
#include "base/check.hpp"
#include "catch.hpp"
#include "harness.hpp"

#include <atomic>
#include <cerrno>
#include <cstdlib>

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
}

namespace {

std::atomic<std::size_t> largest{0};
void* volatile data; // so that no allocation is optimised away

void note(std::size_t size)
{
    std::size_t known = largest;
    while (size > known && !largest.compare_exchange_weak(known, size)) {
    }
}

} // namespace

extern "C" {
void* malloc(std::size_t size)
{
    note(size);
    return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size)
{
    note(count * size);
    return __libc_calloc(count, size);
}
void* realloc(void* old, std::size_t size)
{
    note(size);
    return __libc_realloc(old, size);
}
void* memalign(std::size_t alignment, std::size_t size)
{
    note(size);
    return __libc_memalign(alignment, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size)
{
    note(size);
    return __libc_memalign(alignment, size);
}
int posix_memalign(void** out, std::size_t alignment, std::size_t size)
{
    note(size);
    *out = __libc_memalign(alignment, size);
    return *out ? 0 : ENOMEM;
}
}

using namespace trivium;
using namespace trivium::runs;

TEST_CASE("the test intercepts every allocation function")
{
    const auto seen = [](auto&& allocate) {
        largest = 0;
        allocate();
        return largest.load();
    };
    const auto keep = [](void* made) {
        data = made;
        std::free(made);
    };
    CHECK(seen([&] { keep(std::malloc(70001)); }) == 70001);
    CHECK(seen([&] { keep(std::calloc(7, 10001)); }) == 70007);
    CHECK(seen([&] { keep(std::realloc(std::malloc(1), 70002)); }) == 70002);
    CHECK(seen([&] { keep(std::aligned_alloc(64, 70016)); }) == 70016);
    CHECK(seen([&] {
              void* made = nullptr;
              REQUIRE(posix_memalign(&made, 64, 70003) == 0);
              keep(made);
          }) >= 70003);
    CHECK(seen([] {
              char* made = new char[70004];
              data = made;
              delete[] made;
          }) == 70004);
}

TEST_CASE("after the first step, no step allocates more than 64 KiB at a time")
{
    for (const bool llama : {true, false})
        for (const Precision precision : {Precision::f32, Precision::bf16, Precision::f64})
            for (const int threads : {1, 2}) {
                INFO((llama ? "llama " : "gpt2 ") << name_of(precision) << ", " << threads << " threads");
                reference::Model model; // logits, hidden values and gradients are all larger than 64 KiB
                model.llama = llama;
                model.dim = 128;
                model.heads = 4;
                model.kv_heads = llama ? 2 : 4;
                model.ffn = 200;
                model.vocab = 520;
                model.seq = 70;
                model.layers = 2;
                Run run(config_of(model, precision, 4, 2), threads);
                const TokenBatch batch = random_batch(model, 4, 1);
                const Hyper hyper{1e-3, 0.9, 0.95, 1e-8, 0.1, 0.05};
                run.differentiate(batch, hyper);
                run.update();
                largest = 0;
                run.differentiate(batch, hyper);
                CHECK(largest <= 65536);
                largest = 0;
                run.update();
                CHECK(largest <= 65536);
            }
}
