#pragma once
// Adds rows to the rows of a table. device/scatter_rows.hpp has the same function.
#include "kernels/embedding.hpp"
#include "row_parallel.hpp"

namespace trivium::kernels {
inline namespace on_host {

/// table_vd[token_c[i] - row_offset] += x_cd[i] in the order of i, if the token is in the table.
template <class T>
void scatter_rows(const Exec& exec, const EmbeddingShape& shape, const T* x_cd, const std::int32_t* token_c,
                  Acc<T>* table_vd)
{
    // A token may occur many times: split by columns, so that each sum has one owner and one order.
    constexpr i64 width = 64;
    const i64 dim = shape.dim, rows = shape.rows, offset = shape.row_offset, count = shape.count;
    for_rows<T>(exec, "scatter_rows", ceil_div(dim, width), width, [=](const Row& row, i64 block) {
        const i64 begin = block * width, n = std::min(width, dim - begin);
        for (i64 c = 0; c < count; ++c) {
            const i64 v = token_c[c] - offset;
            if (v < 0 || v >= rows)
                continue;
            Acc<T>* to = table_vd + v * dim + begin;
            row.map(
                n, [](Acc<T> sum, Acc<T> more) { return sum + more; }, to, to, x_cd + c * dim + begin);
        }
    });
}

} // namespace on_host
} // namespace trivium::kernels
