#pragma once
// Adds rows to the rows of a table. The same function as host/scatter_rows.hpp.
//
// A team owns a bucket of the table's rows (every 256th row, say) and a range of columns. It reads the list
// of tokens in rounds, lists the tokens of its bucket in order, and adds their rows. So each sum has one
// owner and one order, without sorting or scratch, and a team reads the list once. Most tokens are rare: one
// group of lanes adds the rows of a rare token. All groups share the rows of a frequent token.
#include "kernels/embedding.hpp"
#include "row_parallel.hpp"

namespace trivium::kernels {
inline namespace on_teams {

namespace detail {

template <class T, int width>
struct ScatterRows {
    using A = Acc<T>;
    static constexpr int across = 32;                  ///< lanes that share a row
    static constexpr int groups = Team::most / across; ///< groups of lanes per team
    static constexpr int tile = across * width;        ///< columns that a team owns
    static constexpr int looks = 7;                    ///< tokens per lane and round
    static constexpr int round = looks * Team::most;
    static constexpr int ahead = 4;
    static constexpr int few = 32; ///< a token with more rows in a round is frequent

    struct Shared {
        A sums[groups * tile];
        std::int32_t tokens[round];  ///< tokens of the bucket, in order
        std::uint16_t places[round]; ///< positions of these tokens in the round
        /// First by position: the token is in the bucket. Then by listed token: the first one of a frequent
        /// token.
        std::uint8_t marked[round];
    };

    const T* x_cd;
    const std::int32_t* token_c;
    A* table_vd;
    i64 count, rows, dim, offset, tiles, buckets; ///< tiles: of columns; buckets: a power of two

    KOKKOS_FUNCTION void operator()(const Team& team, i64 index) const
    {
        const i64 bucket = index / tiles, first = (index - bucket * tiles) * tile;
        auto& shared = *reinterpret_cast<Shared*>(team.shared());
        TRV_ROLLED
        for (i64 begin = 0; begin < count; begin += round) {
            const int n = list(team, bucket, begin, shared);
            if (n == 0)
                continue;
            team.each_lane([&](int lane) { add_rare(lane, first, begin, n, shared); });
            team.sync();
            if (n <= few)
                continue;
            TRV_ROLLED
            for (int k = 0; k < n; ++k)
                if (shared.marked[k] != 0)
                    add_frequent(team, first, begin, k, n, shared);
            team.sync();
        }
    }

    /// Lists the tokens of the bucket in the round at `begin`. Returns their number. All threads call it.
    KOKKOS_FUNCTION int list(const Team& team, i64 bucket, i64 begin, Shared& shared) const
    {
        team.each_lane([&](int lane) { // neighbouring lanes look at neighbouring tokens
            TRV_UNROLL
            for (int look = 0; look < looks; ++look) {
                const int place = look * Team::most + lane;
                const i64 v = begin + place < count ? token_c[begin + place] - offset : -1;
                shared.marked[place] = v >= 0 && v < rows && (v & (buckets - 1)) == bucket ? 1 : 0;
            }
        });
        team.sync();
        const int all = team.number(
            [&](int lane) {
                int n = 0;
                TRV_UNROLL
                for (int look = 0; look < looks; ++look)
                    n += shared.marked[lane * looks + look];
                return n;
            },
            [&](int lane, int before) {
                TRV_ROLLED
                for (int place = lane * looks; place < (lane + 1) * looks; ++place)
                    if (shared.marked[place] != 0) {
                        shared.tokens[before] = token_c[begin + place];
                        shared.places[before++] = static_cast<std::uint16_t>(place);
                    }
            });
        team.sync();
        return all;
    }

    /// The lane's group adds the rows of its rare tokens, and marks its frequent tokens.
    KOKKOS_FUNCTION void add_rare(int lane, i64 first, i64 begin, int n, Shared& shared) const
    {
        TRV_ROLLED
        for (int k = lane / across; k < n; k += groups) {
            const std::int32_t token = shared.tokens[k];
            int before = k - 1, found = 1;
            while (before >= 0 && shared.tokens[before] != token)
                --before;
            for (int i = k + 1; before < 0 && i < n; ++i)
                found += shared.tokens[i] == token ? 1 : 0;
            if (lane % across == 0)
                shared.marked[k] = before < 0 && found > few ? 1 : 0;
            if (before >= 0 || found > few)
                continue;
            A sum[width] = {};
            add_rows(lane, first, begin, k, n, 0, 1, shared, sum);
            add_to_table(lane, first, token, sum);
        }
    }

    /// All groups add the rows of the token at k. All threads call it.
    KOKKOS_FUNCTION void add_frequent(const Team& team, i64 first, i64 begin, int k, int n,
                                      Shared& shared) const
    {
        team.each_lane([&](int lane) {
            A sum[width] = {};
            add_rows(lane, first, begin, k, n, lane / across, groups, shared, sum);
            for (int j = 0; j < width; ++j)
                shared.sums[lane * width + j] = sum[j];
        });
        team.sync();
        team.each_lane([&](int lane) {
            if (lane >= across)
                return;
            A total[width] = {};
            TRV_ROLLED
            for (int g = 0; g < groups; ++g)
                for (int j = 0; j < width; ++j)
                    total[j] += shared.sums[g * tile + lane * width + j];
            add_to_table(lane, first, shared.tokens[k], total);
        });
        team.sync();
    }

    /// sum += the lane's columns of the rows of the token at k that are listed at k + self, k + self + step,
    /// … < n.
    KOKKOS_FUNCTION void add_rows(int lane, i64 first, i64 begin, int k, int n, int self, int step,
                                  const Shared& shared, A* sum) const
    {
        const i64 column = first + lane % across * width;
        const std::int32_t token = shared.tokens[k];
        Input<T, width, ahead> in{x_cd + begin * dim + column, {}};
        each_pack<ahead>(column < dim ? n - k : 0, self, step, [&](i64 i, int slot, bool ready) {
            if (shared.tokens[k + i] != token)
                return;
            if (!ready)
                return in.load(slot, shared.places[k + i] * dim);
            TRV_UNROLL
            for (int j = 0; j < width; ++j)
                sum[j] += in.get(slot, j);
        });
    }

    KOKKOS_FUNCTION void add_to_table(int lane, i64 first, std::int32_t token, const A* sum) const
    {
        constexpr int part =
            width * static_cast<int>(sizeof(A)) > 16 ? 16 / static_cast<int>(sizeof(A)) : width;
        const i64 column = first + lane % across * width;
        if (column >= dim)
            return;
        A* const to = table_vd + (token - offset) * dim + column;
        TRV_UNROLL
        for (int at = 0; at < width; at += part) {
            auto now = Pack<A, part>::load(to + at);
            for (int j = 0; j < part; ++j)
                now.at[j] += sum[at + j];
            now.store(to + at);
        }
    }
};

template <int width, class T>
void scatter_rows_in_packs(const Exec& exec, const EmbeddingShape& shape, const T* x_cd,
                           const std::int32_t* token_c, Acc<T>* table_vd)
{
    using Kernel = ScatterRows<T, width>;
    const i64 tiles = ceil_div(shape.dim, Kernel::tile);
    i64 buckets = 1; // about one token per group and round, if all tokens are rare
    while (buckets < Kernel::round / Kernel::groups && buckets * Kernel::groups < shape.count)
        buckets *= 2;
    launch_teams(
        exec, "scatter_rows", buckets * tiles, Team::most,
        Kernel{x_cd, token_c, table_vd, shape.count, shape.rows, shape.dim, shape.row_offset, tiles, buckets},
        static_cast<Bytes>(sizeof(typename Kernel::Shared)));
}

} // namespace detail

/// table_vd[t - row_offset] += the sum of all x_cd[i] with token_c[i] = t, for each t in the table. Its order
/// depends only on token_c.
template <class T>
void scatter_rows(const Exec& exec, const EmbeddingShape& shape, const T* x_cd, const std::int32_t* token_c,
                  Acc<T>* table_vd)
{
    constexpr int width = pack_width<T>();
    if (shape.dim % width == 0 && reinterpret_cast<std::uintptr_t>(x_cd) % 16 == 0 &&
        reinterpret_cast<std::uintptr_t>(table_vd) % 16 == 0)
        detail::scatter_rows_in_packs<width>(exec, shape, x_cd, token_c, table_vd);
    else
        detail::scatter_rows_in_packs<1>(exec, shape, x_cd, token_c, table_vd);
}

} // namespace on_teams
} // namespace trivium::kernels
