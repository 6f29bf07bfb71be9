#include "ir/general/general_rules.hpp"
#include "ir/general/op_view.hpp"
#include "kernels/general/dynamic_slice.hpp"
#include "kernels/general/gather_scatter.hpp"
#include "kernels/general/pooling.hpp"
#include "runtime/dispatch_general.hpp"
#include "runtime/general_shapes.hpp"

namespace trivium {

namespace k = kernels;

namespace {

/// `in`, `out`: extents of what is pooled, and of the result.
k::PoolShape pool_shape(const Args& a, const Shape& in, const Shape& out)
{
    const std::vector<i64>& window = a.list(Attr::window);
    const auto dims = general::window_dims(OpView(*a.b.graph, *a.b.op), window);
    k::PoolShape s;
    s.rank = checked_rank(in);
    put(s.in, in);
    put(s.out, out);
    put(s.window, window);
    put_windows(s, dims);
    return s;
}

/// Operands dy, x. `begin` has the places of dy, x and the result in the whole tensors.
template <class T>
Call bind_pool_grad(const Args& a)
{
    const Shape whole = a.find(Attr::whole) ? a.list(Attr::whole) : a.in_shape(1);
    const auto n = whole.size();
    const auto dims = general::window_dims(OpView(*a.b.graph, *a.b.op), a.list(Attr::window));
    Shape windows(n);
    for (std::size_t d = 0; d < n; ++d)
        windows[d] = dims[d].count(whole[d]);
    k::PoolGradShape s;
    s.windows = pool_shape(a, whole, windows);
    const auto begin = a.list_or(Attr::begin, 3 * n, 0);
    for (std::size_t d = 0; d < n; ++d) {
        s.dy_begin[d] = begin[d];
        s.x_begin[d] = begin[n + d];
        s.dx_begin[d] = begin[2 * n + d];
    }
    put(s.dy_extent, a.in_shape(0));
    put(s.x_extent, a.in_shape(1));
    put(s.dx_extent, a.out_shape(0));
    const k::Combine how = combine_of(a);
    TRV_CHECK(how == k::Combine::max || how == k::Combine::min,
              "the gradient of a sum or product over windows");
    TRV_CHECK(a.scratch().size >= a.n(0) * 4, "a gradient of ", a.n(0), " windows with ", a.scratch().size,
              " bytes of scratch");
    return call_of(k::pool_extremum_grad<T>, s, how, a.in<T>(0), a.in<T>(1),
                   static_cast<std::int32_t*>(a.scratch().data), a.out<T>(0));
}

/// Where a rank's parts of the tensor and of the slice lie in the whole ones.
k::DynamicSliceShape slice_shape(const Args& a, const Shape& slice)
{
    const Shape& x = a.in_shape(0);
    const auto n = x.size();
    k::DynamicSliceShape s;
    s.rank = checked_rank(x);
    put(s.whole, a.find(Attr::whole) ? a.list(Attr::whole) : x);
    put(s.extent, x);
    put(s.size, a.find(Attr::slice_sizes) ? a.list(Attr::slice_sizes) : slice);
    put(s.slice_extent, slice);
    const auto begin = a.list_or(Attr::begin, 2 * n, 0);
    for (std::size_t d = 0; d < n; ++d) {
        s.begin[d] = begin[d];
        s.slice_begin[d] = begin[n + d];
    }
    return s;
}

k::DynamicStarts starts_from(const Args& a, int first)
{
    k::DynamicStarts starts;
    for (int i = first; i < static_cast<int>(a.b.op->operands.size()); ++i)
        starts.of[i - first] = a.ids(i);
    return starts;
}

k::DimList dim_list(const Args& a, Attr attr)
{
    k::DimList list;
    for (const i64 dim : a.list_or(attr, 0, 0)) {
        TRV_CHECK(list.count < 16, "a list of more than 16 dimensions");
        list.of[list.count++] = static_cast<int>(dim);
    }
    return list;
}

/// `slices`: the extents of gather's result or of scatter's updates.
k::GatherShape gather_shape(const Args& a, const Shape& slices)
{
    const Shape &operand = a.in_shape(0), &indices = a.in_shape(1);
    const auto n = operand.size();
    const auto whole = a.find(Attr::whole) ? a.list(Attr::whole) : operand;
    const auto begin = a.list_or(Attr::begin, n, 0);
    k::GatherShape s;
    if (a.find(Attr::clamp))
        s.clamps = a.list(Attr::clamp)[0] != 0;
    s.rank = checked_rank(operand);
    s.index_rank = checked_rank(indices);
    s.index_dim = static_cast<int>(a.number_or(Attr::index_dim, s.index_rank));
    put(s.whole, whole);
    put(s.begin, begin);
    put(s.extent, operand);
    put(s.indices, indices);
    s.offset_dims = dim_list(a, Attr::offset_dims);
    s.collapsed_dims = dim_list(a, Attr::collapsed_dims);
    s.batch_dims = dim_list(a, Attr::batch_dims);
    s.index_batch_dims = dim_list(a, Attr::index_batch_dims);
    s.index_map = dim_list(a, Attr::index_map);
    // The slices' extent along each dimension of the operand.
    Shape local(n, 1);
    int next = 0;
    for (int d = 0; d < s.rank; ++d)
        if (!s.collapsed_dims.contains(d) && !s.batch_dims.contains(d))
            local[static_cast<std::size_t>(d)] = slices[static_cast<std::size_t>(s.offset_dims.of[next++])];
    const auto sizes = a.find(Attr::slice_sizes) ? a.list(Attr::slice_sizes) : local;
    put(s.sizes, sizes);
    put(s.slice_extent, local);
    for (std::size_t d = 0; d < n; ++d) // a window over a whole dimension is in parts like the operand
        s.slice_begin[d] = local[d] != sizes[d] ? begin[d] : 0;
    return s;
}

template <class T>
Call bind_window_op(const Args& a)
{
    switch (a.b.op->kind) {
    case OpKind::pool:
        return call_of(k::pool<T>, pool_shape(a, a.in_shape(0), a.out_shape(0)), combine_of(a), a.in<T>(0),
                       a.out<T>(0));
    case OpKind::pool_grad: return bind_pool_grad<T>(a);
    case OpKind::dynamic_slice:
        return call_of(k::dynamic_slice<T>, slice_shape(a, a.out_shape(0)), a.in<T>(0), starts_from(a, 1),
                       a.out<T>(0));
    case OpKind::dynamic_update_slice:
        return call_of(k::dynamic_update_slice<T>, slice_shape(a, a.in_shape(1)), a.in<T>(0), a.in<T>(1),
                       starts_from(a, 2), a.out<T>(0));
    case OpKind::gather:
        return call_of(k::gather<T>, gather_shape(a, a.out_shape(0)), a.in<T>(0), a.ids(1), a.out<T>(0));
    case OpKind::scatter:
        return call_of(k::scatter<T>, gather_shape(a, a.in_shape(2)),
                       a.attrs().combine ? combine_of(a) : k::Combine::set, !a.attrs().value, a.in<T>(0),
                       a.ids(1), a.in<T>(2), a.out<T>(0));
    default: return {};
    }
}

} // namespace

Call bind_windows(const Binding& binding)
{
    if (binding.op->operands.empty())
        return {};
    const Args a{binding};
    return with_tensor_type(a.in_type(0).dtype, [&](auto t) { return bind_window_op<decltype(t)>(a); });
}

} // namespace trivium
