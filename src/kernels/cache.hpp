#pragma once
// The key/value cache of generation.
#include "kernels/exec.hpp"

namespace trivium::kernels {

struct CacheShape {
    i64 batch = 0, capacity = 0, seq = 0;
    i64 width = 0; ///< kv_heads * head_dim
};

/// cache[b, start[b] + s, :] = x[b, s, :]. \pre 0 <= start[b] and start[b] + seq <= capacity (not checked)
template <class T>
void cache_write(const Exec& exec, const CacheShape& shape, const T* x_bsw, const std::int32_t* start_b,
                 T* cache_btw);

/// y[b, :] = x[b, row[b], :] with x [batch, capacity, width]; shape.seq is not used.
/// \pre 0 <= row[b] < capacity (not checked)
template <class T>
void select_row(const Exec& exec, const CacheShape& shape, const T* x_btw, const std::int32_t* row_b,
                T* y_bw);

} // namespace trivium::kernels
