// Two passes over a tensor: its largest magnitude, then the bytes.
#include "kernels/device/fp8.hpp"

#include "base/check.hpp"
#include "fp8_pair.hpp"
#include "kernels/device/pack.hpp"
#include "team.hpp"

#include <algorithm>

namespace trivium::kernels {
inline namespace on_teams {

namespace {

constexpr int lanes_of_team = 256;
constexpr i64 most_teams = 1056; // 8 per multiprocessor of an H100

struct ClearFound {
    Fp8Found* found;
    KOKKOS_FUNCTION void operator()(i64) const { *found = {1, 0}; }
};

/// Magnitudes compare like their bits, with NaN as the largest; an integer maximum does not depend on the
/// order.
template <int width>
struct FindAmax {
    i64 n, teams;
    const bf16* x;
    Fp8Found* found;

    KOKKOS_FUNCTION void operator()(const Team& team, i64 index) const
    {
        const auto larger = [](std::uint32_t a, std::uint32_t b) { return a > b ? a : b; };
        const std::uint32_t amax = team.join(
            std::uint32_t{0},
            [&](int lane) {
                std::uint32_t mine = 0;
                TRV_ROLLED
                for (i64 i = index * team.lanes() + lane; i < n / width; i += teams * team.lanes()) {
                    const auto pack = Pack<bf16, width>::load(x + i * width);
                    TRV_UNROLL
                    for (int j = 0; j < width; ++j)
                        mine = larger(mine, pack.at[j].bits & 0x7fffu);
                }
                if (const i64 rest = n / width * width + lane; index == 0 && rest < n)
                    mine = larger(mine, x[rest].bits & 0x7fffu);
                return mine;
            },
            larger);
        if (team.rank() == 0 && amax > 0)
            Kokkos::atomic_fetch_max(&found->amax, amax);
    }
};

struct Scale {
    float scale, back;
};

KOKKOS_FUNCTION Scale scale_of(Fp8 format, const Fp8Found* found)
{
    const float scale = fp8_scale(__builtin_bit_cast(float, found->amax << 16), format);
    return {scale, 1 / scale};
}

template <int n>
struct WordsOf {
    std::uint32_t of[n];
};

/// 8 numbers as 8 bytes.
KOKKOS_FUNCTION PackWords<8> bytes_of(const Pack<bf16, 8>& pack, float scale, Fp8 format)
{
    const auto four = [&](int j) {
        return fp8_pair(pack.at[j] * scale, pack.at[j + 1] * scale, format) |
               fp8_pair(pack.at[j + 2] * scale, pack.at[j + 3] * scale, format) << 16;
    };
    return __builtin_bit_cast(PackWords<8>, WordsOf<2>{{four(0), four(4)}});
}

struct WriteBytes {
    Fp8 format;
    const bf16* x;
    std::uint8_t* y;
    Fp8Found* found;

    KOKKOS_FUNCTION void operator()(i64 i) const
    {
        const Scale by = scale_of(format, found);
        if (i == 0)
            found->back = by.back;
        store_words(y + i * 8, bytes_of(Pack<bf16, 8>::load(x + i * 8), by.scale, format));
    }
};

/// A team transposes 64 x 64 numbers in shared memory.
struct WriteTurned {
    static constexpr int tile = 64, pitch = tile + 4;

    Fp8 format;
    i64 rows, columns, across;
    const bf16* x_rc;
    std::uint8_t* y_cr;
    Fp8Found* found;

    KOKKOS_FUNCTION void operator()(const Team& team, i64 index) const
    {
        auto* const turned = reinterpret_cast<std::uint8_t*>(team.shared()); // [column][row]
        const Scale by = scale_of(format, found);
        if (index == 0 && team.rank() == 0)
            found->back = by.back;
        const i64 row_0 = index / across * tile, column_0 = index % across * tile;
        for (int item = team.rank(); item < tile * tile / 8; item += team.size()) {
            const int row = item / (tile / 8), column = item % (tile / 8) * 8;
            if (row_0 + row >= rows || column_0 + column >= columns)
                continue;
            const auto pack = Pack<bf16, 8>::load(x_rc + (row_0 + row) * columns + column_0 + column);
            const auto bytes = __builtin_bit_cast(std::uint64_t, bytes_of(pack, by.scale, format));
            for (int j = 0; j < 8; ++j)
                turned[(column + j) * pitch + row] = static_cast<std::uint8_t>(bytes >> 8 * j);
        }
        team.sync();
        for (int item = team.rank(); item < tile * tile / 16; item += team.size()) {
            const int column = item / (tile / 16), row = item % (tile / 16) * 16;
            if (column_0 + column >= columns || row_0 + row >= rows)
                continue;
            WordsOf<4> words{};
            for (int w = 0; w < 4; ++w)
                words.of[w] = *reinterpret_cast<const std::uint32_t*>(turned + column * pitch + row + 4 * w);
            store_words(y_cr + (column_0 + column) * rows + row_0 + row,
                        __builtin_bit_cast(PackWords<16>, words));
        }
    }
};

struct RoundThrough {
    Fp8 format;
    const bf16* x;
    bf16* y;
    const Fp8Found* found;

    KOKKOS_FUNCTION void operator()(i64 i) const
    {
        const Scale by = scale_of(format, found);
        y[i] = bf16(fp8_decode(fp8_encode(x[i] * by.scale, format), format) * by.back);
    }
};

void find(const Exec& exec, i64 n, const bf16* x, Fp8Found* found)
{
    constexpr int width = 8;
    launch_range(exec, "fp8_clear", 1, ClearFound{found});
    const auto launch = [&](auto wide) {
        constexpr int pack = decltype(wide)::value;
        const i64 teams = std::clamp<i64>(ceil_div(n, lanes_of_team * pack), 1, most_teams);
        launch_teams(exec, "fp8_amax", teams, lanes_of_team, FindAmax<pack>{n, teams, x, found});
    };
    if (reinterpret_cast<std::uintptr_t>(x) % 16 == 0)
        launch(std::integral_constant<int, width>());
    else
        launch(std::integral_constant<int, 1>());
}

} // namespace
} // namespace on_teams

void fp8_bytes(const Exec& exec, Fp8 format, i64 rows, i64 columns, const bf16* x_rc, bool transposed,
               std::uint8_t* y, Fp8Found* found)
{
    TRV_CHECK(rows % 16 == 0 && columns % 16 == 0, rows, " x ", columns, " numbers as bytes of FP8");
    find(exec, rows * columns, x_rc, found);
    if (transposed) {
        const i64 across = ceil_div(columns, WriteTurned::tile), down = ceil_div(rows, WriteTurned::tile);
        launch_teams(exec, "fp8_transpose", across * down, lanes_of_team,
                     WriteTurned{format, rows, columns, across, x_rc, y, found},
                     WriteTurned::tile * WriteTurned::pitch);
    } else {
        launch_range(exec, "fp8_bytes", rows * columns / 8, WriteBytes{format, x_rc, y, found});
    }
}

void fp8_round(const Exec& exec, Fp8 format, i64 n, const bf16* x, bf16* y, Scratch scratch)
{
    TRV_CHECK(scratch.size >= fp8_scratch, "rounding to FP8 needs ", fp8_scratch, " B of scratch");
    auto* const found = static_cast<Fp8Found*>(scratch.data);
    find(exec, n, x, found);
    launch_range(exec, "fp8_round", n, RoundThrough{format, x, y, found});
}

} // namespace trivium::kernels
