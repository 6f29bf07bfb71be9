#include "kernels/general/convolution.hpp"

#include "kernels/general/blocks.hpp"
#include "kernels/general/combine.hpp"
#include "kernels/instantiate.hpp"

namespace trivium::kernels {

/// The shape with 3 spatial dimensions, the added ones first.
struct Conv3 {
    i64 b, c, o, groups;
    i64 group_c, group_o; ///< channels per group
    i64 in[3], k[3], out[3], stride[3], low[3], dilation[3], base[3];
    i64 in_count, k_count, out_count;

    explicit Conv3(const ConvShape& s)
        : b(s.b), c(s.c), o(s.o), groups(s.groups), group_c(s.c / std::max<i64>(1, s.groups)),
          group_o(s.o / std::max<i64>(1, s.groups))
    {
        TRV_CHECK(s.spatial >= 1 && s.spatial <= 3 && s.groups >= 1 && s.c % s.groups == 0 &&
                      s.o % s.groups == 0,
                  "convolution: ", s.spatial, " spatial dimensions, ", s.c, " and ", s.o, " channels in ",
                  s.groups, " groups");
        const ConvShape one;
        for (int d = 0; d < 3; ++d) {
            const int from = d - (3 - s.spatial);
            const ConvShape& source = from < 0 ? one : s;
            const int at = from < 0 ? 0 : from;
            in[d] = source.in[at];
            k[d] = source.k[at];
            out[d] = source.out[at];
            stride[d] = source.stride[at];
            low[d] = source.low[at];
            dilation[d] = source.dilation[at];
            base[d] = source.base[at];
        }
        in_count = product_of(in, 3);
        k_count = product_of(k, 3);
        out_count = product_of(out, 3);
    }

