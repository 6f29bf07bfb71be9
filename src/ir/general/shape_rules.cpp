#include "ir/general/general_rules.hpp"
#include "ir/general/manual.hpp"
#include "ir/general/op_view.hpp"

#include <algorithm>
#include <numeric>

namespace trivium::general {

namespace {

/// A factor for each dimension of operand `i`.
FactorList own_factors(RuleMaker& maker, const OpView& op, std::size_t i)
{
    for (std::size_t d = 0; d < op.shape(i).size(); ++d)
        maker.rule.operands[i][d] = maker.factor(op.shape(i)[d]);
    return maker.rule.operands[i];
}

} // namespace

FactorRule iota(const Graph& graph, const Op& given)
{
    const OpView op(graph, given, 0);
    RuleMaker maker(op);
    const Shape shape = op.extents(Attr::shape);
    if (const auto dims = op.dims(Attr::dims, shape.size()); info(given).needs.has(Attr::dims))
        op.require(dims.size() == 1, str("counts along ", dims.size(), " dimensions"), "name one in `dims`");
    FactorList result;
    for (const i64 extent : shape)
        result.push_back(maker.factor(extent));
    return maker.with_result(result);
}

void local_iota(Attributes& attrs, const LocalPart& part)
{
    attrs.lists.set(Attr::shape, part.results[0].shape);
    if (info(part.op).may_have.has(Attr::begin))
        attrs.lists.set(Attr::begin, part.results[0].offset);
}

FactorRule reduce(const Graph& graph, const Op& given)
{
    const OpView op(graph, given, 1);
    RuleMaker maker(op);
    const FactorList all = own_factors(maker, op, 0);
    const auto dims = op.dims(Attr::dims, all.size());
    const Combine combine = given.attrs->combine.value_or(Combine::sum);
    op.require(combine != Combine::lse, "cannot reduce by lse", "use sum, max, min or product");
    FactorList result;
    for (std::size_t d = 0; d < all.size(); ++d)
        if (lists(dims, d))
            maker.rule.factors[static_cast<std::size_t>(all[d])].kind = FactorKind::reduced;
        else
            result.push_back(all[d]);
    return maker.with_result(result, combine);
}

FactorRule broadcast(const Graph& graph, const Op& given)
{
    const OpView op(graph, given, 1);
    const Shape shape = op.extents(Attr::shape), &in_shape = op.shape(0);
    const auto dims = op.dims(Attr::dims, shape.size());
    op.require(dims.size() == in_shape.size(),
               str("its attribute 'dims' has ", dims.size(), " numbers, the operand ", in_shape.size(),
                   " dimensions"),
               "name the result's dimension for each dimension of the operand");
    RuleMaker maker(op);
    FactorList result(shape.size(), -1);
    for (std::size_t d = 0; d < dims.size(); ++d) {
        const i64 extent = shape[dims[d]];
        op.require(in_shape[d] == extent || in_shape[d] == 1,
                   str("dimension ", d, " of the operand is ", in_shape[d], ", dimension ", dims[d],
                       " of the result ", extent),
                   "make them equal, or the operand's 1");
        if (in_shape[d] == extent)
            result[dims[d]] = maker.rule.operands[0][d] = maker.factor(extent);
        else
            maker.rule.operands[0][d] = maker.factor(1, FactorKind::replicated);
    }
    for (std::size_t d = 0; d < shape.size(); ++d)
        if (result[d] < 0)
            result[d] = maker.factor(shape[d]);
    return maker.with_result(result);
}

FactorRule transpose(const Graph& graph, const Op& given)
{
    const OpView op(graph, given, 1);
    RuleMaker maker(op);
    const FactorList all = own_factors(maker, op, 0);
    const auto dims = op.dims(Attr::dims, all.size());
    op.require(dims.size() == all.size(), str("orders ", dims.size(), " of ", all.size(), " dimensions"),
               "name each dimension once in `dims`");
    FactorList result;
    for (const std::size_t d : dims)
        result.push_back(all[d]);
    return maker.with_result(result);
}

FactorRule reshape(const Graph& graph, const Op& given)
{
    const OpView op(graph, given, 1);
    const Shape &from = op.shape(0), to = op.extents(Attr::shape);
    op.require(element_count(from) == element_count(to),
               str("has ", element_count(from), " elements, its attribute 'shape' ", element_count(to)),
               "keep the number of elements");
    RuleMaker maker(op);
    std::vector<std::vector<int>> in(from.size()), out(to.size());
    const auto alone = [&](std::vector<int>& dim, i64 size) {
        dim.push_back(maker.factor(size, FactorKind::replicated));
    };
    if (element_count(from) == 0) {
        for (std::size_t d = 0; d < from.size(); ++d)
            alone(in[d], from[d]);
        for (std::size_t d = 0; d < to.size(); ++d)
            alone(out[d], to[d]);
    } else {
        // `rest`: what of the current dimension has no factor yet. While both sides cover the same elements,
        // they share a factor; otherwise the side that is behind gets one of its own.
        std::size_t i = 0, o = 0;
        i64 in_rest = 1, out_rest = 1, in_done = 1, out_done = 1;
        for (;;) {
            while (in_rest == 1 && i < from.size() && from[i] == 1)
                alone(in[i++], 1);
            while (out_rest == 1 && o < to.size() && to[o] == 1)
                alone(out[o++], 1);
            if (in_rest == 1 && i < from.size())
                in_rest = from[i++];
            if (out_rest == 1 && o < to.size())
                out_rest = to[o++];
            if (in_rest == 1 && out_rest == 1)
                break;
            const i64 common = std::gcd(in_rest, out_rest);
            if (in_done == out_done && common > 1) {
                const int shared = maker.factor(common);
                in[i - 1].push_back(shared);
                out[o - 1].push_back(shared);
                in_rest /= common;
                out_rest /= common;
                in_done *= common;
                out_done *= common;
                continue;
            }
            // The smallest own factor after which both sides meet, or else what leaves the common divisor.
            const auto own = [&](i64& rest, i64& done, i64 other, std::vector<int>& dim) {
                i64 size = rest;
                if (other > done && other % done == 0 && rest % (other / done) == 0)
                    size = other / done;
                else if (rest > common && common > 1)
                    size = rest / common;
                alone(dim, size);
                rest /= size;
                done *= size;
            };
            if (in_done == out_done) {
                own(in_rest, in_done, 0, in[i - 1]);
                own(out_rest, out_done, 0, out[o - 1]);
            } else if (in_done < out_done) {
                own(in_rest, in_done, out_done, in[i - 1]);
            } else {
                own(out_rest, out_done, in_done, out[o - 1]);
            }
        }
    }
    FactorList result;
    for (std::size_t d = 0; d < from.size(); ++d)
        maker.rule.operands[0][d] = maker.product(in[d]);
    for (std::size_t d = 0; d < to.size(); ++d)
        result.push_back(maker.product(out[d]));
    return maker.with_result(result);
}

void local_shape(Attributes& attrs, const LocalPart& part)
{
    attrs.lists.set(Attr::shape, part.results[0].shape);
}

FactorRule sort(const Graph& graph, const Op& given)
{
    const OpView op(graph, given);
    op.require(op.operands() > 0, "has no operand", "name the keys first");
    RuleMaker maker(op);
    const FactorList all = own_factors(maker, op, 0);
    const auto dims = op.dims(Attr::dims, all.size());
    op.require(dims.size() == 1, str("sorts along ", dims.size(), " dimensions"), "name one in `dims`");
    Factor& sorted = maker.rule.factors[static_cast<std::size_t>(all[dims[0]])];
    sorted.kind = FactorKind::replicated;
    sorted.blocked = true;
    for (std::size_t d = 0; d < all.size(); ++d)
        sorted.blocked = sorted.blocked && (d == dims[0] || op.shape(0)[d] == 1);
    for (std::size_t i = 0; i < op.operands(); ++i) {
        op.require(op.shape(i) == op.shape(0), str("operand ", i, " has another shape than operand 0"),
                   "sort tensors of one shape together");
        maker.rule.operands[i] = all;
        maker.result(all);
    }
    return maker.rule;
}

FactorRule top_k(const Graph& graph, const Op& given)
{
    const OpView op(graph, given, 1);
    op.require(!op.shape(0).empty(), "has a scalar as operand", "use a tensor with a dimension");
    RuleMaker maker(op);
    FactorList result = own_factors(maker, op, 0);
    const i64 count = op.list(Attr::count, 1)[0], extent = op.shape(0).back();
    op.require(count >= 1 && count <= extent, str("takes ", count, " of ", extent),
               "take at least 1, at most all");
    Factor& all = maker.rule.factors[static_cast<std::size_t>(result.back())];
    all.kind = FactorKind::replicated;
    all.blocked = true;
    result.back() = maker.factor(count, FactorKind::replicated);
    maker.result(result);
    return maker.with_result(result);
}

FactorRule cumsum(const Graph& graph, const Op& given)
{
    const OpView op(graph, given, 1);
    RuleMaker maker(op);
    const FactorList all = own_factors(maker, op, 0);
    const auto dims = op.dims(Attr::dims, all.size());
    op.require(dims.size() == 1, str("sums along ", dims.size(), " dimensions"), "name one in `dims`");
    maker.rule.factors[static_cast<std::size_t>(all[dims[0]])].kind = FactorKind::replicated;
    return maker.with_result(all);
}

namespace {

/// Factors of one side of a manual region's boundary: `whole` extents with the manual axes, the rest without.
FactorRule boundary(const Graph& graph, const Op& given, bool enters)
{
    const OpView op(graph, given, 1);
    const Sharding manual = manual_sharding(graph, given);
    const Shape& shape = op.shape(0);
    op.require(
        manual.dims.size() == shape.size(),
        str("its attribute 'sharding' has ", manual.dims.size(), " dimensions, the operand ", shape.size()),
        "write, for example, sharding=\"<x,->\"");
    RuleMaker maker(op);
    FactorList whole, rest;
    i64 elements = element_count(shape);
    for (std::size_t d = 0; d < shape.size(); ++d) {
        const i64 parts = graph.mesh.parts_along(manual.dims[d].axes);
        op.require(enters || elements <= max_elements / parts,
                   str("makes a tensor of more than 2^48 elements along dimension ", d), "make it smaller");
        elements *= enters ? 1 : parts;
        op.require(!enters || shape[d] % parts == 0,
                   str("dimension ", d, " of ", shape[d], " does not divide into ", parts, " equal parts"),
                   "inside a manual region all ranks have the same shape: use another axis or dimension");
        const int part = maker.factor(enters ? shape[d] / parts : shape[d]);
        rest.push_back(part);
        if (manual.dims[d].axes.empty()) {
            whole.push_back(part);
            continue;
        }
        Factor axes{str("m", d), FactorKind::parallel, parts, true};
        axes.pinned = manual.dims[d].axes;
        const int major = maker.add(std::move(axes));
        whole.push_back(maker.product({major, part}));
    }
    maker.rule.operands[0] = enters ? whole : rest;
    return maker.with_result(enters ? rest : whole);
}

} // namespace

FactorRule local(const Graph& graph, const Op& given) { return boundary(graph, given, true); }
FactorRule global(const Graph& graph, const Op& given) { return boundary(graph, given, false); }

} // namespace trivium::general
