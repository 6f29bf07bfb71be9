#include "peak.hpp"

#include "base/check.hpp"
#include "base/clock.hpp"
#include "runtime/arena.hpp"
#include "runtime/device.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace trivium {

namespace {

/// Small integers: on some devices, zeros would run faster than real data.
void fill(const Arena& arena, Bytes bytes, DType type)
{
    HostWindow window(arena, 0, bytes);
    std::byte* data = window.data();
    const i64 count = bytes / size_of(type);
    for (i64 i = 0; i < count; ++i) {
        const auto value = static_cast<float>((i * 2654435761LL >> 7) % 17 - 8) / 8;
        if (type == DType::bf16)
            reinterpret_cast<bf16*>(data)[i] = bf16(value);
        else if (type == DType::f32)
            reinterpret_cast<float*>(data)[i] = value;
        else
            reinterpret_cast<double*>(data)[i] = value;
    }
    window.push();
}

} // namespace

Peak measure_peak(DType type, int threads, double seconds)
{
    using Size = std::array<i64, 3>;
    static const std::vector<Size> for_threads{{1024, 1024, 1024}, {2048, 2048, 2048}, {1024, 768, 768},
                                               {1024, 3072, 768},  {1024, 768, 3072},  {1024, 4096, 1024},
                                               {4096, 1024, 1024}, {3072, 3072, 3072}};
    static const std::vector<Size> for_devices{
        {8192, 8192, 8192}, {16384, 4096, 4096}, {16384, 14336, 4096}, {8192, 4096, 14336}};
    const bool device = computes_on_device();
    std::optional<Stream> stream;
    kernels::Exec exec;
    exec.threads = threads;
    if (device)
        exec = stream.emplace(current_device()).exec();
    constexpr Bytes scratch_bytes = Bytes{32} << 20;
    Peak best;
    for (const auto& [m, n, k] : device ? for_devices : for_threads) {
        kernels::ProductShape shape;
        shape.m = m;
        shape.n = n;
        shape.k = k;
        shape.in = type;
        shape.out = type;
        const kernels::Product product(shape, threads);
        TRV_CHECK(product.scratch_bytes() <= scratch_bytes * threads, "a product of the list needs ",
                  product.scratch_bytes(), " bytes of scratch");
        const auto bytes = [&](i64 count) { return round_up(count * size_of(type), 256); };
        Arena arena(bytes(m * k) + bytes(k * n) + bytes(m * n) + scratch_bytes * threads);
        fill(arena, bytes(m * k) + bytes(k * n), type);
        const std::byte *a = arena.at(0), *b = arena.at(bytes(m * k));
        std::byte* c = arena.at(bytes(m * k) + bytes(k * n));
        const kernels::Scratch lent{c + bytes(m * n), product.scratch_bytes()};
        const int at_once = device ? 20 : 1; // on a device, the host enqueues several and waits once
        double least = 1e9;
        for (const double end = now() + seconds; now() < end;) {
            const double begin = now();
            for (int i = 0; i < at_once; ++i)
                product.run(exec, a, b, c, true, lent);
            if (stream)
                stream->wait();
            least = std::min(least, (now() - begin) / at_once);
        }
        const double rate =
            2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / least;
        if (rate > best.flops_per_second)
            best = {rate, m, n, k};
    }
    return best;
}

} // namespace trivium
