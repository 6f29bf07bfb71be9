#include "kernels/rope.hpp"

#include "kernels/instantiate.hpp"
#include "rotate.hpp"

namespace trivium::kernels {

template <class T>
void rope(const Exec& exec, const RopeShape& shape, const T* x_bshe, const std::int32_t* pos_bs,
          const Acc<T>* table_pf2, bool inverse, T* y_bshe)
{
    using A = Acc<T>;
    const i64 heads = shape.heads, dim = shape.head_dim, pairs = shape.pairs;
    TRV_CHECK(2 * pairs <= dim, pairs, " pairs of ", dim, " elements");
    const i64 x_row = shape.x_row > 0 ? shape.x_row : heads * dim,
              y_row = shape.y_row > 0 ? shape.y_row : heads * dim;
    const A sign = inverse ? A(-1) : A(1);
    const bool interleaved = shape.interleaved;
    for_rows<T>(
        exec, "rope", shape.batch * shape.seq, heads * dim / 2, KOKKOS_LAMBDA(const Row& row, i64 r) {
            const T* x = x_bshe + r * x_row;
            T* y = y_bshe + r * y_row;
            const A* turn = table_pf2 + pos_bs[r] * 2 * pairs;
            if (interleaved)
                rotate_neighbours(row, {heads, dim, pairs}, x, turn, sign, y);
            else
                rotate(row, {heads, dim, pairs}, x, turn, sign, y);
            if (2 * pairs < dim && x != y)
                row.each(heads * (dim - 2 * pairs), [=](i64 i) {
                    const i64 at = i / (dim - 2 * pairs) * dim + 2 * pairs + i % (dim - 2 * pairs);
                    y[at] = x[at];
                });
        });
}

TRV_FOR_STORAGE(rope)

} // namespace trivium::kernels