    /// The place in x that output position p and tap t read in dimension d, or -1.
    TRV_HOST_DEVICE i64 source(int d, i64 p, i64 t) const
    {
        const i64 at = p * stride[d] - low[d] + t * dilation[d];
        if (at < 0 || at % base[d] != 0)
            return -1;
        return at / base[d] < in[d] ? at / base[d] : -1;
    }
    /// The output position that reads place i of x with tap t in dimension d, or -1.
    TRV_HOST_DEVICE i64 reader(int d, i64 i, i64 t) const
    {
        const i64 at = i * base[d] + low[d] - t * dilation[d];
        if (at < 0 || at % stride[d] != 0)
            return -1;
        return at / stride[d] < out[d] ? at / stride[d] : -1;
    }
};

/// The products of a channel's numbers, of these extents, with the taps of its weight, added up.
/// place(d, tap): the place in dimension d of the number that the tap meets, or -1.
template <class A, class T, class Place>
KOKKOS_FUNCTION A sum_of_taps(const Conv3& s, const i64* extents, const T* from, const T* weight,
                              const Place& place)
{
    A sum = 0;
    for (i64 t0 = 0; t0 < s.k[0]; ++t0) {
        const i64 i0 = place(0, t0);
        for (i64 t1 = 0; i0 >= 0 && t1 < s.k[1]; ++t1) {
            const i64 i1 = place(1, t1);
            for (i64 t2 = 0; i1 >= 0 && t2 < s.k[2]; ++t2)
                if (const i64 i2 = place(2, t2); i2 >= 0)
                    sum = plus(sum, times(static_cast<A>(from[(i0 * extents[1] + i1) * extents[2] + i2]),
                                          static_cast<A>(weight[(t0 * s.k[1] + t1) * s.k[2] + t2])));
        }
    }
    return sum;
}

template <class T>
void convolution(const Exec& exec, const ConvShape& shape, const T* x, const T* w, T* y)
{
    using A = Acc<T>;
    const Conv3 s(shape);
    for_blocks<loops_per_row>(
        exec, "convolution", s.b * s.o * s.out_count, KOKKOS_LAMBDA(i64 i) {
            i64 r = i, p[3];
            for (int d = 3; d-- > 0;)
                p[d] = take_last(r, s.out[d]);
            const i64 o = take_last(r, s.o);
            const T* from = x + (r * s.c + o / s.group_o * s.group_c) * s.in_count;
            const T* weight = w + o * s.group_c * s.k_count;
            A sum = 0;
            for (i64 c = 0; c < s.group_c; ++c, from += s.in_count, weight += s.k_count)
                sum = plus(sum, sum_of_taps<A>(s, s.in, from, weight,
                                               [&](int d, i64 tap) { return s.source(d, p[d], tap); }));
            y[i] = static_cast<T>(sum);
        });
}

template <class T>
void convolution_grad_x(const Exec& exec, const ConvShape& shape, const T* dy, const T* w, T* dx)
{
    using A = Acc<T>;
    const Conv3 s(shape);
    for_blocks<loops_per_row>(
        exec, "convolution_grad_x", s.b * s.c * s.in_count, KOKKOS_LAMBDA(i64 i) {
            i64 r = i, at[3];
            for (int d = 3; d-- > 0;)
                at[d] = take_last(r, s.in[d]);
            const i64 c = take_last(r, s.c), group = c / s.group_c;
            const T* from = dy + (r * s.o + group * s.group_o) * s.out_count;
            const T* weight = w + (group * s.group_o * s.group_c + c % s.group_c) * s.k_count;
            A sum = 0;
            for (i64 o = 0; o < s.group_o; ++o, from += s.out_count, weight += s.group_c * s.k_count)
                sum = plus(sum, sum_of_taps<A>(s, s.out, from, weight,
                                               [&](int d, i64 tap) { return s.reader(d, at[d], tap); }));
            dx[i] = static_cast<T>(sum);
        });
}

template <class T>
void convolution_grad_w(const Exec& exec, const ConvShape& shape, const T* dy, const T* x, T* dw)
{
    using A = Acc<T>;
    const Conv3 s(shape);
    for_blocks<loops_per_row>(
        exec, "convolution_grad_w", s.o * s.group_c * s.k_count, KOKKOS_LAMBDA(i64 i) {
            i64 r = i;
            const i64 t2 = take_last(r, s.k[2]), t1 = take_last(r, s.k[1]), t0 = take_last(r, s.k[0]);
            const i64 c_in_group = take_last(r, s.group_c); // r is now the channel of y
            const i64 c = c_in_group + r / s.group_o * s.group_c;
            A sum = 0;
            for (i64 b = 0; b < s.b; ++b) {
                const T* slope = dy + (b * s.o + r) * s.out_count;
                const T* const from = x + (b * s.c + c) * s.in_count;
                for (i64 p0 = 0; p0 < s.out[0]; ++p0) {
                    const i64 i0 = s.source(0, p0, t0);
                    for (i64 p1 = 0; p1 < s.out[1]; ++p1, slope += s.out[2]) {
                        const i64 i1 = s.source(1, p1, t1);
                        if (i0 < 0 || i1 < 0)
                            continue;
                        A part = 0;
                        for (i64 p2 = 0; p2 < s.out[2]; ++p2) {
                            const i64 i2 = s.source(2, p2, t2);
                            if (i2 >= 0)
                                part = plus(part,
                                            times(static_cast<A>(slope[p2]),
                                                  static_cast<A>(from[(i0 * s.in[1] + i1) * s.in[2] + i2])));
                        }
                        sum = plus(sum, part);
                    }
                }
            }
            dw[i] = static_cast<T>(sum);
        });
}

namespace {

template <class T>
void run_plain(const Exec& exec, ConvKind kind, const ConvShape& shape, const void* first, const void* second,
               void* result)
{
    const T *a = static_cast<const T*>(first), *b = static_cast<const T*>(second);
    switch (kind) {
    case ConvKind::forward: return convolution(exec, shape, a, b, static_cast<T*>(result));
    case ConvKind::grad_x: return convolution_grad_x(exec, shape, a, b, static_cast<T*>(result));
    case ConvKind::grad_w: return convolution_grad_w(exec, shape, a, b, static_cast<T*>(result));
    }
}

} // namespace

void plain_convolution(const Exec& exec, ConvKind kind, const ConvShape& shape, DType type, const void* first,
                       const void* second, void* result)
{
    with_tensor_type(type, [&](auto t) { run_plain<decltype(t)>(exec, kind, shape, first, second, result); });
}

TRV_FOR_TENSOR(convolution)
TRV_FOR_TENSOR(convolution_grad_x)
TRV_FOR_TENSOR(convolution_grad_w)

} // namespace trivium::kernels
