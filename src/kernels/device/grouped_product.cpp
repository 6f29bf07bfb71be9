// Grouped products on a device: a team per tile of the result, which finds its expert in the counts, so that
// the host need not know them.
#include "kernels/experts/grouped_product.hpp"

#include "base/check.hpp"
#include "team.hpp"

#include <algorithm>

namespace trivium::kernels {

namespace detail {

/// An operand of a tile: `across` elements between neighbours along the tile, `along` along the sum.
template <class T>
struct TileOperand {
    const T* at;
    i64 across, along;
};

/// Tiles of rows x columns sums, in shared memory: lanes compute some of them for `depth` terms at a time.
template <class In>
struct TileSums {
    using A = Acc<In>;
    static constexpr int lanes = 256, side = 16;          ///< lanes: side x side
    static constexpr int rows = sizeof(A) == 8 ? 32 : 64; ///< f64: shared memory has 48 KiB
    static constexpr int columns = 64, depth = 32;
    static constexpr int high = rows / side, wide = columns / side; ///< sums of a lane

    struct Shared {
        A sums[rows * columns];
        A left[depth * (rows + 1)], right[depth * (columns + 1)]; ///< rows apart: in other banks
    };
    Shared& shared;

    KOKKOS_FUNCTION explicit TileSums(const Team& team) : shared(*reinterpret_cast<Shared*>(team.shared()))
    {
        team.each_lane([&](int lane) {
            for (int i = lane; i < rows * columns; i += lanes)
                shared.sums[i] = 0;
        });
    }

    /// to[p, x] = the operand at x and p0 + p, or 0 outside of [0, extent) x [0, k).
    KOKKOS_FUNCTION static void load(int lane, const TileOperand<In>& from, int width, i64 extent, i64 p0,
                                     i64 k, A* to)
    {
        for (int i = lane; i < depth * width; i += lanes) { // neighbouring lanes take neighbouring elements
            const int p = from.along == 1 ? i % depth : i / width,
                      x = from.along == 1 ? i / depth : i % width;
            to[p * (width + 1) + x] = x < extent && p0 + p < k
                                          ? static_cast<A>(from.at[x * from.across + (p0 + p) * from.along])
                                          : A(0);
        }
    }

    /// Adds the product of m rows and n columns over k.
    KOKKOS_FUNCTION void add(const Team& team, const TileOperand<In>& a, const TileOperand<In>& b, i64 m,
                             i64 n, i64 k) const
    {
        for (i64 p0 = 0; p0 < k; p0 += depth) {
            team.sync();
            team.each_lane([&](int lane) {
                load(lane, a, rows, m, p0, k, shared.left);
                load(lane, b, columns, n, p0, k, shared.right);
            });
            team.sync();
            team.each_lane([&](int lane) {
                const int i = lane / side, j = lane % side;
                A sum[high][wide];
                for (int r = 0; r < high; ++r)
                    for (int c = 0; c < wide; ++c)
                        sum[r][c] = shared.sums[(i + r * side) * columns + j + c * side];
                for (int p = 0; p < depth; ++p)
                    for (int r = 0; r < high; ++r) {
                        const A left = shared.left[p * (rows + 1) + i + r * side];
                        for (int c = 0; c < wide; ++c)
                            sum[r][c] += left * shared.right[p * (columns + 1) + j + c * side];
                    }
                for (int r = 0; r < high; ++r)
                    for (int c = 0; c < wide; ++c)
                        shared.sums[(i + r * side) * columns + j + c * side] = sum[r][c];
            });
        }
    }

    /// to[m, n] (+)= the sums; `apart`: elements between rows of `to`.
    template <class Out>
    KOKKOS_FUNCTION void store(const Team& team, i64 m, i64 n, Out* to, i64 apart, bool overwrite) const
    {
        team.sync();
        team.each_lane([&](int lane) {
            for (int i = lane; i < rows * columns; i += lanes) {
                const i64 r = i / columns, c = i % columns;
                if (r >= m || c >= n)
                    continue;
                Out& out = to[r * apart + c];
                out = static_cast<Out>(overwrite ? shared.sums[i] : static_cast<A>(out) + shared.sums[i]);
            }
        });
    }
};

TRV_HOST_DEVICE inline i64 least(i64 a, i64 b) { return a < b ? a : b; }

/// Tiles of products of rows with their experts' matrices, then tiles of zeros.
template <class T>
struct GroupedRowTiles {
    using Tile = TileSums<T>;
    GroupedRows rows;
    const T *a, *weights;
    const std::int32_t* counts;
    T* c;
    i64 k, n, matrix;      ///< columns of a and c; elements of an expert's matrix
    i64 across, along;     ///< between columns of the result and terms of the sum in a matrix
    i64 tiles_n, tiles_of; ///< tiles of columns; most tiles of rows of a rank

