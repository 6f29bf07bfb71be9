#include "naive_ops.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace trivium::runs {

namespace {

using Index = std::vector<i64>;

/// Every index of a shape, in row-major order.
std::vector<Index> indices_of(const Shape& shape)
{
    std::vector<Index> all = {{}};
    for (const i64 extent : shape) {
        std::vector<Index> longer;
        for (const Index& index : all)
            for (i64 i = 0; i < extent; ++i) {
                longer.push_back(index);
                longer.back().push_back(i);
            }
        all = std::move(longer);
    }
    return all;
}

bool inside(const Shape& shape, const Index& index)
{
    for (std::size_t d = 0; d < shape.size(); ++d)
        if (index[d] < 0 || index[d] >= shape[d])
            return false;
    return true;
}

struct View {
    const Shape& shape;
    const std::vector<double>& cells;
    double operator()(const Index& index) const { return cells[place(index)]; }
    std::size_t place(const Index& index) const
    {
        i64 at = 0;
        for (std::size_t d = 0; d < shape.size(); ++d)
            at = at * shape[d] + index[d];
        return static_cast<std::size_t>(at);
    }
};

double joined(std::optional<Combine> combine, double a, double b)
{
    if (!combine)
        return b;
    if (std::isnan(a) || std::isnan(b))
        return std::nan("");
    switch (*combine) {
    case Combine::max: return std::max(a, b);
    case Combine::min: return std::min(a, b);
    case Combine::product: return a * b;
    default: return a + b;
    }
}

double identity(Combine combine, DType type)
{
    const bool integer = type == DType::i32;
    const double inf = std::numeric_limits<double>::infinity();
    switch (combine) {
    case Combine::max: return integer ? static_cast<double>(INT32_MIN) : -inf;
    case Combine::min: return integer ? static_cast<double>(INT32_MAX) : inf;
    case Combine::product: return 1;
    default: return 0;
    }
}

struct Naive {
    OpKind kind;
    const Attributes& attrs;
    const std::vector<Array>& in;
    std::vector<Array> out;

