#include "ir/general/general_rules.hpp"
#include "ir/general/op_view.hpp"

#include <algorithm>

namespace trivium::general {

namespace {

constexpr i64 far = i64{1} << 40;       ///< beyond which offsets and strides make no sense
constexpr i64 max_reach = i64{1} << 50; ///< of a window, and of a dimension with gaps

void require_within(const OpView& op, const char* name, const std::vector<i64>& numbers, i64 least)
{
    for (const i64 number : numbers)
        if (number < least || number > far)
            op.fail(str("its attribute '", name, "' has the number ", number),
                    str("use numbers from ", least, " to 2^40"));
}

/// Extent of a tensor with `base` - 1 gaps between its elements.
i64 dilated(i64 extent, i64 base) { return extent > 0 ? (extent - 1) * base + 1 : 0; }

/// That such an extent, or a window's, is a number that offsets can be added to.
void require_reach(const OpView& op, std::size_t dim, i64 extent, i64 base)
{
    if (extent > max_reach / base)
        op.fail(str("has a dimension ", dim, " of ", extent, " elements, ", base, " apart"),
                "use a smaller extent, or smaller gaps");
}

/// The operand's dimension `d` is a window of a new factor of the result, or the same factor if nothing
/// moves.
int windowed(RuleMaker& maker, std::size_t operand, std::size_t d, i64 in, i64 out, Window window)
{
    const bool same =
        in == out && window.stride == 1 && window.base == 1 && window.low == 0 && window.reach == 0;
    const int factor = maker.factor(out);
    window.of = factor;
    maker.rule.operands[operand][d] = same ? factor : maker.window(window, in);
    return factor;
}

Window forward(const WindowDim& w) { return {-1, w.stride, w.base, w.low, w.reach()}; }
/// From inputs to the outputs whose windows contain them.
Window backward(const WindowDim& w) { return {-1, w.base, w.stride, w.reach() - w.low, w.reach()}; }

struct ConvolutionShape {
    std::size_t spatial = 0;
    i64 groups = 1;
    std::vector<WindowDim> dims;
};

/// `x` [b, c, spatial…], `w` [o, c / groups, spatial…].
ConvolutionShape convolution_shape(const OpView& op, const Shape& x, const Shape& w)
{
    ConvolutionShape shape;
    op.require(x.size() == w.size() && x.size() >= 3 && x.size() <= 5,
               str("has an input with ", x.size(), " dimensions and weights with ", w.size()),
               "use [batch, channels, 1 to 3 spatial dimensions] and [outputs, channels / groups, the same]");
    shape.spatial = x.size() - 2;
    shape.groups = op.number_or(Attr::groups, 1);
    op.require(shape.groups >= 1 && (w[0] % shape.groups == 0) && x[1] == w[1] * shape.groups,
               str("has ", x[1], " input channels in ", shape.groups, " groups of ", w[1], ", and ", w[0],
                   " outputs"),
               "let groups times the weights' channels be those of the input, and divide the outputs");
    shape.dims = window_dims(op, {w.begin() + 2, w.end()});
    return shape;
}

i64 windows(const OpView& op, const WindowDim& w, i64 extent, std::size_t d)
{
    require_reach(op, d, extent, w.base);
    const i64 count = w.count(extent);
    op.require(count > 0 || extent == 0, str("has no window along dimension ", d),
               "use a smaller window, or pad");
    return count;
}

/// That the gradient `dy` has an element for each window. A rank's part has those that it needs.
void require_windows(const OpView& op, const WindowDim& w, i64 extent, i64 dy, std::size_t d)
{
    if (op.is_part())
        return;
    const i64 count = windows(op, w, extent, d);
    op.require(dy == count,
               str("has a gradient of ", dy, " along dimension ", d, ", where there are ", count, " windows"),
               "use the gradient of what the windows compute");
}

/// (groups, channels) of a dimension.
int grouped(RuleMaker& maker, int groups, int channels)
{
    return groups < 0 ? channels : maker.product({groups, channels});
}

struct Channels {
    int batch, group, in, out; ///< factors; group -1: one group
};

Channels channels(RuleMaker& maker, const ConvolutionShape& shape, i64 batch, const Shape& w)
{
    return {maker.factor(batch), shape.groups > 1 ? maker.factor(shape.groups) : -1, maker.factor(w[1]),
            maker.factor(w[0] / shape.groups)};
}

void reduced(RuleMaker& maker, int factor)
{
    maker.rule.factors[static_cast<std::size_t>(factor)].kind = FactorKind::reduced;
}

/// low, high of each spatial dimension of a rank's convolution or pooling.
void set_padding(Attributes& attrs, const std::vector<WindowDim>& dims)
{
    std::vector<i64> low, high;
    for (const WindowDim& w : dims) {
        low.push_back(w.low);
        high.push_back(w.high);
    }
    attrs.lists.set(Attr::low, std::move(low));
    attrs.lists.set(Attr::high, std::move(high));
}

/// The groups of a rank's convolution of parts `x` and `w`.
void set_groups(Attributes& attrs, const Box& x, const Box& w)
{
    if (attrs.lists.find(Attr::groups))
        attrs.lists.set(Attr::groups, {x.shape[1] / std::max<i64>(w.shape[1], 1)});
}

IndexRange range_of(const Box& box, std::size_t d) { return {box.offset[d], box.shape[d]}; }

std::vector<WindowDim> local_windows(const LocalPart& part, const Shape& sizes, std::size_t first,
                                     const Box& out, const Box& in)
{
    std::vector<WindowDim> dims = window_dims(
        OpView(part.graph, part.op), {sizes.begin() + static_cast<std::ptrdiff_t>(first), sizes.end()});
    for (std::size_t d = 0; d < dims.size(); ++d)
        dims[d] = dims[d].on(range_of(out, first + d), range_of(in, first + d));
    return dims;
}

const Shape& global_shape(const LocalPart& part, std::size_t operand)
{
    return part.graph[part.op.operands[operand]].type.shape;
}

} // namespace

i64 WindowDim::count(i64 extent) const
{
    const i64 room = dilated(extent, base) + low + high - reach() - 1;
    return room < 0 ? 0 : room / stride + 1;
}

WindowDim WindowDim::on(const IndexRange& out, const IndexRange& in) const
{
    WindowDim local = *this;
    local.low = low - out.begin * stride + in.begin * base;
    local.high =
        out.size == 0 ? 0 : (out.size - 1) * stride + reach() + 1 - dilated(in.size, base) - local.low;
    return local;
}

std::vector<WindowDim> window_dims(const OpView& op, const std::vector<i64>& sizes)
{
    const std::size_t n = sizes.size();
    const auto stride = op.list_or(Attr::stride, n, 1), low = op.list_or(Attr::low, n, 0),
               high = op.list_or(Attr::high, n, 0), dilation = op.list_or(Attr::dilation, n, 1),
               base = op.list_or(Attr::base, n, 1);
    require_within(op, "stride", stride, 1);
    require_within(op, "dilation", dilation, 1);
    require_within(op, "base", base, 1);
    require_within(op, "low", low, -far);
    require_within(op, "high", high, -far);
    require_within(op, "window", sizes, 1);
    std::vector<WindowDim> dims;
    for (std::size_t d = 0; d < n; ++d) {
        require_reach(op, d, sizes[d], dilation[d]);
        dims.push_back({sizes[d], stride[d], low[d], high[d], dilation[d], base[d]});
    }
    return dims;
}

FactorRule slice(const Graph& graph, const Op& given)
{
    const OpView op(graph, given, 1);
    const Shape& shape = op.shape(0);
    const auto start = op.list(Attr::start, shape.size()), limit = op.list(Attr::limit, shape.size()),
               stride = op.list_or(Attr::stride, shape.size(), 1);
    require_within(op, "stride", stride, 1);
    RuleMaker maker(op);
    FactorList result;
    for (std::size_t d = 0; d < shape.size(); ++d) {
        const bool empty = !graph.at.empty() && start[d] == limit[d];
        op.require(start[d] >= 0 && (start[d] < limit[d] || empty) && limit[d] <= shape[d],
                   str("takes ", start[d], " to ", limit[d], " in steps of ", stride[d], " of dimension ", d,
                       ", which has ", shape[d]),
                   "take a slice within the operand");
        result.push_back(windowed(maker, 0, d, shape[d], ceil_div(limit[d] - start[d], stride[d]),
                                  {-1, stride[d], 1, -start[d], 0}));
    }
    return maker.with_result(result);
}

void local_slice(Attributes& attrs, const LocalPart& part)
{
    const OpView op(part.graph, part.op);
    const std::size_t n = part.results[0].shape.size();
    const auto start = op.list(Attr::start), stride = op.list_or(Attr::stride, n, 1);
    std::vector<i64> local_start(n), local_limit(n);
    for (std::size_t d = 0; d < n; ++d) {
        const IndexRange out = range_of(part.results[0], d);
        if (out.size == 0)
            continue;
        local_start[d] = out.begin * stride[d] + start[d] - part.operands[0].offset[d];
        local_limit[d] = local_start[d] + (out.size - 1) * stride[d] + 1;
    }
    attrs.lists.set(Attr::start, local_start);
    attrs.lists.set(Attr::limit, local_limit);
}

FactorRule pad(const Graph& graph, const Op& given)
{
    const OpView op(graph, given, 1);
    const Shape& shape = op.shape(0);
    const auto low = op.list(Attr::low, shape.size()), high = op.list(Attr::high, shape.size()),
               interior = op.list_or(Attr::interior, shape.size(), 0);
    require_within(op, "low", low, -far);
    require_within(op, "high", high, -far);
    require_within(op, "interior", interior, 0);
    RuleMaker maker(op);
    FactorList result;
    for (std::size_t d = 0; d < shape.size(); ++d) {
        require_reach(op, d, shape[d], interior[d] + 1);
        const i64 extent = dilated(shape[d], interior[d] + 1) + low[d] + high[d];
        op.require(extent > 0 || (!graph.at.empty() && extent == 0), str("leaves nothing of dimension ", d),
                   "remove less");
        result.push_back(windowed(maker, 0, d, shape[d], extent, {-1, 1, interior[d] + 1, low[d], 0}));
    }
    return maker.with_result(result);
}

void local_pad(Attributes& attrs, const LocalPart& part)
{
    const OpView op(part.graph, part.op);
    const std::size_t n = part.results[0].shape.size();
    const auto interior = op.list_or(Attr::interior, n, 0);
    std::vector<i64> low = op.list(Attr::low), high = op.list(Attr::high);
    for (std::size_t d = 0; d < n; ++d) {
        const IndexRange out = range_of(part.results[0], d), in = range_of(part.operands[0], d);
        const i64 base = interior[d] + 1;
        low[d] += in.begin * base - out.begin;
        high[d] = out.size - low[d] - dilated(in.size, base);
    }
    attrs.lists.set(Attr::low, std::move(low));
    attrs.lists.set(Attr::high, std::move(high));
}

FactorRule concatenate(const Graph& graph, const Op& given)
{
    const OpView op(graph, given);
    op.require(op.operands() > 0, "has no operand", "name one or more");
    const Shape& first = op.shape(0);
    const auto dims = op.dims(Attr::dims, first.size());
    op.require(dims.size() == 1, str("joins along ", dims.size(), " dimensions"), "name one in `dims`");
    const std::size_t dim = dims[0];
    i64 extent = 0;
    for (std::size_t i = 0; i < op.operands(); ++i) {
        bool fits = op.shape(i).size() == first.size();
        for (std::size_t d = 0; fits && d < first.size(); ++d)
            fits = d == dim || op.shape(i)[d] == first[d];
        op.require(fits, str("operand ", i, " differs from operand 0 in more than dimension ", dim),
                   "join tensors that differ along one dimension");
        extent += op.shape(i)[dim];
    }
    RuleMaker maker(op);
    FactorList result;
    for (std::size_t d = 0; d < first.size(); ++d)
        result.push_back(maker.factor(d == dim ? extent : first[d]));
    i64 begin = 0;
    for (std::size_t i = 0; i < op.operands(); ++i) {
        for (std::size_t d = 0; d < first.size(); ++d)
            maker.rule.operands[i][d] = d == dim && op.operands() > 1
                                            ? maker.window({result[d], 1, 1, begin, 0}, op.shape(i)[d])
                                            : result[d];
        begin += op.shape(i)[dim];
    }
    return maker.with_result(result);
}

FactorRule reverse(const Graph& graph, const Op& given)
{
    const OpView op(graph, given, 1);
    const Shape& shape = op.shape(0);
    const auto dims = op.dims(Attr::dims, shape.size());
    RuleMaker maker(op);
    FactorList result;
    for (std::size_t d = 0; d < shape.size(); ++d) {
        const bool turned = lists(dims, d);
        const int factor = maker.factor(shape[d]);
        result.push_back(factor);
        maker.rule.operands[0][d] =
            turned && shape[d] > 1 ? maker.window({factor, -1, 1, 1 - shape[d], 0}, shape[d]) : factor;
    }
    return maker.with_result(result);
}

FactorRule convolution(const Graph& graph, const Op& given)
{
    const OpView op(graph, given, 2);
    const Shape &x = op.shape(0), &w = op.shape(1);
    const ConvolutionShape shape = convolution_shape(op, x, w);
    RuleMaker maker(op);
    const Channels c = channels(maker, shape, x[0], w);
    reduced(maker, c.in);
    FactorList &in = maker.rule.operands[0], &weights = maker.rule.operands[1], result;
    in[0] = c.batch;
    in[1] = grouped(maker, c.group, c.in);
    weights[0] = grouped(maker, c.group, c.out);
    weights[1] = c.in;
    result = {c.batch, weights[0]};
    for (std::size_t s = 0; s < shape.spatial; ++s) {
        const WindowDim& dim = shape.dims[s];
        result.push_back(
            windowed(maker, 0, 2 + s, x[2 + s], windows(op, dim, x[2 + s], 2 + s), forward(dim)));
        weights[2 + s] = maker.factor(w[2 + s], FactorKind::replicated, true);
    }
    return maker.with_result(result);
}

void local_convolution(Attributes& attrs, const LocalPart& part)
{
    set_padding(attrs, local_windows(part, global_shape(part, 1), 2, part.results[0], part.operands[0]));
    set_groups(attrs, part.operands[0], part.operands[1]);
}

/// Operands dy [b, o, spatial…], w; the attribute `shape` is that of x.
FactorRule convolution_grad_x(const Graph& graph, const Op& given)
{
    const OpView op(graph, given, 2);
    const Shape &dy = op.shape(0), &w = op.shape(1), x = op.extents(Attr::shape);
    const ConvolutionShape shape = convolution_shape(op, x, w);
    op.require(dy.size() == x.size() && dy[0] == x[0] && dy[1] == w[0],
               "has operands that do not fit its shape", "use the shape of the convolution's input");
    RuleMaker maker(op);
    const Channels c = channels(maker, shape, x[0], w);
    reduced(maker, c.out);
    FactorList &in = maker.rule.operands[0], &weights = maker.rule.operands[1], result;
    in[0] = c.batch;
    in[1] = weights[0] = grouped(maker, c.group, c.out);
    weights[1] = c.in;
    result = {c.batch, grouped(maker, c.group, c.in)};
    for (std::size_t s = 0; s < shape.spatial; ++s) {
        require_windows(op, shape.dims[s], x[2 + s], dy[2 + s], 2 + s);
        result.push_back(windowed(maker, 0, 2 + s, dy[2 + s], x[2 + s], backward(shape.dims[s])));
        weights[2 + s] = maker.factor(w[2 + s], FactorKind::replicated, true);
    }
    return maker.with_result(result);
}

void local_convolution_grad_x(Attributes& attrs, const LocalPart& part)
{
    set_padding(attrs, local_windows(part, global_shape(part, 1), 2, part.operands[0], part.results[0]));
    set_groups(attrs, part.results[0], part.operands[1]);
    attrs.lists.set(Attr::shape, part.results[0].shape);
}

/// Operands dy [b, o, spatial…], x; the attribute `shape` is that of w. A rank adds up what its part of dy
/// contributes, for which it needs the neighbourhood of x; with by_input=1 what its part of x contributes,
/// for which it needs that of dy, as convolution_grad_x does.
FactorRule convolution_grad_w(const Graph& graph, const Op& given)
{
    const OpView op(graph, given, 2);
    const Shape &dy = op.shape(0), &x = op.shape(1), w = op.extents(Attr::shape);
    const ConvolutionShape shape = convolution_shape(op, x, w);
    op.require(dy.size() == x.size() && dy[0] == x[0] && dy[1] == w[0],
               "has operands that do not fit its shape", "use the shape of the convolution's weights");
    RuleMaker maker(op);
    const Channels c = channels(maker, shape, x[0], w);
    reduced(maker, c.batch);
    FactorList &out = maker.rule.operands[0], &in = maker.rule.operands[1], result;
    out[0] = in[0] = c.batch;
    out[1] = grouped(maker, c.group, c.out);
    in[1] = grouped(maker, c.group, c.in);
    result = {out[1], c.in};
    for (std::size_t s = 0; s < shape.spatial; ++s) {
        require_windows(op, shape.dims[s], x[2 + s], dy[2 + s], 2 + s);
        const bool by_input = op.number_or(Attr::by_input, 0) != 0;
        const int sum = by_input ? windowed(maker, 0, 2 + s, dy[2 + s], x[2 + s], backward(shape.dims[s]))
                                 : windowed(maker, 1, 2 + s, x[2 + s], dy[2 + s], forward(shape.dims[s]));
        (by_input ? in : out)[2 + s] = sum;
        reduced(maker, sum);
        result.push_back(maker.factor(w[2 + s], FactorKind::replicated, true));
    }
    return maker.with_result(result);
}

void local_convolution_grad_w(Attributes& attrs, const LocalPart& part)
{
    const OpView op(part.graph, part.op);
    set_padding(attrs, local_windows(part, op.list(Attr::shape), 2, part.operands[0], part.operands[1]));
    set_groups(attrs, part.operands[1], part.results[0]);
    attrs.lists.set(Attr::shape, part.results[0].shape);
}

FactorRule pool(const Graph& graph, const Op& given)
{
    const OpView op(graph, given, 1);
    op.require(given.attrs->combine != Combine::lse, "cannot pool by lse", "use sum, max, min or product");
    const Shape& x = op.shape(0);
    const auto dims = window_dims(op, op.list(Attr::window, x.size()));
    RuleMaker maker(op);
    FactorList result;
    for (std::size_t d = 0; d < x.size(); ++d)
        result.push_back(windowed(maker, 0, d, x[d], windows(op, dims[d], x[d], d), forward(dims[d])));
    return maker.with_result(result);
}

void local_pool(Attributes& attrs, const LocalPart& part)
{
    const OpView op(part.graph, part.op);
    set_padding(attrs, local_windows(part, op.list(Attr::window), 0, part.results[0], part.operands[0]));
}

/// Operands dy, x. The extremum of each window of x gets its dy.
FactorRule pool_grad(const Graph& graph, const Op& given)
{
    const OpView op(graph, given, 2);
    op.require(given.attrs->combine == Combine::max || given.attrs->combine == Combine::min,
               "is not the gradient of max or min", "write combine=\"max\" or \"min\"");
    const Shape &dy = op.shape(0), &x = op.shape(1);
    const auto dims = window_dims(op, op.list(Attr::window, x.size()));
    op.require(dy.size() == x.size(), "has operands with different numbers of dimensions",
               "use the gradient of the pooled tensor, and its input");
    // A rank's part reads more of x than it computes.
    const Shape shape = given.attrs->lists.find(Attr::shape) ? op.list(Attr::shape, x.size()) : x;
    RuleMaker maker(op);
    FactorList result;
    for (std::size_t d = 0; d < x.size(); ++d) {
        require_windows(op, dims[d], x[d], dy[d], d);
        result.push_back(windowed(maker, 0, d, dy[d], shape[d], backward(dims[d])));
        const i64 reach = dims[d].reach();
        // All that is in a window together with an element.
        maker.rule.operands[1][d] =
            reach > 0 ? maker.window({result[d], 1, 1, reach, 2 * reach}, x[d]) : result[d];
    }
    return maker.with_result(result);
}

void local_pool_grad(Attributes& attrs, const LocalPart& part)
{
    std::vector<i64> begin = part.operands[0].offset, whole = global_shape(part, 1);
    for (const Box* box : {&part.operands[1], &part.results[0]})
        begin.insert(begin.end(), box->offset.begin(), box->offset.end());
    attrs.lists.set(Attr::begin, std::move(begin));
    attrs.lists.set(Attr::whole, std::move(whole));
    attrs.lists.set(Attr::shape, part.results[0].shape);
}

} // namespace trivium::general
