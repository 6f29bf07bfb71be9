#include "kernels/rope.hpp"

#include "kernels/instantiate.hpp"
#include "rotate.hpp"

namespace trivium::kernels {

template <class T>
void rope(const Exec& exec, const RopeShape& shape, const T* x_bshe, const std::int32_t* pos_bs,
          const Acc<T>* table_pf2, bool inverse, T* y_bshe)
{
    using A = Acc<T>;
    TRV_CHECK(shape.head_dim % 2 == 0, "head_dim ", shape.head_dim, " is not even");
    const i64 heads = shape.heads, half = shape.head_dim / 2;
    const i64 x_row = shape.x_row > 0 ? shape.x_row : heads * 2 * half,
              y_row = shape.y_row > 0 ? shape.y_row : heads * 2 * half;
    const A sign = inverse ? A(-1) : A(1);
    for_rows<T>(
        exec, "rope", shape.batch * shape.seq, heads * half, KOKKOS_LAMBDA(const Row& row, i64 r) {
            rotate(row, heads, half, x_bshe + r * x_row, table_pf2 + pos_bs[r] * 2 * half, sign,
                   y_bshe + r * y_row);
        });
}

TRV_FOR_STORAGE(rope)

} // namespace trivium::kernels
