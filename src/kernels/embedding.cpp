#include "kernels/embedding.hpp"

#include "kernels/elementwise.hpp"
#include "kernels/instantiate.hpp"
#include "scatter_rows.hpp"

namespace trivium::kernels {

void in_order(const Exec& exec, const OrderShape& shape, const std::int32_t* x_bt, std::int32_t* y_bs)
{
    const OrderShape s = shape;
    for_rows<std::int32_t>(
        exec, "in_order", s.sequences, s.count, KOKKOS_LAMBDA(const Row& row, i64 b) {
            row.each(s.count, [=](i64 i) {
                y_bs[b * s.count + i] = x_bt[b * s.tokens + s.order.position(s.first + i)];
            });
        });
}

template <class T>
void embedding(const Exec& exec, const EmbeddingShape& shape, const T* table_vd, const std::int32_t* token_c,
               T* y_cd)
{
    const i64 dim = shape.dim, rows = shape.rows, offset = shape.row_offset;
    for_rows<T>(
        exec, "embedding", shape.count, dim, KOKKOS_LAMBDA(const Row& row, i64 c) {
            const i64 v = token_c[c] - offset;
            T* y = y_cd + c * dim;
            if (v >= 0 && v < rows)
                row.copy(dim, table_vd + v * dim, y);
            else
                row.map(
                    dim, [] { return Acc<T>(0); }, y);
        });
}

template <class T>
void embedding_grad(const Exec& exec, const EmbeddingShape& shape, const T* dy_cd,
                    const std::int32_t* token_c, Acc<T>* dtable_vd, bool overwrite)
{
    if (overwrite)
        fill(exec, shape.rows * shape.dim, 0.0, dtable_vd);
    scatter_rows(exec, shape, dy_cd, token_c, dtable_vd);
}

TRV_FOR_STORAGE(embedding)
TRV_FOR_STORAGE(embedding_grad)

} // namespace trivium::kernels
