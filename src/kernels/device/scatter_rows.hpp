#pragma once
// Adds rows to the rows of a table. The same function as host/scatter_rows.hpp.
//
// A team takes one position of the list of tokens and a range of columns. If the token also occurs earlier in
// the list, another team handles it; otherwise this team finds all positions of the token and adds their
// rows. So each sum has one owner and one order, without sorting or scratch. Reading the list for every token
// is cheap: it stays in the cache, and a frequent token soon finds an earlier occurrence.
#include "kernels/embedding.hpp"
#include "row_parallel.hpp"

namespace trivium::kernels {
inline namespace on_teams {

namespace detail {

template <class T, int width>
struct ScatterRows {
    using A = Acc<T>;
    static constexpr int across = 128;                 ///< lanes that share a row that is read
    static constexpr int groups = Team::most / across; ///< of lanes, one per row that is read
    static constexpr int tile = across * width;        ///< columns of a team
    static constexpr int looks = 8;                    ///< neighbouring tokens that a lane compares at once
    static constexpr int round = looks * Team::most;
    static constexpr int ahead = 4;

    struct Shared {
        A sums[groups * tile];
        std::uint16_t places[round];
    };

    const T* x_cd;
    const std::int32_t* token_c;
    A* table_vd;
    i64 count, rows, dim, offset, tiles;

    KOKKOS_FUNCTION void operator()(const Team& team, i64 index) const
    {
        const i64 c = index / tiles, first = (index - c * tiles) * tile;
        const std::int32_t token = token_c[c];
        const i64 v = token - offset;
        if (v < 0 || v >= rows || occurs_before(team, token, c))
            return;
        auto& shared = *reinterpret_cast<Shared*>(team.shared());
        team.each_lane([&](int lane) {
            for (int j = 0; j < width; ++j)
                shared.sums[lane * width + j] = 0;
        });
        for (i64 begin = c; begin < count; begin += round) {
            const int n = list_places(team, token, begin, shared.places);
            if (n > 0)
                team.each_lane([&](int lane) { add_rows(lane, first, begin, n, shared); });
        }
        team.sync();
        TRV_ROLLED
        for (int i = team.rank(); i < tile && first + i < dim; i += team.size()) {
            A total = 0;
            for (int g = 0; g < groups; ++g)
                total += shared.sums[g * tile + i];
            table_vd[v * dim + first + i] += total;
        }
    }

    /// The lane's part of the rows at the n listed places, added to its sums.
    KOKKOS_FUNCTION void add_rows(int lane, i64 first, i64 begin, int n, Shared& shared) const
    {
        const i64 column = first + lane % across * width;
        A sum[width];
        for (int j = 0; j < width; ++j)
            sum[j] = shared.sums[lane * width + j];
        Input<T, width, ahead> in{x_cd + begin * dim + column, {}};
        each_pack<ahead>(column < dim ? n : 0, lane / across, groups, [&](i64 k, int slot, bool ready) {
            if (!ready)
                return in.load(slot, shared.places[k] * dim);
            TRV_UNROLL
            for (int j = 0; j < width; ++j)
                sum[j] += in.get(slot, j);
        });
        for (int j = 0; j < width; ++j)
            shared.sums[lane * width + j] = sum[j];
    }

    /// Whether `token` is among the first `end`. All threads call it.
    KOKKOS_FUNCTION bool occurs_before(const Team& team, std::int32_t token, i64 end) const
    {
        TRV_ROLLED
        for (i64 done = 0; done < end; done += round) {
            const bool here = team.any([&](int lane) {
                bool found = false;
                TRV_UNROLL
                for (int look = 0; look < looks; ++look) {
                    const i64 i = end - 1 - done - look * Team::most - lane;
                    found |= i >= 0 && token_c[i] == token;
                }
                return found;
            });
            if (here)
                return true;
        }
        return false;
    }

    /// Lists the positions of `token` in the round at `begin`, in order and relative to it. Returns their
    /// number. All threads call it.
    KOKKOS_FUNCTION int list_places(const Team& team, std::int32_t token, i64 begin,
                                    std::uint16_t* places) const
    {
        const auto matches = [&](int lane, int look) {
            const i64 i = begin + lane * looks + look;
            return i < count && token_c[i] == token;
        };
        const int all = team.number(
            [&](int lane) {
                int n = 0;
                TRV_UNROLL
                for (int look = 0; look < looks; ++look)
                    n += matches(lane, look) ? 1 : 0;
                return n;
            },
            [&](int lane, int before) {
                TRV_UNROLL
                for (int look = 0; look < looks; ++look)
                    if (matches(lane, look))
                        places[before++] = static_cast<std::uint16_t>(lane * looks + look);
            });
        team.sync();
        return all;
    }
};

template <int width, class T>
void scatter_rows_in_packs(const Exec& exec, const EmbeddingShape& shape, const T* x_cd,
                           const std::int32_t* token_c, Acc<T>* table_vd)
{
    using Kernel = ScatterRows<T, width>;
    const i64 tiles = ceil_div(shape.dim, Kernel::tile);
    launch_teams(exec, "scatter_rows", shape.count * tiles, Team::most,
                 Kernel{x_cd, token_c, table_vd, shape.count, shape.rows, shape.dim, shape.row_offset, tiles},
                 static_cast<Bytes>(sizeof(typename Kernel::Shared)));
}

} // namespace detail

/// table_vd[token_c[i] - row_offset] += the sum of such x_cd[i], in a fixed order of i, if the token
/// is in the table.
template <class T>
void scatter_rows(const Exec& exec, const EmbeddingShape& shape, const T* x_cd, const std::int32_t* token_c,
                  Acc<T>* table_vd)
{
    constexpr int width = pack_width<T>();
    if (shape.dim % width == 0 && reinterpret_cast<std::uintptr_t>(x_cd) % 16 == 0)
        detail::scatter_rows_in_packs<width>(exec, shape, x_cd, token_c, table_vd);
    else
        detail::scatter_rows_in_packs<1>(exec, shape, x_cd, token_c, table_vd);
}

} // namespace on_teams
} // namespace trivium::kernels
