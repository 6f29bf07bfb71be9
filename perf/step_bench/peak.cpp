#include "peak.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

namespace trivium {

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

} // namespace

Peak measure_peak(kernels::DType type, int threads, double seconds)
{
    static constexpr i64 list[][3] = {{1024, 1024, 1024}, {2048, 2048, 2048}, {1024, 768, 768}, {1024, 3072, 768},
                                      {1024, 768, 3072}, {1024, 4096, 1024}, {4096, 1024, 1024}, {3072, 3072, 3072}};
    Peak best;
    for (const auto& [m, n, k] : list) {
        kernels::ProductShape shape;
        shape.m = m;
        shape.n = n;
        shape.k = k;
        shape.in = type;
        shape.out = type;
        const kernels::Product product(shape, threads);
        const auto bytes = [&](i64 count) { return static_cast<std::size_t>(count * kernels::size_of(type)); };
        std::vector<char> a(bytes(m * k)), b(bytes(k * n)), c(bytes(m * n)), scratch(static_cast<std::size_t>(product.scratch_bytes()) + 64);
        const auto misaligned = reinterpret_cast<std::uintptr_t>(scratch.data()) % 64;
        const kernels::Scratch lent{scratch.data() + (64 - misaligned) % 64, product.scratch_bytes()};
        kernels::Exec exec;
        exec.threads = threads;
        double least = 1e9;
        for (const double end = now() + seconds; now() < end;) {
            const double begin = now();
            product.run(exec, a.data(), b.data(), c.data(), true, lent);
            least = std::min(least, now() - begin);
        }
        const double rate = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / least;
        if (rate > best.flops_per_second)
            best = {rate, m, n, k};
    }
    return best;
}

} // namespace trivium
