#include "tiled_product.hpp"

#include "base/check.hpp"
#include "tile_product.hpp"
#include "transpose_tile.hpp"

namespace trivium::kernels {

namespace {

// Blocks for the caches: B is packed in strips of columns that stay in the first level (32 KiB), a tile of C
// and a block of A in the second. A is packed too where its columns are not dense or its type is not that of
// the sums.
constexpr i64 tile_columns = 128, block_rows = 24;
template <class In>
constexpr i64 depth = 1024 / static_cast<i64>(sizeof(Acc<In>));
template <class In>
constexpr i64 tile_rows = 768 / static_cast<i64>(sizeof(Acc<In>));
template <class In>
constexpr Bytes worker_bytes = (tile_rows<In> * tile_columns + depth<In> * (tile_columns + block_rows)) *
                               static_cast<Bytes>(sizeof(Acc<In>));
static_assert(worker_bytes<double> <= 256 << 10 && worker_bytes<float> <= 256 << 10,
              "the least scratch of a product");

template <class In>
i64 tiles_of(const ProductShape& shape)
{
    return shape.batch * ceil_div(shape.m, tile_rows<In>) * ceil_div(shape.n, tile_columns);
}

/// to[p*width + i] = from[p*stride + i] for p < k, i < n. The next n columns come into the cache, too.
template <class In>
void pack_rows(const In* from, i64 stride, i64 k, i64 n, Acc<In>* to, i64 width)
{
    for (i64 p = 0; p < k; ++p, from += stride, to += width) {
        __builtin_prefetch(from + 2 * n);
        for (i64 i = 0; i < n; ++i)
            to[i] = Acc<In>(from[i]);
    }
}

/// A block of A, to[p, i] = from[p*ak + i*am] for p < k and i < m, with rows of block_rows.
template <class In>
void pack_block(const In* from, i64 ak, i64 am, i64 k, i64 m, Acc<In>* to)
{
    if (ak == 1)
        pack_transposed(from, am, k, m, to, block_rows);
    else if (m == block_rows)
        pack_rows(from, ak, k, block_rows, to, block_rows); // with a constant number of columns
    else
        pack_rows(from, ak, k, m, to, block_rows);
}

/// A tile of B in strips, to[j / strip, p, j % strip] = from[p*bk + j*bn], padded with 0.
template <class In>
void pack_strips(const In* from, i64 bk, i64 bn, i64 kt, i64 nt, Acc<In>* to)
{
    constexpr i64 strip = tile_strip<Acc<In>>;
    const i64 whole = nt / strip * strip, width = nt - whole;
    if (bn == 1)
        for (i64 p = 0; p < kt; ++p) // whole rows, because each is in another page
            for (i64 j0 = 0; j0 < whole; j0 += strip)
                for (i64 j = 0; j < strip; ++j)
                    to[j0 * depth<In> + p * strip + j] = Acc<In>(from[p * bk + j0 + j]);
    else
        for (i64 j0 = 0; j0 < whole; j0 += strip)
            pack_transposed(from + j0 * bn, bn, kt, strip, to + j0 * depth<In>, strip);
    if (width == 0)
        return;
    to += whole * depth<In>;
    for (i64 p = 0; p < kt; ++p)
        for (i64 j = 0; j < strip; ++j)
            to[p * strip + j] = j < width ? Acc<In>(from[p * bk + (whole + j) * bn]) : Acc<In>(0);
}

template <class In, class Out>
void multiply(const Exec& exec, const ProductShape& shape, const In* a, const In* b, Out* c, bool overwrite,
              Scratch scratch)
{
    constexpr i64 strip = tile_strip<Acc<In>>;
    const i64 m = shape.m, n = shape.n, k = shape.k, tasks = tiles_of<In>(shape);
    const i64 row_a = shape.row_of_a(), row_b = shape.row_of_b();
    const i64 am = shape.transpose_a ? 1 : row_a, ak = shape.transpose_a ? row_a : 1;
    const i64 bk = shape.transpose_b ? 1 : row_b, bn = shape.transpose_b ? row_b : 1;
    const i64 rows = ceil_div(m, tile_rows<In>), columns = ceil_div(n, tile_columns);
    for_tasks(
        exec, "product", tasks, task_workers(exec.threads, tasks), [=](const Row& row, i64 task, i64 worker) {
            auto* const b_kn =
                reinterpret_cast<Acc<In>*>(static_cast<char*>(scratch.data) + worker * worker_bytes<In>);
            auto* const a_mk = b_kn + depth<In> * tile_columns;
            auto* const c_mn = a_mk + depth<In> * block_rows;
            const i64 i0 = task % rows * tile_rows<In>, j0 = task / rows % columns * tile_columns,
                      batch = task / rows / columns;
            const i64 mt = std::min(tile_rows<In>, m - i0), nt = std::min(tile_columns, n - j0);
            const In* a_tile = a + batch * shape.stride_a + i0 * am;
            const In* b_tile = b + batch * shape.stride_b + j0 * bn;
            for (i64 k0 = 0; k0 < k; k0 += depth<In>) {
                const i64 kt = std::min(depth<In>, k - k0);
                pack_strips(b_tile + k0 * bk, bk, bn, kt, nt, b_kn);
                const auto add = [&](i64 i, i64 count, const Acc<In>* left, i64 lm, i64 lk) {
                    for (i64 j = 0; j < nt; j += strip)
                        tile_product(row, count, std::min(strip, nt - j), kt, left, lm, lk,
                                     b_kn + j * depth<In>, strip, c_mn + i * tile_columns + j, tile_columns,
                                     k0 > 0);
                };
                if constexpr (std::is_same_v<In, Acc<In>>)
                    if (ak == 1) {
                        add(0, mt, a_tile + k0, am, 1);
                        continue;
                    }
                for (i64 i = 0; i < mt; i += block_rows) {
                    const i64 count = std::min(block_rows, mt - i);
                    pack_block(a_tile + i * am + k0 * ak, ak, am, kt, count, a_mk);
                    add(i, count, a_mk, 1, block_rows);
                }
            }
            for (i64 i = 0; i < mt; ++i) {
                Out* to = c + batch * shape.stride_c + (i0 + i) * n + j0;
                const Acc<In>* from = c_mn + i * tile_columns;
                row.each(nt, [=](i64 j) { to[j] = Out(overwrite ? from[j] : to[j] + from[j]); });
            }
        });
}

} // namespace

Bytes tiled_product_scratch(const ProductShape& shape, int threads)
{
    return with_type(shape.in, [&](auto in) {
        using In = decltype(in);
        return task_workers(threads, tiles_of<In>(shape)) * worker_bytes<In>;
    });
}

void tiled_product(const Exec& exec, const ProductShape& shape, const void* a, const void* b, void* c,
                   bool overwrite, Scratch scratch)
{
    TRV_EXPECT(scratch.size >= tiled_product_scratch(shape, exec.threads), scratch.size, " B of scratch");
    with_type(shape.in, [&](auto in) {
        using In = decltype(in);
        const auto into = [&](auto* to) {
            multiply(exec, shape, static_cast<const In*>(a), static_cast<const In*>(b), to, overwrite,
                     scratch);
        };
        shape.out == shape.in ? into(static_cast<In*>(c)) : into(static_cast<Acc<In>*>(c));
    });
}

} // namespace trivium::kernels
