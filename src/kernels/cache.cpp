#include "kernels/cache.hpp"

#include "kernels/instantiate.hpp"
#include "row_parallel.hpp"

namespace trivium::kernels {

template <class T>
void cache_write(const Exec& exec, const CacheShape& shape, const T* x_bsw, const std::int32_t* start_b,
                 T* cache_btw)
{
    const i64 seq = shape.seq, capacity = shape.capacity, width = shape.width;
    for_rows<T>(
        exec, "cache_write", shape.batch * seq, width, KOKKOS_LAMBDA(const Row& row, i64 r) {
            const i64 b = r / seq;
            row.copy(width, x_bsw + r * width, cache_btw + (b * capacity + start_b[b] + r % seq) * width);
        });
}

template <class T>
void select_row(const Exec& exec, const CacheShape& shape, const T* x_btw, const std::int32_t* row_b, T* y_bw)
{
    const i64 capacity = shape.capacity, width = shape.width;
    for_rows<T>(
        exec, "select_row", shape.batch, width, KOKKOS_LAMBDA(const Row& lanes, i64 b) {
            lanes.copy(width, x_btw + (b * capacity + row_b[b]) * width, y_bw + b * width);
        });
}

TRV_FOR_STORAGE(cache_write)
TRV_FOR_STORAGE(select_row)

} // namespace trivium::kernels
