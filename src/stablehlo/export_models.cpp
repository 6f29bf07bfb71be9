// Products, norms, activations and losses as StableHLO: compositions, in the accumulator type where their
// kernels compute in it.
#include "base/activation.hpp"
#include "base/check.hpp"
#include "ir/ops/op_table.hpp"
#include "stablehlo/counting.hpp"
#include "stablehlo/writer.hpp"

#include <algorithm>
#include <numbers>

namespace trivium {

namespace {

using W = HloWriter;
using K = OpKind;
using Numbers = W::Numbers;

i64 position(const FactorList& dims, int factor)
{
    const auto at = std::ranges::find(dims, factor);
    return at == dims.end() ? -1 : at - dims.begin();
}

/// x, with these factors, as a tensor with those of `to`, which has all of them.
HloName aligned(W& w, const HloName& x, const FactorList& factors, const FactorList& to, const Shape& shape)
{
    Numbers dims;
    for (const int factor : factors)
        dims.push_back(position(to, factor));
    return w.broadcast(x, dims, shape);
}

HloName times(W& w, const HloName& x, double factor) { return w.same("multiply", {x, w.like(x, factor)}); }
HloName plus(W& w, const HloName& x, double addend) { return w.same("add", {x, w.like(x, addend)}); }

/// Of [* d]: the dimensions *.
Numbers leading(const Shape& shape) { return counting(shape.size() - 1); }

HloName row_mean(W& w, const HloName& x)
{
    const auto last = static_cast<i64>(x.shape.size()) - 1;
    return times(w, w.reduce(x, {last}, Combine::sum), 1.0 / static_cast<double>(x.shape.back()));
}

void to_dot(W& w, const Op& op)
{
    if (op.attrs->fp8)
        w.refuse(op, "its operands are rounded to 8 bits");
    const FactorRule rule = rule_of(w.graph(), op);
    HloName sides[2];
    FactorList dims[2] = {rule.operands[0], rule.operands[1]}, made;
    const FactorList& result = rule.results[0];
    Numbers batch[2], summed[2];
    for (const std::size_t side :
         {0u, 1u}) { // a factor of one operand alone that the result lacks is summed before
        Numbers alone;
        FactorList kept;
        for (std::size_t d = 0; d < dims[side].size(); ++d)
            if (position(dims[1 - side], dims[side][d]) < 0 && position(result, dims[side][d]) < 0)
                alone.push_back(static_cast<i64>(d));
            else
                kept.push_back(dims[side][d]);
        sides[side] = w.reduce(w.operand(op, side), alone, Combine::sum);
        dims[side] = kept;
    }
    for (std::size_t d = 0; d < dims[0].size(); ++d) {
        const i64 other = position(dims[1], dims[0][d]);
        if (other < 0)
            continue;
        const bool stays = position(result, dims[0][d]) >= 0;
        (stays ? batch : summed)[0].push_back(static_cast<i64>(d));
        (stays ? batch : summed)[1].push_back(other);
        if (stays)
            made.push_back(dims[0][d]);
    }
    for (const auto& list : dims)
        for (const int factor : list)
            if (position(dims[0], factor) < 0 || position(dims[1], factor) < 0)
                made.push_back(factor);
    Shape shape;
    for (const int factor : made)
        shape.push_back(rule[factor].size);
    const HloName product =
        w.op("dot_general", {sides[0], sides[1]}, w.result_type(op).dtype, shape,
             "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = " + W::bracketed(batch[0]) +
                 ", rhs_batching_dimensions = " + W::bracketed(batch[1]) + ", lhs_contracting_dimensions = " +
                 W::bracketed(summed[0]) + ", rhs_contracting_dimensions = " + W::bracketed(summed[1]) + ">");
    Numbers order;
    for (const int factor : result)
        order.push_back(position(made, factor));
    w.give(op, w.transpose(product, order));
}

HloName activated(W& w, const Op& op, const HloName& x, const char* usual)
{
    const std::string name = op.attrs->activation.value_or(usual);
    if (name == "silu")
        return w.same("multiply", {x, w.same("logistic", {x})});
    if (name == "relu2") {
        const HloName y = w.same("maximum", {x, w.like(x, 0)});
        return w.same("multiply", {y, y});
    }
    HloName inner;
    if (name == "gelu") {
        inner = w.same("chlo.erf", {times(w, x, 1 / std::numbers::sqrt2)});
    } else { // tanh(sqrt(2 / pi) (x + 0.044715 x^3))
        const HloName cube = w.same("multiply", {w.same("multiply", {x, x}), x});
        inner = w.same("tanh", {times(w, w.same("add", {x, times(w, cube, 0.044715)}),
                                      std::numbers::sqrt2 * std::numbers::inv_sqrtpi)});
    }
    return w.same("multiply", {times(w, x, 0.5), plus(w, inner, 1)});
}

/// In the accumulator type, rounded at the end.
HloName accumulated(W& w, const HloName& x) { return w.cast(x, accumulator_of(*x.dtype)); }

void to_gelu(W& w, const Op& op)
{
    w.give(op, w.cast(activated(w, op, accumulated(w, w.operand(op, 0)), "gelu"), w.type(op, 0).dtype));
}

/// Activation::clipped.
HloName clipped(W& w, const HloName& gate, const HloName& up)
{
    const HloName g = w.same("minimum", {gate, w.like(gate, 7)});
    const HloName u = w.same("maximum", {w.same("minimum", {up, w.like(up, 7)}), w.like(up, -7)});
    return w.same("multiply",
                  {w.same("multiply", {g, w.same("logistic", {times(w, g, 1.702)})}), plus(w, u, 1)});
}

void to_swiglu(W& w, const Op& op)
{
    const HloName gate = accumulated(w, w.operand(op, 0)), up = accumulated(w, w.operand(op, 1));
    const HloName y = op.attrs->activation == name_of(Activation::clipped)
                          ? clipped(w, gate, up)
                          : w.same("multiply", {activated(w, op, gate, "silu"), up});
    w.give(op, w.cast(y, w.type(op, 0).dtype));
}

void to_affine(W& w, const Op& op)
{
    const HloName x = times(w, accumulated(w, w.operand(op, 0)), *op.attrs->alpha);
    w.give(op, w.cast(op.attrs->beta ? plus(w, x, *op.attrs->beta) : x, w.type(op, 0).dtype));
}

void to_softcap(W& w, const Op& op)
{
    const double cap = *op.attrs->cap;
    const HloName x = times(w, accumulated(w, w.operand(op, 0)), 1 / cap);
    w.give(op, w.cast(times(w, w.same("tanh", {x}), cap), w.type(op, 0).dtype));
}

void to_weighted_sum(W& w, const Op& op)
{
    const HloName a = times(w, accumulated(w, w.operand(op, 0)), *op.attrs->alpha),
                  b = times(w, accumulated(w, w.operand(op, 1)), *op.attrs->beta);
    w.give(op, w.cast(w.same("add", {a, b}), w.type(op, 0).dtype));
}

void to_bias_add(W& w, const Op& op)
{
    const FactorRule rule = rule_of(w.graph(), op);
    const HloName x = w.operand(op, 0);
    w.give(op, w.same("add", {x, aligned(w, w.operand(op, 1), rule.operands[1], rule.operands[0], x.shape)}));
}

void to_reduce_sum(W& w, const Op& op)
{
    const FactorRule rule = rule_of(w.graph(), op);
    Numbers dims;
    for (std::size_t d = 0; d < rule.operands[0].size(); ++d)
        if (position(rule.results[0], rule.operands[0][d]) < 0)
            dims.push_back(static_cast<i64>(d));
    w.give(op, w.reduce(accumulated(w, w.operand(op, 0)), dims, Combine::sum));
}

/// f64: the sum of all elements, or of their squares, perhaps of each matrix of a stack.
void to_sum(W& w, const Op& op)
{
    HloName x = w.cast(w.operand(op, 0), DType::f64);
    if (op.kind == K::sum_squares)
        x = w.same("multiply", {x, x});
    Numbers dims = counting(x.shape.size());
    dims.erase(dims.begin(), dims.begin() + std::ssize(w.graph()[op.results[0]].type.shape));
    w.give(op, w.reduce(x, dims, Combine::sum));
}

void to_rms_norm(W& w, const Op& op)
{
    const HloName given = w.operand(op, 0), x = accumulated(w, given);
    const auto last = static_cast<i64>(x.shape.size()) - 1;
    const HloName rstd =
        w.same("rsqrt", {plus(w, row_mean(w, w.same("multiply", {x, x})), op.attrs->eps.value_or(0))});
    HloName y = w.same("multiply", {x, w.broadcast(rstd, leading(x.shape), x.shape)});
    if (const Numbers rounded = w.list(op, Attr::rounded); !rounded.empty() && rounded[0] != 0)
        y = accumulated(w, w.cast(y, given.dtype));
    const HloName weight = plus(w, accumulated(w, w.operand(op, 1)), op.attrs->offset.value_or(0));
    w.give(op, rstd, 1);
    w.give(op, w.cast(w.same("multiply", {y, w.broadcast(weight, {last}, x.shape)}), given.dtype));
}

void to_layer_norm(W& w, const Op& op)
{
    const HloName given = w.operand(op, 0), x = accumulated(w, given), mean = row_mean(w, x);
    const auto last = static_cast<i64>(x.shape.size()) - 1;
    const HloName centred = w.same("subtract", {x, w.broadcast(mean, leading(x.shape), x.shape)});
    const HloName rstd = w.same(
        "rsqrt", {plus(w, row_mean(w, w.same("multiply", {centred, centred})), op.attrs->eps.value_or(0))});
    const HloName y = w.same("multiply", {centred, w.broadcast(rstd, leading(x.shape), x.shape)});
    const HloName scaled =
        w.same("multiply", {y, w.broadcast(accumulated(w, w.operand(op, 1)), {last}, x.shape)});
    w.give(op, mean, 1);
    w.give(op, rstd, 2);
    w.give(op, w.cast(w.same("add", {scaled, w.broadcast(accumulated(w, w.operand(op, 2)), {last}, x.shape)}),
                      given.dtype));
}

void to_row_squares(W& w, const Op& op)
{
    const HloName x = accumulated(w, w.operand(op, 0));
    Numbers dims;
    for (std::size_t d = w.result_type(op).shape.size(); d < x.shape.size(); ++d)
        dims.push_back(static_cast<i64>(d));
    w.give(op, w.reduce(w.same("multiply", {x, x}), dims, Combine::sum));
}

void to_scale_rows(W& w, const Op& op)
{
    const FactorRule rule = rule_of(w.graph(), op);
    const HloName given = w.operand(op, 0), x = accumulated(w, given);
    HloName y =
        w.same("multiply", {x, aligned(w, w.operand(op, 2), rule.operands[2], rule.operands[0], x.shape)});
    if (const Numbers rounded = w.list(op, Attr::rounded); !rounded.empty() && rounded[0] != 0)
        y = accumulated(w, w.cast(y, given.dtype));
    const HloName weight = plus(w, accumulated(w, w.operand(op, 1)), op.attrs->offset.value_or(0));
    w.give(op,
           w.cast(w.same("multiply", {y, aligned(w, weight, rule.operands[1], rule.operands[0], x.shape)}),
                  given.dtype));
}

/// 0 where `tokens` are outside of [0, extent).
HloName where_inside(W& w, const HloName& tokens, i64 extent, const HloName& x)
{
    const HloName inside = w.op("and",
                                {w.compare(tokens, w.like(tokens, 0), "ge"),
                                 w.compare(tokens, w.like(tokens, static_cast<double>(extent)), "lt")},
                                {}, tokens.shape);
    return w.select(w.broadcast(inside, counting(tokens.shape.size()), x.shape), x, w.like(x, 0));
}

void to_embedding(W& w, const Op& op)
{
    const HloName table = w.operand(op, 0), tokens = w.operand(op, 1);
    const auto rank = static_cast<i64>(tokens.shape.size());
    const HloName rows =
        w.op("gather", {table, tokens}, table.dtype, w.result_type(op).shape,
             str("dimension_numbers = #stablehlo.gather<offset_dims = [", rank,
                 "], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = ", rank,
                 ">, indices_are_sorted = false, slice_sizes = ", W::array({1, table.shape[1]})));
    w.give(op, where_inside(w, tokens, table.shape[0], rows));
}

void to_xent_stats(W& w, const Op& op)
{
    const HloName x = accumulated(w, w.operand(op, 0)), target = w.operand(op, 1);
    const auto last = static_cast<i64>(x.shape.size()) - 1;
    const Numbers rows = leading(x.shape);
    const HloName most = w.reduce(x, {last}, Combine::max);
    const HloName powers = w.same("exponential", {w.same("subtract", {x, w.broadcast(most, rows, x.shape)})});
    const HloName total = w.reduce(powers, {last}, Combine::sum);
    w.give(op, w.same("add", {w.same("log", {total}), most}), 0);
    const HloName counts = w.op("iota", {}, DType::i32, x.shape, str("iota_dimension = ", last, " : i64"));
    const HloName mine = w.compare(counts, w.broadcast(target, rows, x.shape), "eq");
    HloName share = times(w, w.select(mine, x, w.like(x, 0)), op.attrs->alpha.value_or(1));
    if (op.attrs->beta)
        share = w.same("add", {share, times(w, x, *op.attrs->beta)});
    const HloName picked = w.reduce(share, {last}, Combine::sum);
    w.give(op, w.select(w.compare(target, w.like(target, 0), "ge"), picked, w.like(picked, 0)), 1);
}

void to_token_loss(W& w, const Op& op)
{
    const HloName lse = w.operand(op, 0), target = w.operand(op, 2);
    HloName loss = w.same("subtract", {lse, w.operand(op, 1)});
    if (op.attrs->beta)
        loss = w.same("add", {loss, times(w, w.same("multiply", {lse, lse}), *op.attrs->beta)});
    w.give(op, w.select(w.compare(target, w.like(target, 0), "ge"), loss, w.like(loss, 0)));
}

void to_split(W& w, const Op& op)
{
    const HloName x = w.operand(op, 0);
    const std::size_t dim = divided_dim(w.graph(), op);
    Numbers start(x.shape.size(), 0), limit = x.shape;
    for (std::size_t r = 0; r < op.results.size(); ++r) {
        const TensorType& part = w.result_type(op, r);
        limit[dim] = start[dim] + part.shape[dim];
        w.give(op,
               w.op("slice", {x}, part.dtype, part.shape,
                    "limit_indices = " + W::array(limit) + ", start_indices = " + W::array(start) +
                        ", strides = " + W::array(Numbers(start.size(), 1))),
               r);
        start[dim] = limit[dim];
    }
}

void to_concat(W& w, const Op& op)
{
    w.give(op, w.op("concatenate", w.operands(op), w.result_type(op).dtype, w.result_type(op).shape,
                    str("dimension = ", divided_dim(w.graph(), op), " : i64")));
}

} // namespace

HloExporter model_exporter(OpKind kind)
{
    switch (kind) {
    case K::matmul: return to_dot;
    case K::gelu: return to_gelu;
    case K::swiglu: return to_swiglu;
    case K::affine: return to_affine;
    case K::softcap: return to_softcap;
    case K::weighted_sum: return to_weighted_sum;
    case K::bias_add: return to_bias_add;
    case K::reduce_sum: return to_reduce_sum;
    case K::sum:
    case K::sum_squares: return to_sum;
    case K::rms_norm: return to_rms_norm;
    case K::layer_norm: return to_layer_norm;
    case K::row_squares: return to_row_squares;
    case K::scale_rows: return to_scale_rows;
    case K::embedding: return to_embedding;
    case K::xent_stats: return to_xent_stats;
    case K::token_loss: return to_token_loss;
    case K::split: return to_split;
    case K::concat: return to_concat;
    default: return nullptr;
    }
}

} // namespace trivium
