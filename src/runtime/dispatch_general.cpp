#include "runtime/dispatch_general.hpp"

#include "base/check.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/general/indexing.hpp"
#include "kernels/general/ordering.hpp"
#include "kernels/general/pointwise.hpp"
#include "kernels/general/reduction.hpp"
#include "runtime/general_shapes.hpp"

namespace trivium {

namespace k = kernels;

namespace {

/// The shape as [outer, n, inner], where n is dimension `dim`.
k::Lines lines_along(const Shape& shape, i64 dim)
{
    k::Lines lines;
    for (std::size_t d = 0; d < shape.size(); ++d)
        (static_cast<i64>(d) < dim    ? lines.outer
         : static_cast<i64>(d) == dim ? lines.n
                                      : lines.inner) *= shape[d];
    return lines;
}

template <class T>
Call copies(const Args& a, const k::IndexMap& map, double value = 0)
{
    return call_of(k::index_copy<T>, map, value, a.in<T>(0), a.out<T>(0));
}

/// Result 0 = operand i, bit for bit.
template <class T>
Call bind_copy(const Args& a, int i)
{
    return [n = a.n(i), x = a.in<T>(i), y = a.out<T>(0)](const k::Exec& e) {
        if (x != y)
            k::copy_rows(e, 1, n, x, n, y, n);
    };
}

template <class T>
Call bind_concatenate(const Args& a)
{
    const i64 dim = a.list(Attr::dims)[0];
    const auto at = static_cast<std::size_t>(dim);
    const Shape& out = a.out_shape(0);
    const i64 inner = lines_along(out, dim).inner;
    struct Part {
        k::IndexMap map;
        const T* x;
        T* y;
    };
    std::vector<Part> parts;
    i64 begin = 0;
    for (int i = 0; i < static_cast<int>(a.b.op->operands.size()); ++i) {
        if (a.n(i) > 0)
            parts.push_back({k::concatenate_map(a.in_shape(i), static_cast<int>(dim), out[at]), a.in<T>(i),
                             a.out<T>(0) + begin * inner});
        begin += a.in_shape(i)[at];
    }
    return [parts](const k::Exec& e) {
        for (const Part& part : parts)
            k::index_copy(e, part.map, 0, part.x, part.y);
    };
}

template <class T>
Call bind_reduce(const Args& a)
{
    k::ReduceShape s;
    s.rank = checked_rank(a.in_shape(0));
    put(s.extents, a.in_shape(0));
    for (const i64 d : a.list(Attr::dims))
        s.reduced[d] = true;
    return call_of(k::reduce<T>, s, combine_of(a), a.in<T>(0), a.out<T>(0));
}

/// The order first, in the scratch; then every operand in this order.
template <class T>
Call bind_sort(const Args& a)
{
    const k::Lines lines = lines_along(a.in_shape(0), a.list(Attr::dims)[0]);
    TRV_CHECK(a.scratch().size >= a.n(0) * 4, "a sort of ", a.n(0), " elements with ", a.scratch().size,
              " bytes of scratch");
    auto* const order = static_cast<std::int32_t*>(a.scratch().data);
    std::vector<Call> takes;
    for (int i = 0; i < static_cast<int>(a.b.op->operands.size()); ++i)
        takes.push_back(with_tensor_type(a.in_type(i).dtype, [&](auto t) {
            using U = decltype(t);
            return call_of(k::take_along<U>, lines, a.in<U>(i), order, a.out<U>(i));
        }));
    return [lines, order, takes, descending = a.number_or(Attr::descending, 0) != 0,
            keys = a.in<T>(0)](const k::Exec& e) {
        k::sort_order(e, lines, descending, keys, order);
        for (const Call& take : takes)
            take(e);
    };
}

/// Copies of `part` elements of each row, to or from rows of `whole` that begin `offset` elements later.
struct RowCopy {
    i64 rows = 1, part = 1, whole = 1, offset = 0;

