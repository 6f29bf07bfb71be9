#pragma once
// Sums over the rows of a matrix, per column. Part of row_parallel.hpp.
//
// A team owns a tile of few columns: 32, 64 or 128 bytes of a row, which are whole memory sectors. Its lanes
// form g groups; each group adds every g-th row, and a tree adds the groups. Teams do not share columns, so
// no scratch is needed and the order is fixed. Narrow tiles give many teams.
#include "kernels/device/row_parallel.hpp"

namespace trivium::kernels {
inline namespace on_teams {

namespace detail {

template <class A, int width, class F, class Store, class... In>
struct ColumnTile {
    static constexpr int ahead = sizeof...(In) == 1 ? 8 : 4;

    F f;
    Store store;
    Inputs<In...> in;
    i64 rows, columns, apart; ///< apart: elements between rows
    int across;               ///< lanes that share a row of the tile, a power of two

    KOKKOS_FUNCTION void operator()(const Team& team, i64 tile) const
    {
        run(team, tile, std::index_sequence_for<In...>());
    }

    template <std::size_t... k>
    KOKKOS_FUNCTION void run(const Team& team, i64 tile, std::index_sequence<k...>) const
    {
        const int groups = team.lanes() / across, tile_width = across * width;
        const i64 first = tile * tile_width;
        A* const sums = reinterpret_cast<A*>(team.shared());
        team.each_lane([&](int lane) {
            const int group = lane / across, at = lane % across * width;
            A total[width] = {};
            if (first + at < columns)
                add_rows(total, group, groups,
                         Input<In, width, ahead>{in.template get<k, In>() + first + at, {}}...);
            for (int j = 0; j < width; ++j)
                sums[group * tile_width + at + j] = total[j];
        });
        for (int half = groups / 2; half > 0; half /= 2) {
            team.sync();
            TRV_ROLLED
            for (int i = team.rank(); i < half * tile_width; i += team.size())
                sums[i] += sums[i + half * tile_width];
        }
        team.sync();
        TRV_ROLLED
        for (int i = team.rank(); i < tile_width; i += team.size())
            if (first + i < columns)
                store(first + i, sums[i]);
    }

    template <class... Arrays>
    KOKKOS_FUNCTION void add_rows(A (&total)[width], int group, int groups, Arrays... arrays) const
    {
        const auto use = [&](i64 r, int slot) {
            TRV_UNROLL
            for (int j = 0; j < width; ++j)
                total[j] += f(r, arrays.get(slot, j)...);
        };
        i64 r = group;
        TRV_ROLLED
        for (; r + static_cast<i64>(ahead - 1) * groups < rows; r += static_cast<i64>(ahead) * groups) {
            // Without conditions, so that the loads of f are also issued ahead.
            TRV_UNROLL
            for (int u = 0; u < ahead; ++u)
                (arrays.load(u, (r + static_cast<i64>(u) * groups) * apart), ...);
            TRV_UNROLL
            for (int u = 0; u < ahead; ++u)
                use(r + static_cast<i64>(u) * groups, u);
        }
        TRV_ROLLED
        for (; r < rows; r += groups) {
            (arrays.load(0, r * apart), ...);
            use(r, 0);
        }
    }
};

} // namespace detail

/// See host/row_parallel.hpp.
template <class A, class F, class Store, class... In>
void for_columns(const Exec& exec, const char* label, i64 rows, i64 columns, i64 apart, F f, Store store,
                 const In*... in)
{
    constexpr int width = pack_width<In...>(), lanes = Team::most;
    constexpr i64 enough = 96; // tiles: most multiprocessors have one
    const auto launch = [&](auto wide, int across) {
        constexpr int pack = decltype(wide)::value;
        using Tile = detail::ColumnTile<A, pack, F, Store, In...>;
        launch_teams(exec, label, ceil_div(columns, across * pack), lanes,
                     Tile{f, store, {{in..., nullptr}}, rows, columns, apart, across},
                     lanes * pack * static_cast<Bytes>(sizeof(A)));
    };
    if (columns % width == 0 && apart % width == 0 &&
        ((reinterpret_cast<std::uintptr_t>(in) % (width * sizeof(In)) == 0) && ...))
        launch(std::integral_constant<int, width>(), columns / width / 8 >= enough   ? 8
                                                     : columns / width / 4 >= enough ? 4
                                                                                     : 2);
    else
        launch(std::integral_constant<int, 1>(), columns / 32 >= enough ? 32 : 16);
}

} // namespace on_teams
} // namespace trivium::kernels
