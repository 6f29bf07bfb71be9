#include "kernels/dropout.hpp"

#include "base/check.hpp"
#include "base/rng.hpp"
#include "kernels/instantiate.hpp"
#include "row_parallel.hpp"

namespace trivium::kernels {

template <class T>
void dropout(const Exec& exec, const DropoutShape& shape, const T* x_bsd, const std::int32_t* sample_bw,
             T* y_bsd)
{
    using A = Acc<T>;
    TRV_CHECK(shape.rate >= 0 && shape.rate < 1, "dropout of ", shape.rate);
    const i64 tokens = shape.tokens, columns = shape.columns, words = shape.words;
    const i64 first_token = shape.first_token, first_column = shape.first_column;
    const i64 first_block = first_column / 4, blocks = ceil_div(first_column + columns, 4) - first_block;
    const std::uint64_t key = shape.key;
    const SequenceOrder order = shape.order;
    const auto below = static_cast<std::uint32_t>(shape.rate * 0x1p32);
    const auto scale = static_cast<A>(1 / (1 - shape.rate));
    for_rows<T>(
        exec, "dropout", shape.sequences * tokens, columns, KOKKOS_LAMBDA(const Row& row, i64 r) {
            const T* x = x_bsd + r * columns;
            T* y = y_bsd + r * columns;
            const std::int32_t* sample = sample_bw + r / tokens * words;
            const auto low = static_cast<std::uint32_t>(words > 0 ? sample[0] : 0),
                       high = static_cast<std::uint32_t>(words > 1 ? sample[1] : 0),
                       token = static_cast<std::uint32_t>(order.position(first_token + r % tokens));
            row.each(blocks, [=](i64 b) {
                const i64 block = first_block + b;
                const PhiloxBlock bits = philox(key, {{static_cast<std::uint32_t>(block), token, low, high}});
                for (int j = 0; j < 4; ++j)
                    if (const i64 c = 4 * block + j - first_column; c >= 0 && c < columns)
                        y[c] = bits[j] < below ? T(A(0)) : T(scale * static_cast<A>(x[c]));
            });
        });
}

TRV_FOR_STORAGE(dropout)

} // namespace trivium::kernels
