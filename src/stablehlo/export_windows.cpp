// Convolutions, pooling and cumulative sums as StableHLO.
#include "base/check.hpp"
#include "stablehlo/counting.hpp"
#include "stablehlo/writer.hpp"

#include <algorithm>

namespace trivium {

namespace {

using W = HloWriter;
using K = OpKind;
using Numbers = W::Numbers;

struct ConvolutionText {
    std::size_t spatial = 0;
    Numbers stride, low, high, dilation, base;
    i64 groups = 1;

    ConvolutionText(W& w, const Op& op)
        : spatial(w.type(op, 0).shape.size() - 2), stride(w.list_or(op, Attr::stride, spatial, 1)),
          low(w.list_or(op, Attr::low, spatial, 0)), high(w.list_or(op, Attr::high, spatial, 0)),
          dilation(w.list_or(op, Attr::dilation, spatial, 1)), base(w.list_or(op, Attr::base, spatial, 1)),
          groups(w.list_or(op, Attr::groups, 1, 1)[0])
    {
    }
};

/// "[b, f, 0, 1]"
std::string dims_text(const char* first, const char* second, std::size_t spatial)
{
    std::string text = str("[", first, ", ", second);
    for (std::size_t d = 0; d < spatial; ++d)
        text += str(", ", d);
    return text + "]";
}

HloName convolved(W& w, const HloName& x, const HloName& y, const TensorType& result,
                  const ConvolutionText& c, const std::string& dims, i64 feature_groups, i64 batch_groups)
{
    return w.op("convolution", {x, y}, result.dtype, result.shape,
                str("batch_group_count = ", batch_groups, " : i64, dimension_numbers = #stablehlo.conv<",
                    dims, ">, feature_group_count = ", feature_groups,
                    " : i64, lhs_dilation = ", W::array(c.base), ", padding = ", W::padding(c.low, c.high),
                    ", rhs_dilation = ", W::array(c.dilation), ", window_strides = ", W::array(c.stride)));
}

void to_convolution(W& w, const Op& op)
{
    const ConvolutionText c(w, op);
    const std::string bf = dims_text("b", "f", c.spatial);
    w.give(op, convolved(w, w.operand(op, 0), w.operand(op, 1), w.result_type(op), c,
                         bf + "x" + dims_text("o", "i", c.spatial) + "->" + bf, c.groups, 1));
}

/// The convolution of dy with the reversed weights, inputs and outputs of each group exchanged.
void to_convolution_grad_x(W& w, const Op& op)
{
    ConvolutionText c(w, op);
    const TensorType& result = w.result_type(op);
    const Shape &dy = w.type(op, 0).shape, &weights = w.type(op, 1).shape;
    std::swap(c.stride, c.base);
    for (std::size_t d = 0; d < c.spatial; ++d) {
        const i64 reach = (weights[2 + d] - 1) * c.dilation[d];
        c.low[d] = reach - c.low[d];
        c.high[d] = (result.shape[2 + d] - 1) * c.stride[d] + reach + 1 - ((dy[2 + d] - 1) * c.base[d] + 1) -
                    c.low[d];
    }
    HloName y = w.operand(op, 1);
    y = w.op("reverse", {y}, y.dtype, y.shape, "dimensions = " + W::array(counting(c.spatial, 2)));
    Shape shape = weights; // [G o, i, …] as [G, o, i, …], [G, i, o, …], [G i, o, …]
    shape[0] /= c.groups;
    shape.insert(shape.begin(), c.groups);
    Numbers order = counting(shape.size());
    std::swap(order[1], order[2]);
    y = w.transpose(w.reshape(y, shape), order);
    shape = weights;
    std::swap(shape[0], shape[1]);
    shape[0] *= c.groups;
    shape[1] /= c.groups;
    const std::string bf = dims_text("b", "f", c.spatial);
    w.give(op, convolved(w, w.operand(op, 0), w.reshape(y, shape), result, c,
                         bf + "x" + dims_text("o", "i", c.spatial) + "->" + bf, c.groups, 1));
}

/// The convolution of x, its channels as batch and its batch as channels, with dy.
void to_convolution_grad_w(W& w, const Op& op)
{
    ConvolutionText c(w, op);
    const TensorType& result = w.result_type(op);
    const Shape &dy = w.type(op, 0).shape, &x = w.type(op, 1).shape;
    std::swap(c.stride, c.dilation);
    for (std::size_t d = 0; d < c.spatial; ++d)
        c.high[d] = (result.shape[2 + d] - 1) * c.stride[d] + (dy[2 + d] - 1) * c.dilation[d] + 1 -
                    ((x[2 + d] - 1) * c.base[d] + 1) - c.low[d];
    const std::string fb = dims_text("f", "b", c.spatial);
    w.give(op, convolved(w, w.operand(op, 1), w.operand(op, 0), result, c,
                         fb + "x" + dims_text("i", "o", c.spatial) + "->" + fb, 1, c.groups));
}

std::string windows_text(W& w, const Op& op, std::size_t rank, bool dilates)
{
    std::string text =
        "padding = " + W::padding(w.list_or(op, Attr::low, rank, 0), w.list_or(op, Attr::high, rank, 0)) +
        ", window_dimensions = " + W::array(w.list(op, Attr::window)) +
        ", window_strides = " + W::array(w.list_or(op, Attr::stride, rank, 1));
    if (dilates)
        text = "base_dilations = " + W::array(w.list_or(op, Attr::base, rank, 1)) + ", " + text +
               ", window_dilations = " + W::array(w.list_or(op, Attr::dilation, rank, 1));
    return text;
}

void to_pool(W& w, const Op& op)
{
    const Combine combine = *op.attrs->combine;
    const TensorType& result = w.result_type(op);
    const HloName start = w.identity(combine, result.dtype);
    const std::string region = w.region(combine, result.dtype);
    w.give(op, w.op("reduce_window", {w.operand(op, 0), start}, result.dtype, result.shape,
                    windows_text(w, op, result.shape.size(), true), region));
}

void to_pool_grad(W& w, const Op& op)
{
    const TensorType& result = w.result_type(op);
    const std::size_t rank = result.shape.size();
    const Numbers ones(rank, 1);
    if (w.list_or(op, Attr::dilation, rank, 1) != ones || w.list_or(op, Attr::base, rank, 1) != ones)
        w.refuse(op, "its windows have gaps");
    const std::string type = W::type_text(result.dtype, {}), a = w.fresh(), b = w.fresh(), c = w.fresh();
    const std::string chooses =
        str("({\n    ^bb0(", a, ": ", type, ", ", b, ": ", type, "):\n      ", c, " = \"stablehlo.compare\"(",
            a, ", ", b, ") <{comparison_direction = #stablehlo<comparison_direction ",
            op.attrs->combine == Combine::max ? "GE" : "LE", ">}> : (", type, ", ", type,
            ") -> tensor<i1>\n      \"stablehlo.return\"(", c, ") : (tensor<i1>) -> ()\n    }, ");
    const HloName start = w.identity(Combine::sum, result.dtype);
    const std::string adds = w.region(Combine::sum, result.dtype);
    w.give(op, w.op("select_and_scatter", {w.operand(op, 1), w.operand(op, 0), start}, result.dtype,
                    result.shape, windows_text(w, op, rank, false), chooses + adds.substr(1)));
}

void to_cumsum(W& w, const Op& op)
{
    const TensorType& result = w.result_type(op);
    const std::size_t rank = result.shape.size(), along = static_cast<std::size_t>(w.list(op, Attr::dims)[0]);
    Numbers window(rank, 1), low(rank, 0), high(rank, 0);
    window[along] = result.shape[along];
    (w.list_or(op, Attr::backwards, 1, 0)[0] != 0 ? high : low)[along] = result.shape[along] - 1;
    const HloName start = w.identity(Combine::sum, result.dtype);
    const std::string region = w.region(Combine::sum, result.dtype);
    w.give(op,
           w.op("reduce_window", {w.operand(op, 0), start}, result.dtype, result.shape,
                "padding = " + W::padding(low, high) + ", window_dimensions = " + W::array(window), region));
}

} // namespace

HloExporter window_exporter(OpKind kind)
{
    switch (kind) {
    case K::convolution: return to_convolution;
    case K::convolution_grad_x: return to_convolution_grad_x;
    case K::convolution_grad_w: return to_convolution_grad_w;
    case K::pool: return to_pool;
    case K::pool_grad: return to_pool_grad;
    case K::cumsum: return to_cumsum;
    default: return nullptr;
    }
}

} // namespace trivium
