#include "kernels/rope.hpp"

#include "kernels/instantiate.hpp"
#include "row_parallel.hpp"

namespace trivium::kernels {

template <class T>
void rope(const Exec& exec, const RopeShape& shape, const T* x_bshe, const std::int32_t* pos_bs,
          const Acc<T>* table_pf2, bool inverse, T* y_bshe)
{
    using A = Acc<T>;
    TRV_CHECK(shape.head_dim % 2 == 0, "head_dim ", shape.head_dim, " is not even");
    const i64 heads = shape.heads, half = shape.head_dim / 2;
    const A sign = inverse ? A(-1) : A(1);
    for_rows(exec, "rope", shape.batch * shape.seq, KOKKOS_LAMBDA(const Row& row, i64 r) {
        const A* turn = table_pf2 + pos_bs[r] * 2 * half;
        for (i64 h = 0; h < heads; ++h) {
            const T* x = x_bshe + (r * heads + h) * 2 * half;
            T* y = y_bshe + (r * heads + h) * 2 * half;
            row.each(half, [=](i64 i) {
                const A c = turn[2 * i], s = sign * turn[2 * i + 1], a = x[i], b = x[i + half];
                y[i] = T(a * c - b * s);
                y[i + half] = T(b * c + a * s);
            });
        }
    });
}

#define TRV_INSTANTIATE(T)                                                                                             \
    template void rope(const Exec&, const RopeShape&, const T*, const std::int32_t*, const Acc<T>*, bool, T*);
TRV_FOR_STORAGE(TRV_INSTANTIATE)

} // namespace trivium::kernels
