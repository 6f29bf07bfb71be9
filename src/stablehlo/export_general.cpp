// General ops as StableHLO.
#include "base/check.hpp"
#include "stablehlo/writer.hpp"

#include <algorithm>
#include <map>

namespace trivium {

namespace {

using W = HloWriter;
using K = OpKind;
using Numbers = W::Numbers;

const std::map<K, const char*>& pointwise_names()
{
    static const std::map<K, const char*> names{
        {K::abs, "abs"},           {K::sign, "sign"},
        {K::exp, "exponential"},   {K::expm1, "exponential_minus_one"},
        {K::log, "log"},           {K::log1p, "log_plus_one"},
        {K::sqrt, "sqrt"},         {K::rsqrt, "rsqrt"},
        {K::tanh, "tanh"},         {K::sigmoid, "logistic"},
        {K::sin, "sine"},          {K::cos, "cosine"},
        {K::erf, "chlo.erf"},      {K::floor, "floor"},
        {K::ceil, "ceil"},         {K::negate, "negate"},
        {K::add, "add"},           {K::subtract, "subtract"},
        {K::multiply, "multiply"}, {K::divide, "divide"},
        {K::maximum, "maximum"},   {K::minimum, "minimum"},
        {K::power, "power"},       {K::remainder, "remainder"},
        {K::logical_and, "and"},   {K::logical_or, "or"},
        {K::logical_xor, "xor"}};
    return names;
}

void to_pointwise(W& w, const Op& op)
{
    std::vector<HloName> operands = w.operands(op);
    const bool rounds = op.kind == K::floor || op.kind == K::ceil,
               integers = !is_floating(w.type(op, 0).dtype);
    if (rounds && integers)
        return w.give(op, operands[0]);
    if (!integers && (op.kind == K::logical_and || op.kind == K::logical_or || op.kind == K::logical_xor)) {
        for (HloName& x : operands) // of truth values: whether they are not 0
            x = w.compare(x, w.like(x, 0), "ne");
        return w.give(op, w.cast(w.same(pointwise_names().at(op.kind), operands), w.type(op, 0).dtype));
    }
    w.give(op, w.same(pointwise_names().at(op.kind), operands));
}

void to_logical_not(W& w, const Op& op)
{
    const HloName x = w.operand(op, 0);
    w.give(op, w.cast(w.compare(x, w.like(x, 0), "eq"), x.dtype));
}

void to_compare(W& w, const Op& op)
{
    w.give(op, w.cast(w.compare(w.operand(op, 0), w.operand(op, 1), *op.attrs->direction), DType::i32));
}

void to_select(W& w, const Op& op)
{
    const HloName which = w.operand(op, 0);
    w.give(op, w.select(w.compare(which, w.like(which, 0), "ne"), w.operand(op, 1), w.operand(op, 2)));
}

void to_constant(W& w, const Op& op)
{
    w.give(op, w.constant(*op.attrs->dtype, w.list(op, Attr::shape), *op.attrs->value));
}

void to_fill(W& w, const Op& op)
{
    w.give(op, w.constant(w.result_type(op).dtype, w.result_type(op).shape, *op.attrs->value));
}

void to_iota(W& w, const Op& op)
{
    w.give(op, w.op("iota", {}, op.attrs->dtype, w.list(op, Attr::shape),
                    str("iota_dimension = ", w.list(op, Attr::dims)[0], " : i64")));
}

void to_cast(W& w, const Op& op) { w.give(op, w.cast(w.operand(op, 0), w.result_type(op).dtype)); }

void to_reduce(W& w, const Op& op)
{
    w.give(op, w.reduce(w.operand(op, 0), w.list(op, Attr::dims), op.attrs->combine.value_or(Combine::sum)));
}

void to_broadcast(W& w, const Op& op)
{
    w.give(op, w.broadcast(w.operand(op, 0), w.list(op, Attr::dims), w.list(op, Attr::shape)));
}

void to_transpose(W& w, const Op& op) { w.give(op, w.transpose(w.operand(op, 0), w.list(op, Attr::dims))); }

void to_reshape(W& w, const Op& op) { w.give(op, w.reshape(w.operand(op, 0), w.list(op, Attr::shape))); }

void to_itself(W& w, const Op& op) { w.give(op, w.operand(op, 0)); }

/// An op with one result, that of the graph's op.
void give_op(W& w, const Op& op, const std::string& name, const std::vector<HloName>& operands,
             const std::string& attributes, const std::string& region = "")
{
    w.give(op, w.op(name, operands, w.result_type(op).dtype, w.result_type(op).shape, attributes, region));
}

void to_slice(W& w, const Op& op)
{
    const Numbers start = w.list(op, Attr::start);
    give_op(w, op, "slice", {w.operand(op, 0)},
            "limit_indices = " + W::array(w.list(op, Attr::limit)) + ", start_indices = " + W::array(start) +
                ", strides = " + W::array(w.list_or(op, Attr::stride, start.size(), 1)));
}

void to_pad(W& w, const Op& op)
{
    const Numbers low = w.list(op, Attr::low);
    give_op(w, op, "pad", {w.operand(op, 0), w.constant(w.type(op, 0).dtype, {}, *op.attrs->value)},
            "edge_padding_high = " + W::array(w.list(op, Attr::high)) +
                ", edge_padding_low = " + W::array(low) +
                ", interior_padding = " + W::array(w.list_or(op, Attr::interior, low.size(), 0)));
}

void to_concatenate(W& w, const Op& op)
{
    give_op(w, op, "concatenate", w.operands(op), str("dimension = ", w.list(op, Attr::dims)[0], " : i64"));
}

void to_reverse(W& w, const Op& op)
{
    give_op(w, op, "reverse", {w.operand(op, 0)}, "dimensions = " + W::array(w.list(op, Attr::dims)));
}

void to_dynamic_slice(W& w, const Op& op)
{
    if (op.kind == K::dynamic_slice)
        give_op(w, op, "dynamic_slice", w.operands(op), "slice_sizes = " + W::array(w.list(op, Attr::shape)));
    else
        give_op(w, op, "dynamic_update_slice", w.operands(op), "");
}

std::string dimension_numbers(W& w, const Op& op, const std::vector<const char*>& names,
                              std::size_t indices_rank)
{
    std::string text;
    const Attr attrs[] = {Attr::offset_dims, Attr::collapsed_dims, Attr::batch_dims, Attr::index_batch_dims,
                          Attr::index_map};
    for (std::size_t i = 0; i < names.size(); ++i)
        if (const Numbers numbers = w.list(op, attrs[i]); !numbers.empty())
            text += str(names[i], " = ", W::bracketed(numbers), ", ");
    const Numbers at = w.list(op, Attr::index_dim);
    return text + str("index_vector_dim = ", at.empty() ? static_cast<i64>(indices_rank) : at[0]);
}

void to_gather(W& w, const Op& op)
{
    if (const Numbers clamp = w.list(op, Attr::clamp); !clamp.empty() && clamp[0] == 0)
        w.refuse(op, "it reads 0 where an index is outside (clamp=0)");
    const std::string numbers =
        dimension_numbers(w, op,
                          {"offset_dims", "collapsed_slice_dims", "operand_batching_dims",
                           "start_indices_batching_dims", "start_index_map"},
                          w.type(op, 1).shape.size());
    give_op(w, op, "gather", {w.operand(op, 0), w.operand(op, 1)},
            "dimension_numbers = #stablehlo.gather<" + numbers +
                ">, indices_are_sorted = false, slice_sizes = " + W::array(w.list(op, Attr::slice_sizes)));
}

void to_scatter(W& w, const Op& op)
{
    if (const Numbers clamp = w.list(op, Attr::clamp); !clamp.empty() && clamp[0] != 0)
        w.refuse(op, "it clamps its indices (clamp=1)");
    const std::string numbers =
        dimension_numbers(w, op,
                          {"update_window_dims", "inserted_window_dims", "input_batching_dims",
                           "scatter_indices_batching_dims", "scatter_dims_to_operand_dims"},
                          w.type(op, 1).shape.size());
    const DType dtype = w.type(op, 0).dtype;
    std::string region;
    if (op.attrs->combine) {
        region = w.region(*op.attrs->combine, dtype);
    } else {
        const std::string type = W::type_text(dtype, {}), a = w.fresh(), b = w.fresh();
        region = str("({\n    ^bb0(", a, ": ", type, ", ", b, ": ", type, "):\n      \"stablehlo.return\"(",
                     b, ") : (", type, ") -> ()\n    })");
    }
    give_op(w, op, "scatter", {w.operand(op, 0), w.operand(op, 1), w.operand(op, 2)},
            "indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<" + numbers +
                ">, unique_indices = false",
            region);
}

void to_sort(W& w, const Op& op)
{
    const std::vector<HloName> operands = w.operands(op);
    std::vector<HloName> results;
    std::string arguments, first, second;
    for (std::size_t i = 0; i < operands.size(); ++i) {
        results.push_back({"", operands[i].dtype, operands[i].shape});
        const std::string a = w.fresh(), b = w.fresh(), type = W::type_text(operands[i].dtype, {});
        arguments += str(i > 0 ? ", " : "", a, ": ", type, ", ", b, ": ", type);
        if (i == 0) {
            first = a;
            second = b;
        }
    }
    const Numbers descending = w.list(op, Attr::descending);
    const std::string type = W::type_text(operands[0].dtype, {}), c = w.fresh(),
                      direction = !descending.empty() && descending[0] != 0 ? "GT" : "LT";
    const std::string order =
        is_floating(*operands[0].dtype) ? ", compare_type = #stablehlo<comparison_type TOTALORDER>" : "";
    const std::string region = str(
        "({\n    ^bb0(", arguments, "):\n      ", c, " = \"stablehlo.compare\"(", first, ", ", second,
        ") <{comparison_direction = #stablehlo<comparison_direction ", direction, ">", order, "}> : (", type,
        ", ", type, ") -> tensor<i1>\n      \"stablehlo.return\"(", c, ") : (tensor<i1>) -> ()\n    })");
    const std::vector<HloName> sorted =
        w.ops("sort", operands, results,
              str("dimension = ", w.list(op, Attr::dims)[0], " : i64, is_stable = true"), region);
    for (std::size_t i = 0; i < sorted.size(); ++i)
        w.give(op, sorted[i], i);
}

void to_top_k(W& w, const Op& op)
{
    const TensorType &values = w.result_type(op), &indices = w.result_type(op, 1);
    const std::vector<HloName> made =
        w.ops("chlo.top_k", {w.operand(op, 0)},
              {{"", values.dtype, values.shape}, {"", indices.dtype, indices.shape}},
              str("k = ", w.list(op, Attr::count)[0], " : i64"));
    w.give(op, made[0], 0);
    w.give(op, made[1], 1);
}

} // namespace

HloExporter general_exporter(OpKind kind)
{
    if (pointwise_names().contains(kind))
        return to_pointwise;
    switch (kind) {
    case K::logical_not: return to_logical_not;
    case K::compare: return to_compare;
    case K::select: return to_select;
    case K::constant: return to_constant;
    case K::fill: return to_fill;
    case K::iota: return to_iota;
    case K::cast:
    case K::accumulate: return to_cast;
    case K::reduce: return to_reduce;
    case K::broadcast: return to_broadcast;
    case K::transpose: return to_transpose;
    case K::reshape: return to_reshape;
    case K::reshard: return to_itself;
    case K::slice: return to_slice;
    case K::pad: return to_pad;
    case K::concatenate: return to_concatenate;
    case K::reverse: return to_reverse;
    case K::dynamic_slice:
    case K::dynamic_update_slice: return to_dynamic_slice;
    case K::gather: return to_gather;
    case K::scatter: return to_scatter;
    case K::sort: return to_sort;
    case K::top_k: return to_top_k;
    default: return nullptr;
    }
}

} // namespace trivium
