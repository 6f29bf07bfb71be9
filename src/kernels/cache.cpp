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

#define TRV_INSTANTIATE(T)                                                                                             \
    template void cache_write(const Exec&, const CacheShape&, const T*, const std::int32_t*, T*);
TRV_FOR_STORAGE(TRV_INSTANTIATE)

} // namespace trivium::kernels
