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
    static constexpr int threads = Team::most, lanes = 128,
                         groups = threads / lanes; ///< one group per row that is read
    static constexpr int tile = lanes * width;     ///< columns of a team
    static constexpr int looks = 8, round = looks * threads,
                         words = round / 32; ///< bit masks of the positions per round
    static constexpr int ahead = 4;
    struct Votes;
    struct Places;
    struct Sums;

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
        const int group = team.rank() / lanes;
        const i64 column = first + team.rank() % lanes * width;
        const auto* const places = team.template shared<Places, std::uint16_t, round>();
        A sum[width] = {};
        for (i64 begin = c; begin < count; begin += round) {
            const int n = list_places(team, token, begin);
            Input<T, width, ahead> in{x_cd + begin * dim + column, {}};
            each_pack<ahead>(column < dim ? n : 0, group, groups, [&](i64 k, int slot, bool ready) {
                if (!ready)
                    return in.load(slot, places[k] * dim);
                TRV_UNROLL
                for (int j = 0; j < width; ++j)
                    sum[j] += in.get(slot, j);
            });
        }
        A* const sums = team.template shared<Sums, A, groups * tile>();
        for (int j = 0; j < width; ++j)
            sums[group * tile + team.rank() % lanes * width + j] = sum[j];
        team.sync();
        TRV_ROLLED
        for (int i = team.rank(); i < tile && first + i < dim; i += threads) {
            A total = 0;
            for (int g = 0; g < groups; ++g)
                total += sums[g * tile + i];
            table_vd[v * dim + first + i] += total;
        }
    }

    /// Whether `token` is among the first `end`. All threads call it.
    KOKKOS_FUNCTION bool occurs_before(const Team& team, std::int32_t token, i64 end) const
    {
        TRV_ROLLED
        for (i64 last = end - 1 - team.rank(), done = 0; done < end; done += round, last -= round) {
            bool here = false;
            TRV_UNROLL
            for (int look = 0; look < looks; ++look)
                if (last - look * threads >= 0)
                    here |= token_c[last - look * threads] == token;
            if (team.any(here))
                return true;
        }
        return false;
    }

    /// Lists the positions of `token` in the round at `begin`, in order and relative to it. Returns their
    /// number. All threads call it.
    KOKKOS_FUNCTION int list_places(const Team& team, std::int32_t token, i64 begin) const
    {
        auto* const votes = team.template shared<Votes, std::uint32_t, words>();
        auto* const places = team.template shared<Places, std::uint16_t, round>();
        bool here[looks], some = false;
        TRV_UNROLL
        for (int look = 0; look < looks; ++look) {
            const i64 i = begin + look * threads + team.rank();
            here[look] = i < count && token_c[i] == token;
            some |= here[look];
        }
        if (!team.any(some)) // also a barrier: all threads are done with the last round's list
            return 0;
        TRV_UNROLL
        for (int look = 0; look < looks; ++look) {
            const std::uint32_t vote = team.votes(here[look]);
            if (team.rank() % Team::warp == 0)
                votes[(look * threads + team.rank()) / Team::warp] = vote;
        }
        team.sync();
        int before = 0, all = 0;
        for (int w = 0; w < words; ++w) {
            if (w == team.rank())
                before = all;
            all += Team::bits(votes[w]);
        }
        if (team.rank() < words)
            for (int bit = 0; bit < 32; ++bit)
                if (votes[team.rank()] >> bit & 1u)
                    places[before++] = static_cast<std::uint16_t>(team.rank() * 32 + bit);
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
    launch_teams(
        exec, "scatter_rows", shape.count * tiles, Kernel::threads,
        Kernel{x_cd, token_c, table_vd, shape.count, shape.rows, shape.dim, shape.row_offset, tiles});
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
