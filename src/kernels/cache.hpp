#pragma once
// The key/value cache of generation.
#include "kernels/exec.hpp"

namespace trivium::kernels {

struct CacheShape {
    i64 batch = 0, capacity = 0, seq = 0;
    i64 width = 0; ///< kv_heads * head_dim
};

/// cache[b, *start + s, :] = x[b, s, :]. \pre 0 <= *start and *start + seq <= capacity (not checked)
template <class T>
void cache_write(const Exec& exec, const CacheShape& shape, const T* x_bsw, const std::int32_t* start,
                 T* cache_btw);

/// y[b, :] = x[b, *row, :] with x [batch, capacity, width]; shape.seq is not used.
/// \pre 0 <= *row < capacity (not checked)
template <class T>
void select_row(const Exec& exec, const CacheShape& shape, const T* x_btw, const std::int32_t* row, T* y_bw);

} // namespace trivium::kernels
