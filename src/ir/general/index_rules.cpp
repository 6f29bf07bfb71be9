#include "ir/general/general_rules.hpp"
#include "ir/general/op_view.hpp"

#include <algorithm>

namespace trivium::general {

namespace {

void require_scalars(const OpView& op, std::size_t from, std::size_t count)
{
    op.require_operands(from + count);
    for (std::size_t i = from; i < from + count; ++i)
        op.require(op.shape(i).empty(), str("operand ", i, " is not a scalar"),
                   "give the start along each dimension as i32[]");
}

/// The dimension numbers of a gather or a scatter. `slices` is the gather's result or the scatter's updates.
struct GatherDims {
    std::vector<std::size_t> offset, collapsed, batch, index_batch, index_map;
    std::size_t index_dim = 0;
    std::vector<std::size_t> window; ///< of the operand: those that `offset` lists, in order

    GatherDims(const OpView& op, const Shape& operand, const Shape& indices, std::size_t slices_rank)
    {
        offset = op.dims(Attr::offset_dims, slices_rank);
        collapsed = op.dims(Attr::collapsed_dims, operand.size());
        batch = op.dims(Attr::batch_dims, operand.size());
        index_batch = op.dims(Attr::index_batch_dims, indices.size());
        index_map = op.dims(Attr::index_map, operand.size());
        const i64 at = op.number_or(Attr::index_dim, static_cast<i64>(indices.size()));
        op.require(
            at >= 0 && at <= static_cast<i64>(indices.size()),
            str("its attribute 'index_dim' is ", at, ", the indices have ", indices.size(), " dimensions"),
            "name a dimension of the indices, or the one after the last");
        index_dim = static_cast<std::size_t>(at);
        for (std::size_t d = 0; d < operand.size(); ++d)
            if (!lists(collapsed, d) && !lists(batch, d))
                window.push_back(d);
        const i64 length = index_dim < indices.size() ? indices[index_dim] : 1;
        op.require(
            static_cast<i64>(index_map.size()) == length,
            str("its attribute 'index_map' names ", index_map.size(), " dimensions, an index has ", length),
            "name the operand's dimension of each component of an index");
        op.require(window.size() == offset.size(),
                   str("its attribute 'offset_dims' names ", offset.size(), " dimensions, the slices have ",
                       window.size()),
                   "name one for each operand dimension that is neither collapsed nor batch");
        op.require(std::ranges::is_sorted(offset), "its attribute 'offset_dims' is not sorted", "sort it");
        op.require(batch.size() == index_batch.size(),
                   str("has ", batch.size(), " batch dimensions of the operand, ", index_batch.size(),
                       " of the indices"),
                   "pair them");
        for (const std::size_t d : batch)
            op.require(!lists(index_map, d),
                       str("its attribute 'index_map' names dimension ", d, ", which is in 'batch_dims'"),
                       "name it in one of the two: along a batch dimension an index has its own place");
        for (std::size_t i = 0; i < batch.size(); ++i)
            op.require(operand[batch[i]] == indices[index_batch[i]] && !lists(collapsed, batch[i]) &&
                           index_batch[i] != index_dim,
                       "has batch dimensions that do not fit", "use dimensions of the same extent, once");
    }