    KOKKOS_FUNCTION void operator()(const Team& team, i64 index) const
    {
        const i64 column = index % tiles_n * Tile::columns, wanted = index / tiles_n % tiles_of,
                  rank = index / tiles_n / tiles_of;
        i64 tiles = 0, expert = -1, begin = 0, size = 0;
        const i64 used =
            rows.each_expert(counts, rank / rows.ranks, rank % rows.ranks, [&](i64 e, i64 first, i64 count) {
                const i64 own = (count + Tile::rows - 1) / Tile::rows;
                if (wanted < tiles + own) {
                    expert = rank % rows.ranks * rows.of_rank() + e;
                    begin = first + (wanted - tiles) * Tile::rows;
                    size = first + count - begin;
                    return false;
                }
                tiles += own;
                return true;
            });
        if (expert < 0) {
            begin = used + (wanted - tiles) * Tile::rows;
            size = rows.rows - begin;
        }
        size = least(size, Tile::rows);
        if (size <= 0)
            return;
        const i64 width = least(n - column, Tile::columns), first = rank * rows.rows + begin;
        const Tile tile(team);
        if (expert >= 0)
            tile.add(team, {a + first * k, k, 1},
                     {weights + expert * matrix + column * across, across, along}, size, width, k);
        tile.store(team, size, width, c + first * n + column, n, true);
    }
};

/// Tiles of the gradients of the experts' matrices.
template <class T>
struct GroupedWeightTiles {
    using Tile = TileSums<T>;
    GroupedRows rows;
    const T *a, *b;
    const std::int32_t* counts;
    Acc<T>* c;
    i64 i, j, tiles_i, tiles_j;
    bool overwrite;

    KOKKOS_FUNCTION void operator()(const Team& team, i64 index) const
    {
        const i64 column = index % tiles_j * Tile::columns, row = index / tiles_j % tiles_i * Tile::rows,
                  weight = index / tiles_j / tiles_i;
        const i64 high = least(i - row, Tile::rows), wide = least(j - column, Tile::columns);
        const Tile tile(team);
        for (i64 o = 0; o < rows.outer; ++o) {
            const GroupedRows::Range range = rows.of_weight(counts, o, weight);
            tile.add(team, {a + range.begin * i + row, 1, i}, {b + range.begin * j + column, 1, j}, high,
                     wide, range.size);
        }
        tile.store(team, high, wide, c + (weight * i + row) * j + column, j, overwrite);
    }
};

} // namespace detail

struct GroupedProduct::Impl {
    GroupedKind kind;
    GroupedShape shape;

    template <class T>
    void run(const Exec& exec, const T* a, const T* b, const std::int32_t* counts, void* c,
             bool overwrite) const
    {
        using Tile = detail::TileSums<T>;
        const GroupedRows& rows = shape.rows;
        const auto launch = [&](i64 tiles, const auto& kernel) {
            launch_teams(exec, "grouped_product", tiles, Tile::lanes, kernel,
                         static_cast<Bytes>(sizeof(typename Tile::Shared)));
        };
        if (kind == GroupedKind::grad_weight) {
            const i64 down = ceil_div(shape.i, Tile::rows), across = ceil_div(shape.j, Tile::columns);
            return launch(rows.weights() * down * across,
                          detail::GroupedWeightTiles<T>{rows, a, b, counts, static_cast<Acc<T>*>(c), shape.i,
                                                        shape.j, down, across, overwrite});
        }
        const bool forward = kind == GroupedKind::forward;
        const i64 k = forward ? shape.i : shape.j, n = forward ? shape.j : shape.i,
                  across = ceil_div(n, Tile::columns),
                  down = ceil_div(rows.rows, Tile::rows) + rows.of_rank() + 1;
        launch(rows.outer * rows.ranks * down * across,
               detail::GroupedRowTiles<T>{rows, a, b, counts, static_cast<T*>(c), k, n, shape.i * shape.j,
                                          forward ? 1 : shape.j, forward ? shape.j : 1, across, down});
    }
};

GroupedProduct::GroupedProduct(GroupedKind kind, const GroupedShape& shape, int, Bytes)
    : impl_(std::make_unique<Impl>(Impl{kind, shape}))
{
}

GroupedProduct::GroupedProduct(GroupedProduct&&) noexcept = default;
GroupedProduct& GroupedProduct::operator=(GroupedProduct&&) noexcept = default;
GroupedProduct::~GroupedProduct() = default;

Bytes GroupedProduct::scratch_bytes() const { return 0; }

void GroupedProduct::run(const Exec& exec, const void* a, const void* b, const std::int32_t* counts, void* c,
                         bool overwrite, Scratch) const
{
    TRV_CHECK(overwrite || impl_->kind == GroupedKind::grad_weight, "only gradients of weights accumulate");
    with_type(impl_->shape.in, [&](auto in) {
        using T = decltype(in);
        impl_->run(exec, static_cast<const T*>(a), static_cast<const T*>(b), counts, c, overwrite);
    });
}

} // namespace trivium::kernels
