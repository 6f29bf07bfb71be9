#include "product_f64.hpp"

#include "tile_product.hpp"

namespace trivium::kernels {

namespace {

// A tile of C, and the depth of one packed block of B (256 KiB: it stays in the second-level cache).
constexpr i64 tile_rows = 48, tile_columns = 128, depth = 256;
constexpr Bytes worker_bytes = (tile_rows + depth) * tile_columns * static_cast<Bytes>(sizeof(double));

i64 tiles_of(const ProductShape& shape)
{
    return shape.batch * ceil_div(shape.m, tile_rows) * ceil_div(shape.n, tile_columns);
}

} // namespace

Bytes product_f64_scratch(const ProductShape& shape, int threads)
{
    return task_workers(threads, tiles_of(shape)) * worker_bytes;
}

void product_f64(const Exec& exec, const ProductShape& shape, const double* a, const double* b, double* c,
                 bool overwrite, Scratch scratch)
{
    const i64 m = shape.m, n = shape.n, k = shape.k, tasks = tiles_of(shape);
    const i64 am = shape.transpose_a ? 1 : k, ak = shape.transpose_a ? m : 1;
    const i64 bk = shape.transpose_b ? 1 : n, bn = shape.transpose_b ? k : 1;
    const i64 rows = ceil_div(m, tile_rows), columns = ceil_div(n, tile_columns);
    for_tasks(exec, "product_f64", tasks, task_workers(exec.threads, tasks), [=](const Row& row, i64 task, i64 worker) {
        auto* const b_kn = reinterpret_cast<double*>(static_cast<char*>(scratch.data) + worker * worker_bytes);
        auto* const c_mn = b_kn + depth * tile_columns;
        const i64 i0 = task % rows * tile_rows, j0 = task / rows % columns * tile_columns, batch = task / rows / columns;
        const i64 mt = std::min(tile_rows, m - i0), nt = std::min(tile_columns, n - j0);
        const double* a_tile = a + batch * shape.stride_a + i0 * am;
        const double* b_tile = b + batch * shape.stride_b + j0 * bn;
        for (i64 k0 = 0; k0 < k; k0 += depth) {
            const i64 kt = std::min(depth, k - k0);
            for (i64 p = 0; p < kt; ++p) {
                double* to = b_kn + p * tile_columns;
                row.each(nt, [=](i64 j) { to[j] = b_tile[(k0 + p) * bk + j * bn]; });
                row.each(tile_columns - nt, [=](i64 j) { to[nt + j] = 0; });
            }
            tile_product(row, mt, nt, kt, a_tile + k0 * ak, am, ak, b_kn, tile_columns, c_mn, tile_columns, k0 > 0);
        }
        for (i64 i = 0; i < mt; ++i) {
            double* to = c + batch * shape.stride_c + (i0 + i) * n + j0;
            const double* from = c_mn + i * tile_columns;
            row.each(nt, [=](i64 j) { to[j] = overwrite ? from[j] : to[j] + from[j]; });
        }
    });
}

} // namespace trivium::kernels