    /// The dimensions of the indices that the slices have, in order.
    std::vector<std::size_t> index_dims(std::size_t rank) const
    {
        std::vector<std::size_t> dims;
        for (std::size_t d = 0; d < rank; ++d)
            if (d != index_dim)
                dims.push_back(d);
        return dims;
    }
};

/// The extents of a scatter's window.
Shape window_sizes(const GatherDims& dims, const Shape& operand, const Shape& updates)
{
    Shape sizes(operand.size(), 1);
    for (std::size_t i = 0; i < dims.window.size(); ++i)
        sizes[dims.window[i]] = updates[dims.offset[i]];
    return sizes;
}

/// The factors that operand, indices and slices share. `scatters`: the operand is a result.
struct GatherFactors {
    FactorList operand, indices, slices;
};

/// The operand's extents over all ranks.
Shape whole_shape(const OpView& op)
{
    return op.op().attrs->lists.find(Attr::whole) ? op.list(Attr::whole, op.shape(0).size()) : op.shape(0);
}

/// `sizes`: of the window over all ranks.
GatherFactors gather_factors(RuleMaker& maker, const OpView& op, const GatherDims& dims, const Shape& operand,
                             const Shape& indices, const Shape& sizes, std::size_t slices_rank, bool scatters)
{
    const Shape whole = whole_shape(op);
    const bool clamps = op.number_or(Attr::clamp, scatters ? 0 : 1) != 0;
    // The window covers the dimension, from its begin on.
    const auto passes = [&](std::size_t d) {
        return sizes[d] == whole[d] && !lists(dims.collapsed, d) && (clamps || !lists(dims.index_map, d));
    };
    GatherFactors made{FactorList(operand.size(), -1), FactorList(indices.size(), -1),
                       FactorList(slices_rank, -1)};
    // What an index selects may be sharded: other ranks return zero, or skip the update.
    const FactorKind selected = scatters ? FactorKind::parallel : FactorKind::reduced;
    for (std::size_t d = 0; d < operand.size(); ++d) {
        const bool shared = passes(d) || lists(dims.batch, d);
        made.operand[d] = maker.factor(operand[d], shared ? FactorKind::parallel : selected);
    }
    for (std::size_t i = 0; i < dims.window.size(); ++i) {
        const std::size_t d = dims.window[i];
        made.slices[dims.offset[i]] =
            passes(d) ? made.operand[d] : maker.factor(sizes[d], FactorKind::replicated, true);
    }
    const std::vector<std::size_t> from_indices = dims.index_dims(indices.size());
    std::size_t next = 0;
    for (std::size_t d = 0; d < slices_rank; ++d) {
        if (lists(dims.offset, d))
            continue;
        op.require(next < from_indices.size(), "has slices with too many dimensions",
                   "the slices have the dimensions of the indices and of the window");
        const std::size_t index = from_indices[next++];
        const auto paired = std::ranges::find(dims.index_batch, index);
        if (paired != dims.index_batch.end())
            made.indices[index] =
                made.operand[dims.batch[static_cast<std::size_t>(paired - dims.index_batch.begin())]];
        else
            made.indices[index] =
                maker.factor(indices[index], scatters ? FactorKind::reduced : FactorKind::parallel);
        made.slices[d] = made.indices[index];
    }
    op.require(next == from_indices.size(), "has slices with too few dimensions",
               "the slices have the dimensions of the indices and of the window");
    if (dims.index_dim < indices.size())
        made.indices[dims.index_dim] = maker.factor(indices[dims.index_dim], FactorKind::replicated, true);
    return made;
}

/// Of a dynamic slice: where a rank's parts of the operand and of the slice begin, the operand's extents over
/// all ranks, and those of the slice, for which the starts are clamped.
void set_places(Attributes& attrs, const LocalPart& part, const Box& slice, const Shape& sizes)
{
    std::vector<i64> begin = part.operands[0].offset;
    begin.insert(begin.end(), slice.offset.begin(), slice.offset.end());
    attrs.lists.set(Attr::begin, std::move(begin));
    attrs.lists.set(Attr::whole, part.graph[part.op.operands[0]].type.shape);
    attrs.lists.set(Attr::slice_sizes, sizes);
}

} // namespace

FactorRule dynamic_slice(const Graph& graph, const Op& given)
{
    const OpView op(graph, given);
    op.require(op.operands() > 0, "has no operand", "name the tensor first");
    const Shape& shape = op.shape(0);
    require_scalars(op, 1, shape.size());
    const Shape sizes = op.extents(Attr::shape);
    op.require(sizes.size() == shape.size(), "its attribute 'shape' has another number of dimensions",
               "write one extent per dimension");
    RuleMaker maker(op);
    FactorList result;
    const Shape whole = whole_shape(op); // of a rank's part, only this says which dimensions are sliced
    for (std::size_t d = 0; d < shape.size(); ++d) {
        op.require(sizes[d] <= whole[d],
                   str("takes ", sizes[d], " of dimension ", d, ", which has ", whole[d]),
                   "take a slice within the operand");
        const bool sliced = sizes[d] != shape[d];
        maker.rule.operands[0][d] =
            maker.factor(shape[d], sliced ? FactorKind::replicated : FactorKind::parallel, sliced);
        result.push_back(sliced ? maker.factor(sizes[d], FactorKind::parallel, true)
                                : maker.rule.operands[0][d]);
    }
    return maker.with_result(result);
}

void local_dynamic_slice(Attributes& attrs, const LocalPart& part)
{
    set_places(attrs, part, part.results[0], OpView(part.graph, part.op).list(Attr::shape));
    attrs.lists.set(Attr::shape, part.results[0].shape);
}

FactorRule dynamic_update_slice(const Graph& graph, const Op& given)
{
    const OpView op(graph, given);
    op.require(op.operands() > 1, "has too few operands", "name the tensor, the update and the starts");
    const Shape &shape = op.shape(0), &update = op.shape(1);
    require_scalars(op, 2, shape.size());
    op.require(update.size() == shape.size(), "has an update with another number of dimensions",
               "use an update of the tensor's rank");
    RuleMaker maker(op);
    const Shape whole = whole_shape(op);
    for (std::size_t d = 0; d < shape.size(); ++d) {
        op.require(update[d] <= whole[d],
                   str("writes ", update[d], " of dimension ", d, ", which has ", whole[d]),
                   "use an update that fits into the tensor");
        maker.rule.operands[0][d] = maker.factor(shape[d]);
        maker.rule.operands[1][d] = update[d] == shape[d]
                                        ? maker.rule.operands[0][d]
                                        : maker.factor(update[d], FactorKind::replicated, true);
    }
    return maker.with_result(maker.rule.operands[0]);
}

void local_dynamic_update_slice(Attributes& attrs, const LocalPart& part)
{
    set_places(attrs, part, part.operands[1], part.graph[part.op.operands[1]].type.shape);
}

FactorRule gather(const Graph& graph, const Op& given)
{
    const OpView op(graph, given, 2);
    const Shape &operand = op.shape(0), &indices = op.shape(1);
    const auto sizes = op.list(Attr::slice_sizes, operand.size());
    const auto offsets = op.list_or_empty(Attr::offset_dims);
    const std::size_t rank =
        offsets.size() + indices.size() -
        (op.number_or(Attr::index_dim, static_cast<i64>(indices.size())) < static_cast<i64>(indices.size())
             ? 1
             : 0);
    const GatherDims dims(op, operand, indices, rank);
    const Shape whole = whole_shape(op);
    for (std::size_t d = 0; d < operand.size(); ++d)
        op.require(sizes[d] >= 0 && sizes[d] <= whole[d] &&
                       (sizes[d] <= 1 || (!lists(dims.collapsed, d) && !lists(dims.batch, d))),
                   str("takes slices of ", sizes[d], " of dimension ", d, ", which has ", operand[d]),
                   "take slices within the operand, of 1 along collapsed and batch dimensions");
    RuleMaker maker(op);
    const GatherFactors factors = gather_factors(maker, op, dims, operand, indices, sizes, rank, false);
    maker.rule.operands = {factors.operand, factors.indices};
    return maker.with_result(factors.slices);
}

void local_gather(Attributes& attrs, const LocalPart& part)
{
    attrs.lists.set(Attr::begin, part.operands[0].offset);
    attrs.lists.set(Attr::whole, part.graph[part.op.operands[0]].type.shape);
}

FactorRule scatter(const Graph& graph, const Op& given)
{
    const OpView op(graph, given, 3);
    const Shape &operand = op.shape(0), &indices = op.shape(1), &updates = op.shape(2);
    op.require(given.attrs->combine != Combine::lse, "cannot scatter by lse", "use sum, max, min or product");
    const GatherDims dims(op, operand, indices, updates.size());
    const Shape sizes = given.attrs->lists.find(Attr::slice_sizes)
                            ? op.list(Attr::slice_sizes, operand.size())
                            : window_sizes(dims, operand, updates);
    const Shape whole = whole_shape(op);
    for (std::size_t d = 0; d < operand.size(); ++d)
        op.require(sizes[d] <= whole[d],
                   str("writes ", sizes[d], " of dimension ", d, ", which has ", operand[d]),
                   "use updates that fit into the operand");
    RuleMaker maker(op);
    const GatherFactors factors =
        gather_factors(maker, op, dims, operand, indices, sizes, updates.size(), true);
    maker.rule.operands = {factors.operand, factors.indices, factors.slices};
    for (std::size_t d = 0; d < updates.size(); ++d)
        op.require(maker.rule[factors.slices[d]].size == updates[d],
                   str("dimension ", d, " of the updates is ", updates[d], ", must be ",
                       maker.rule[factors.slices[d]].size),
                   "correct the updates or the dimension lists");
    // Updates that overwrite are ordered, so one rank needs them all.
    if (!given.attrs->combine)
        for (Factor& factor : maker.rule.factors)
            if (factor.kind == FactorKind::reduced)
                factor.kind = FactorKind::replicated;
    return maker.with_result(factors.operand, given.attrs->combine.value_or(Combine::sum));
}

void local_scatter(Attributes& attrs, const LocalPart& part)
{
    const OpView op(part.graph, part.op);
    const Shape &operand = op.shape(0), &updates = op.shape(2);
    local_gather(attrs, part);
    attrs.lists.set(Attr::slice_sizes,
                    window_sizes(GatherDims(op, operand, op.shape(1), updates.size()), operand, updates));
    // The operand's content counts once among the ranks that share the updates.
    for (std::size_t f = 0; f < part.factors.size(); ++f)
        if (part.rule.factors[f].kind == FactorKind::reduced && !part.first[f])
            attrs.value = 0;
}

FactorRule exchange(const Graph& graph, const Op& given)
{
    const OpView op(graph, given, 1);
    const Shape shape = op.extents(Attr::shape);
    op.require(shape.size() == op.shape(0).size(), "has a result with another number of dimensions",
               "keep the number of dimensions");
    RuleMaker maker(op);
    FactorList result;
    for (std::size_t d = 0; d < shape.size(); ++d) {
        maker.rule.operands[0][d] = maker.factor(op.shape(0)[d], FactorKind::replicated, true);
        result.push_back(maker.factor(shape[d], FactorKind::replicated, true));
    }
    return maker.with_result(result);
}

} // namespace trivium::general