    Index list(Attr attr) const { return attrs.lists.find(attr) ? *attrs.lists.find(attr) : Index{}; }
    Index list(Attr attr, std::size_t n, i64 otherwise) const
    {
        return attrs.lists.find(attr) ? *attrs.lists.find(attr) : Index(n, otherwise);
    }
    i64 number(Attr attr, i64 otherwise) const { return list(attr, 1, otherwise)[0]; }
    const Shape& shape(std::size_t i) const { return in[i].type.shape; }
    View x(std::size_t i = 0) const { return {in[i].type.shape, in[i].cells}; }
    const Shape& made(std::size_t r = 0) const { return out[r].type.shape; }
    double& y(const Index& index, std::size_t r = 0)
    {
        return out[r].cells[View{out[r].type.shape, out[r].cells}.place(index)];
    }
    bool lists(Attr attr, std::size_t d) const
    {
        const Index dims = list(attr);
        return std::find(dims.begin(), dims.end(), static_cast<i64>(d)) != dims.end();
    }
    /// y[i] = f(i) for every index.
    void each(const std::function<double(const Index&)>& f)
    {
        for (const Index& i : indices_of(made()))
            y(i) = f(i);
    }
    void pointwise()
    {
        const bool integer = in.empty() ? false : in[0].type.dtype == DType::i32;
        for (std::size_t i = 0; i < out[0].cells.size(); ++i) {
            const auto arg = [&](std::size_t k) { return in[k].cells[i]; };
            out[0].cells[i] = naive_element(kind, attrs, integer, out[0].type.dtype,
                                            {arg(0), in.size() > 1 ? arg(1) : 0, in.size() > 2 ? arg(2) : 0});
        }
    }
    void reduce()
    {
        const Combine how = *attrs.combine;
        std::fill(out[0].cells.begin(), out[0].cells.end(), identity(how, in[0].type.dtype));
        for (const Index& i : indices_of(shape(0))) {
            Index kept;
            for (std::size_t d = 0; d < i.size(); ++d)
                if (!lists(Attr::dims, d))
                    kept.push_back(i[d]);
            y(kept) = joined(how, y(kept), x()(i));
        }
    }
    void broadcast()
    {
        const Index dims = list(Attr::dims);
        each([&](const Index& i) {
            Index from;
            for (std::size_t d = 0; d < dims.size(); ++d)
                from.push_back(shape(0)[d] == 1 ? 0 : i[static_cast<std::size_t>(dims[d])]);
            return x()(from);
        });
    }
    void transpose()
    {
        const Index dims = list(Attr::dims);
        for (const Index& i : indices_of(shape(0))) {
            Index to;
            for (const i64 d : dims)
                to.push_back(i[static_cast<std::size_t>(d)]);
            y(to) = x()(i);
        }
    }
    void slice()
    {
        const Index start = list(Attr::start), stride = list(Attr::stride, start.size(), 1);
        each([&](Index i) {
            for (std::size_t d = 0; d < i.size(); ++d)
                i[d] = start[d] + i[d] * stride[d];
            return x()(i);
        });
    }
    void pad()
    {
        const Index low = list(Attr::low), interior = list(Attr::interior, low.size(), 0);
        each([&](const Index&) { return rounded(*attrs.value, in[0].type.dtype); });
        for (const Index& i : indices_of(shape(0))) {
            Index to = i;
            for (std::size_t d = 0; d < i.size(); ++d)
                to[d] = low[d] + i[d] * (interior[d] + 1);
            if (inside(made(), to))
                y(to) = x()(i);
        }
    }
    void concatenate()
    {
        const auto dim = static_cast<std::size_t>(list(Attr::dims)[0]);
        i64 begin = 0;
        for (std::size_t k = 0; k < in.size(); ++k) {
            for (Index i : indices_of(shape(k))) {
                const double value = x(k)(i);
                i[dim] += begin;
                y(i) = value;
            }
            begin += shape(k)[dim];
        }
    }
    void reverse()
    {
        each([&](Index i) {
            for (std::size_t d = 0; d < i.size(); ++d)
                if (lists(Attr::dims, d))
                    i[d] = shape(0)[d] - 1 - i[d];
            return x()(i);
        });
    }
    Index starts(std::size_t first, const Shape& sizes) const
    {
        Index at;
        for (std::size_t d = 0; d < sizes.size(); ++d)
            at.push_back(
                std::clamp(static_cast<i64>(in[first + d].cells[0]), i64{0}, shape(0)[d] - sizes[d]));
        return at;
    }
    void dynamic_slice()
    {
        const Index at = starts(1, made());
        each([&](Index i) {
            for (std::size_t d = 0; d < i.size(); ++d)
                i[d] += at[d];
            return x()(i);
        });
    }
    void dynamic_update_slice()
    {
        out[0].cells = in[0].cells;
        const Index at = starts(2, shape(1));
        for (Index i : indices_of(shape(1))) {
            const double value = x(1)(i);
            for (std::size_t d = 0; d < i.size(); ++d)
                i[d] += at[d];
            y(i) = value;
        }
    }
    /// The place in the operand of the element `i` of the slices, as the specification of gather has it.
    Index slice_place(const Index& i, const Shape& sizes, bool clamp) const
    {
        const Shape &operand = shape(0), &indices = shape(1);
        const auto index_dim =
            static_cast<std::size_t>(number(Attr::index_dim, static_cast<i64>(indices.size())));
        Index batch, offset;
        for (std::size_t d = 0; d < i.size(); ++d)
            (lists(Attr::offset_dims, d) ? offset : batch).push_back(i[d]);
        const Index map = list(Attr::index_map), batch_dims = list(Attr::batch_dims),
                    index_batch = list(Attr::index_batch_dims);
        Index full(operand.size(), 0);
        for (std::size_t k = 0; k < map.size(); ++k) {
            Index at = batch;
            if (index_dim < indices.size())
                at.insert(at.begin() + static_cast<std::ptrdiff_t>(index_dim), static_cast<i64>(k));
            const auto d = static_cast<std::size_t>(map[k]);
            full[d] = static_cast<i64>(x(1)(at));
            if (clamp)
                full[d] = std::clamp(full[d], i64{0}, operand[d] - sizes[d]);
        }
        for (std::size_t k = 0; k < batch_dims.size(); ++k) {
            const i64 at = index_batch[k] - (index_batch[k] > static_cast<i64>(index_dim) ? 1 : 0);
            full[static_cast<std::size_t>(batch_dims[k])] += batch[static_cast<std::size_t>(at)];
        }
        std::size_t next = 0;
        for (std::size_t d = 0; d < operand.size(); ++d)
            if (!lists(Attr::collapsed_dims, d) && !lists(Attr::batch_dims, d))
                full[d] += offset[next++];
        return full;
    }
    void gather()
    {
        each([&](const Index& i) {
            const Index at = slice_place(i, list(Attr::slice_sizes), number(Attr::clamp, 1) != 0);
            return inside(shape(0), at) ? x()(at) : 0;
        });
    }
    void scatter()
    {
        Shape sizes(shape(0).size(), 1);
        const Index offset = list(Attr::offset_dims);
        std::size_t next = 0;
        for (std::size_t d = 0; d < sizes.size(); ++d)
            if (!lists(Attr::collapsed_dims, d) && !lists(Attr::batch_dims, d))
                sizes[d] = shape(2)[static_cast<std::size_t>(offset[next++])];
        out[0].cells = in[0].cells;
        for (const Index& i : indices_of(shape(2)))
            if (const Index at = slice_place(i, sizes, number(Attr::clamp, 0) != 0); inside(made(), at))
                y(at) = rounded(joined(attrs.combine, y(at), x(2)(i)), out[0].type.dtype);
    }
    void sort()
    {
        const auto dim = static_cast<std::size_t>(list(Attr::dims)[0]);
        Shape lines = shape(0);
        const i64 n = lines[dim];
        lines[dim] = 1;
        for (const Index& line : indices_of(lines)) {
            std::vector<Index> order(static_cast<std::size_t>(n), line);
            for (i64 k = 0; k < n; ++k)
                order[static_cast<std::size_t>(k)][dim] = k;
            std::stable_sort(order.begin(), order.end(), [&](const Index& a, const Index& b) {
                const double p = x()(a), q = x()(b);
                if (std::isnan(p) || std::isnan(q))
                    return !std::isnan(p) && std::isnan(q);
                return number(Attr::descending, 0) != 0 ? p > q : p < q;
            });
            for (std::size_t r = 0; r < in.size(); ++r)
                for (i64 k = 0; k < n; ++k) {
                    Index to = line;
                    to[dim] = k;
                    y(to, r) = x(r)(order[static_cast<std::size_t>(k)]);
                }
        }
    }
    void top_k()
    {
        Shape rows = shape(0);
        const i64 n = rows.back();
        rows.pop_back();
        for (const Index& row : indices_of(rows)) {
            std::vector<bool> taken(static_cast<std::size_t>(n));
            for (i64 k = 0; k < made().back(); ++k) {
                Index at = row, best;
                at.push_back(0);
                for (i64& i = at.back(); i < n; ++i)
                    if (!taken[static_cast<std::size_t>(i)] && (best.empty() || x()(at) > x()(best)))
                        best = at;
                taken[static_cast<std::size_t>(best.back())] = true;
                Index to = row;
                to.push_back(k);
                y(to, 0) = x()(best);
                y(to, 1) = static_cast<double>(best.back());
            }
        }
    }
    void cumsum()
    {
        const auto dim = static_cast<std::size_t>(list(Attr::dims)[0]);
        each([&](const Index& i) {
            double sum = 0;
            const bool backwards = number(Attr::backwards, 0) != 0;
            for (Index at = i; at[dim] >= 0 && at[dim] < shape(0)[dim]; at[dim] += backwards ? 1 : -1)
                sum += x()(at);
            return sum;
        });
    }
    /// visit(x's index, w's index, y's index) for every product of a convolution of these shapes.
    void convolve(const Shape& xs, const Shape& ws, const Shape& ys,
                  const std::function<void(const Index&, const Index&, const Index&)>& visit) const
    {
        const std::size_t n = xs.size() - 2;
        const Index stride = list(Attr::stride, n, 1), low = list(Attr::low, n, 0),
                    dilation = list(Attr::dilation, n, 1), base = list(Attr::base, n, 1);
        const i64 groups = number(Attr::groups, 1), per_group = ys[1] / groups;
        const std::vector<Index> window = indices_of(Shape(ws.begin() + 1, ws.end()));
        for (const Index& i : indices_of(ys))
            for (const Index& t : window) {
                Index from = {i[0], i[1] / per_group * ws[1] + t[0]}, w = t;
                w.insert(w.begin(), i[1]);
                bool fits = true;
                for (std::size_t d = 0; d < n; ++d) {
                    const i64 at = i[2 + d] * stride[d] + t[1 + d] * dilation[d] - low[d];
                    fits = fits && at >= 0 && at % base[d] == 0;
                    from.push_back(at / base[d]);
                }
                if (fits && inside(xs, from))
                    visit(from, w, i);
            }
    }
    void convolution()
    {
        if (kind == OpKind::convolution)
            convolve(shape(0), shape(1), made(),
                     [&](const Index& i, const Index& w, const Index& o) { y(o) += x(0)(i) * x(1)(w); });
        else if (kind == OpKind::convolution_grad_x)
            convolve(made(), shape(1), shape(0),
                     [&](const Index& i, const Index& w, const Index& o) { y(i) += x(0)(o) * x(1)(w); });
        else
            convolve(shape(1), made(), shape(0),
                     [&](const Index& i, const Index& w, const Index& o) { y(w) += x(0)(o) * x(1)(i); });
    }
    /// The elements of xs in the window at `o`, in row-major order.
    std::vector<Index> window_at(const Shape& xs, const Index& o) const
    {
        const std::size_t n = xs.size();
        const Index stride = list(Attr::stride, n, 1), low = list(Attr::low, n, 0),
                    dilation = list(Attr::dilation, n, 1), base = list(Attr::base, n, 1);
        std::vector<Index> all;
        for (Index t : indices_of(list(Attr::window))) {
            bool fits = true;
            for (std::size_t d = 0; d < n; ++d) {
                const i64 at = o[d] * stride[d] + t[d] * dilation[d] - low[d];
                fits = fits && at >= 0 && at % base[d] == 0;
                t[d] = at / base[d];
            }
            if (fits && inside(xs, t))
                all.push_back(t);
        }
        return all;
    }
    void pool()
    {
        each([&](const Index& o) {
            double all = identity(*attrs.combine, in[0].type.dtype);
            for (const Index& i : window_at(shape(0), o))
                all = joined(attrs.combine, all, x()(i));
            return all;
        });
    }
    void pool_grad()
    {
        for (const Index& o : indices_of(shape(0))) {
            Index best;
            for (const Index& i : window_at(shape(1), o))
                if (best.empty() ||
                    (*attrs.combine == Combine::max ? x(1)(i) > x(1)(best) : x(1)(i) < x(1)(best)))
                    best = i;
            if (!best.empty())
                y(best) += x(0)(o);
        }
    }
    void product()
    {
        const Rule& rule = *attrs.rule;
        std::vector<std::string> names;
        Shape extents;
        for (std::size_t k = 0; k < 2; ++k)
            for (std::size_t d = 0; d < shape(k).size(); ++d)
                if (const std::string& name = rule->operands[k].dims[d];
                    std::find(names.begin(), names.end(), name) == names.end()) {
                    names.push_back(name);
                    extents.push_back(shape(k)[d]);
                }
        for (const Index& point : indices_of(extents)) {
            const auto at = [&](const Rule::Tensor& tensor) {
                Index index;
                for (const std::string& name : tensor.dims)
                    index.push_back(point[static_cast<std::size_t>(
                        std::find(names.begin(), names.end(), name) - names.begin())]);
                return index;
            };
            y(at(rule->results[0])) += x(0)(at(rule->operands[0])) * x(1)(at(rule->operands[1]));
        }
    }
    void compute()
    {
        switch (kind) {
        case OpKind::constant:
            return each([&](const Index&) {
                return out[0].type.dtype == DType::i32 ? std::trunc(*attrs.value) : *attrs.value;
            });
        case OpKind::iota:
            return each([&](const Index& i) {
                return static_cast<double>(i[static_cast<std::size_t>(list(Attr::dims)[0])]);
            });
        case OpKind::reduce: return reduce();
        case OpKind::broadcast: return broadcast();
        case OpKind::transpose: return transpose();
        case OpKind::reshape: out[0].cells = in[0].cells; return;
        case OpKind::slice: return slice();
        case OpKind::pad: return pad();
        case OpKind::concatenate: return concatenate();
        case OpKind::reverse: return reverse();
        case OpKind::dynamic_slice: return dynamic_slice();
        case OpKind::dynamic_update_slice: return dynamic_update_slice();
        case OpKind::gather: return gather();
        case OpKind::scatter: return scatter();
        case OpKind::sort: return sort();
        case OpKind::top_k: return top_k();
        case OpKind::cumsum: return cumsum();
        case OpKind::convolution:
        case OpKind::convolution_grad_x:
        case OpKind::convolution_grad_w: return convolution();
        case OpKind::pool: return pool();
        case OpKind::pool_grad: return pool_grad();
        case OpKind::matmul: return product();
        default: return pointwise();
        }
    }
};

} // namespace

std::vector<Array> naive_op(OpKind kind, const Attributes& attrs, const std::vector<Array>& operands,
                            const std::vector<TensorType>& made)
{
    Naive naive{kind, attrs, operands, {}};
    for (const TensorType& type : made)
        naive.out.push_back({type, std::vector<double>(static_cast<std::size_t>(type.elements()))});
    naive.compute();
    for (Array& array : naive.out)
        for (double& cell : array.cells)
            if (array.type.dtype != DType::i32 || std::isfinite(cell))
                cell = rounded(cell, array.type.dtype);
    return naive.out;
}

} // namespace trivium::runs
