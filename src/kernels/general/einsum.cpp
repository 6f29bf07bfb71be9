#include "kernels/general/einsum.hpp"

#include "kernels/general/blocks.hpp"
#include "kernels/general/combine.hpp"
#include "kernels/instantiate.hpp"

namespace trivium::kernels {

template <class T, class To>
void einsum(const Exec& exec, const EinsumShape& shape, const T* a, const T* b, To* c, bool overwrite)
{
    using A = Acc<T>;
    TRV_CHECK(shape.factors <= most_dims && shape.reduced <= shape.factors, "einsum: ", shape.factors,
              " factors, ", shape.reduced, " reduced; at most ", most_dims);
    const int kept = shape.factors - shape.reduced, last = shape.factors - 1;
    // The last reduced factor is the innermost loop.
    const i64 run = shape.reduced > 0 ? shape.size[last] : 1;
    const i64 outer = shape.reduced > 0 ? product_of(shape.size + kept, shape.reduced - 1) : 1;
    const i64 step_a = shape.reduced > 0 ? shape.a[last] : 0, step_b = shape.reduced > 0 ? shape.b[last] : 0;
    const EinsumShape s = shape;
    for_blocks<loops_per_row>(
        exec, "einsum", product_of(shape.size, kept), KOKKOS_LAMBDA(i64 r) {
            const T *from_a = a, *from_b = b;
            To* to = c;
            for (int d = kept - 1; d >= 0; --d) {
                const i64 i = take_last(r, s.size[d]);
                from_a += i * s.a[d];
                from_b += i * s.b[d];
                to += i * s.c[d];
            }
            A sum = 0;
            for (i64 o = 0; o < outer; ++o) {
                const T *in_a = from_a, *in_b = from_b;
                i64 index = o;
                for (int d = last - 1; d >= kept; --d) {
                    const i64 i = take_last(index, s.size[d]);
                    in_a += i * s.a[d];
                    in_b += i * s.b[d];
                }
                A part = 0;
                for (i64 i = 0; i < run; ++i)
                    part =
                        plus(part, times(static_cast<A>(in_a[i * step_a]), static_cast<A>(in_b[i * step_b])));
                sum = plus(sum, part);
            }
            *to = static_cast<To>(overwrite ? sum : plus(static_cast<A>(*to), sum));
        });
}

TRV_KERNEL(einsum<double, double>)
TRV_KERNEL(einsum<float, float>)
TRV_KERNEL(einsum<bf16, bf16>)
TRV_KERNEL(einsum<std::int32_t, std::int32_t>)
TRV_KERNEL(einsum<bf16, float>)

} // namespace trivium::kernels