    /// The rows of a tensor of `shape` of which dimension `dim` is cut at `begin` for `extent`.
    RowCopy(const Shape& shape, std::size_t dim, i64 begin, i64 extent)
    {
        const k::Lines lines = lines_along(shape, static_cast<i64>(dim));
        rows = lines.outer;
        part = extent * lines.inner;
        whole = lines.n * lines.inner;
        offset = begin * lines.inner;
    }
};

template <class T>
Call bind_slice(const Args& a)
{
    const Shape &in = a.in_shape(0), &out = a.out_shape(0);
    const auto stride = a.list_or(Attr::stride, in.size(), 1);
    std::vector<std::size_t> cut;
    bool dense = true;
    for (std::size_t d = 0; d < in.size(); ++d) {
        if (in[d] != out[d])
            cut.push_back(d);
        dense = dense && (stride[d] == 1 || out[d] == 1);
    }
    if (cut.size() > 1 || !dense)
        return copies<T>(a, k::slice_map(in, a.list(Attr::start), a.list(Attr::limit), stride));
    if (cut.empty())
        cut.push_back(0);
    if (in.empty())
        return copies<T>(a, k::IndexMap{});
    const RowCopy c(in, cut[0], a.list(Attr::start)[cut[0]], out[cut[0]]);
    return call_of(k::copy_rows<T>, c.rows, c.part, a.in<T>(0) + c.offset, c.whole, a.out<T>(0), c.part);
}

template <class T>
Call bind_general_op(const Args& a)
{
    switch (a.b.op->kind) {
    case OpKind::iota: {
        const i64 dim = a.list(Attr::dims)[0];
        const k::Lines s = lines_along(a.out_shape(0), dim);
        const i64 first = a.find(Attr::begin) ? a.list(Attr::begin)[static_cast<std::size_t>(dim)] : 0;
        return call_of(k::iota<T>, s.outer, s.n, s.inner, first, a.out<T>(0));
    }
    case OpKind::reduce: return bind_reduce<T>(a);
    case OpKind::broadcast:
        return copies<T>(a, k::broadcast_map(a.in_shape(0), a.list(Attr::dims), a.out_shape(0)));
    case OpKind::transpose: return copies<T>(a, k::transpose_map(a.in_shape(0), a.list(Attr::dims)));
    case OpKind::reshape:
    case OpKind::local: // only in a graph that was never partitioned
    case OpKind::global: return bind_copy<T>(a, 0);
    case OpKind::slice: return bind_slice<T>(a);
    case OpKind::pad: {
        const auto interior = a.list_or(Attr::interior, a.in_shape(0).size(), 0);
        return copies<T>(a, k::pad_map(a.in_shape(0), a.list(Attr::low), a.list(Attr::high), interior),
                         *a.attrs().value);
    }
    case OpKind::concatenate: return bind_concatenate<T>(a);
    case OpKind::reverse: return copies<T>(a, k::reverse_map(a.in_shape(0), a.list(Attr::dims)));
    case OpKind::sort: return bind_sort<T>(a);
    case OpKind::top_k:
        return call_of(k::top_k<T>, a.rows(0), a.last(0), a.list(Attr::count)[0], i64{0}, a.in<T>(0),
                       a.out<T>(0), a.out<std::int32_t>(1));
    case OpKind::cumsum:
        return call_of(k::cumsum<T>, lines_along(a.in_shape(0), a.list(Attr::dims)[0]),
                       a.number_or(Attr::backwards, 0) != 0, a.in<T>(0), a.out<T>(0));
    default: return {};
    }
}

} // namespace

Call bind_general(const Binding& binding)
{
    const Args a{binding};
    if (Call call = bind_windows(binding))
        return call;
    if (binding.op->results.empty())
        return {};
    const DType type = (binding.op->operands.empty() ? a.out_type(0) : a.in_type(0)).dtype; // iota has none
    return with_tensor_type(type, [&](auto t) { return bind_general_op<decltype(t)>(a); });
}

Call bind_integers(const Binding& binding)
{
    const Args a{binding};
    if (binding.op->operands.empty() || binding.op->results.empty())
        return {};
    const DType in = a.in_type(0).dtype, out = a.out_type(0).dtype;
    if (in != DType::i32 && out != DType::i32)
        return {};
    const auto copy = [&](int i) { return bind_copy<std::int32_t>(a, i); };
    switch (binding.op->kind) {
    case OpKind::accumulate:
        if (a.over())
            return copy(0);
        return call_of(k::binary<std::int32_t>, k::Binary::add, a.n(0), a.ids(0), a.out<std::int32_t>(0),
                       a.out<std::int32_t>(0));
    case OpKind::transfer:
    case OpKind::reshard: return copy(0);
    case OpKind::copy_into: return copy(1);
    default: return {};
    }
}

Call bind_parts(const Binding& binding)
{
    const Args a{binding};
    const bool splits = a.b.op->kind == OpKind::split;
    const Shape& whole = splits ? a.in_type(0).shape : a.out_type(0).shape;
    const auto count = static_cast<int>(splits ? a.b.op->results.size() : a.b.op->operands.size());
    const std::size_t dim = divided_dim(*a.b.graph, *a.b.op);
    std::vector<RowCopy> copies;
    i64 begin = 0;
    for (int i = 0; i < count; ++i) {
        const i64 extent = (splits ? a.out_type(i) : a.in_type(i)).shape[dim];
        copies.emplace_back(whole, dim, begin, extent);
        begin += extent;
    }
    return with_tensor_type(a.in_type(0).dtype, [&](auto t) -> Call {
        using T = decltype(t);
        std::vector<std::pair<const T*, T*>> ends;
        for (int i = 0; i < count; ++i) {
            const i64 offset = copies[static_cast<std::size_t>(i)].offset;
            ends.emplace_back(splits ? a.in<T>(0) + offset : a.in<T>(i),
                              splits ? a.out<T>(i) : a.out<T>(0) + offset);
        }
        return [splits, copies, ends](const k::Exec& e) {
            for (std::size_t i = 0; i < copies.size(); ++i) {
                const RowCopy& c = copies[i];
                k::copy_rows(e, c.rows, c.part, ends[i].first, splits ? c.whole : c.part, ends[i].second,
                             splits ? c.part : c.whole);
            }
        };
    });
}

} // namespace trivium
