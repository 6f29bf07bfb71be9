#include "kernels/embedding.hpp"

#include "kernels/elementwise.hpp"
#include "kernels/instantiate.hpp"
#include "row_parallel.hpp"

namespace trivium::kernels {

template <class T>
void embedding(const Exec& exec, const EmbeddingShape& shape, const T* table_vd, const std::int32_t* token_c, T* y_cd)
{
    const i64 dim = shape.dim, rows = shape.rows, offset = shape.row_offset;
    for_rows(exec, "embedding", shape.count, KOKKOS_LAMBDA(const Row& row, i64 c) {
        const i64 v = token_c[c] - offset;
        T* y = y_cd + c * dim;
        if (v >= 0 && v < rows) {
            const T* from = table_vd + v * dim;
            row.each(dim, [=](i64 i) { y[i] = from[i]; });
        } else {
            row.each(dim, [=](i64 i) { y[i] = T(0.0f); });
        }
    });
}

template <class T>
void embedding_grad(const Exec& exec, const EmbeddingShape& shape, const T* dy_cd, const std::int32_t* token_c,
                    Acc<T>* dtable_vd, bool overwrite)
{
    using A = Acc<T>;
    if (overwrite)
        fill(exec, shape.rows * shape.dim, 0.0, dtable_vd);
    // A token may come many times: split by columns, so that each sum has one owner and one order.
    constexpr i64 width = 64;
    const i64 dim = shape.dim, rows = shape.rows, offset = shape.row_offset, count = shape.count;
    for_rows(exec, "embedding_grad", ceil_div(dim, width), KOKKOS_LAMBDA(const Row& row, i64 block) {
        const i64 d0 = block * width, n = dim - d0 < width ? dim - d0 : width;
        for (i64 c = 0; c < count; ++c) {
            const i64 v = token_c[c] - offset;
            if (v < 0 || v >= rows)
                continue;
            const T* dy = dy_cd + c * dim + d0;
            A* to = dtable_vd + v * dim + d0;
            row.each(n, [=](i64 i) { to[i] += A(dy[i]); });
            row.sync();
        }
    });
}

#define TRV_INSTANTIATE(T)                                                                                             \
    template void embedding(const Exec&, const EmbeddingShape&, const T*, const std::int32_t*, T*);                    \
    template void embedding_grad(const Exec&, const EmbeddingShape&, const T*, const std::int32_t*, Acc<T>*, bool);
TRV_FOR_STORAGE(TRV_INSTANTIATE)

} // namespace trivium::kernels
