#include "kernels/cache.hpp"

#include "kernels/instantiate.hpp"
#include "row_parallel.hpp"

namespace trivium::kernels {

template <class T>
void cache_write(const Exec& exec, const CacheShape& shape, const T* x_bsw, const std::int32_t* start, T* cache_btw)
{
    const i64 seq = shape.seq, capacity = shape.capacity, width = shape.width;
    for_rows(exec, "cache_write", shape.batch * seq, KOKKOS_LAMBDA(const Row& row, i64 r) {
        const T* x = x_bsw + r * width;
        T* to = cache_btw + (r / seq * capacity + *start + r % seq) * width;
        row.each(width, [=](i64 i) { to[i] = x[i]; });
    });
}

template <class T>
void select_row(const Exec& exec, const CacheShape& shape, const T* x_btw, const std::int32_t* row, T* y_bw)
{
    const i64 capacity = shape.capacity, width = shape.width;
    for_rows(exec, "select_row", shape.batch, KOKKOS_LAMBDA(const Row& lanes, i64 b) {
        const T* x = x_btw + (b * capacity + *row) * width;
        T* to = y_bw + b * width;
        lanes.each(width, [=](i64 i) { to[i] = x[i]; });
    });
}

#define TRV_INSTANTIATE(T)                                                                                             \
    template void cache_write(const Exec&, const CacheShape&, const T*, const std::int32_t*, T*);                      \
    template void select_row(const Exec&, const CacheShape&, const T*, const std::int32_t*, T*);
TRV_FOR_STORAGE(TRV_INSTANTIATE)

} // namespace trivium::kernels
