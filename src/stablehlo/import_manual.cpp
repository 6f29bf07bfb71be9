// Manual computations (shard_map) and the collectives in them. Such a computation is a manual region: `local`
// and `global` are its boundaries. A collective leaves the region along its axes: each rank's values become a
// dimension of a tensor of all ranks, on which the collective is an ordinary op.
#include "ir/general/manual.hpp"
#include "ir/text/text.hpp"
#include "stablehlo/counting.hpp"
#include "stablehlo/hlo_text.hpp"
#include "stablehlo/importer.hpp"

#include <algorithm>

namespace trivium {

namespace {

using I = HloImporter;
using K = OpKind;
using Numbers = I::Numbers;
using Axes = std::vector<std::string>;

bool has_axis(const Axes& axes, const std::string& axis)
{
    return std::ranges::find(axes, axis) != axes.end();
}

/// The axes along which ranks have values of their own.
Axes varying(I& i, ValueId x)
{
    const std::vector<Axes> all = manual_axes(i.graph());
    return all.empty() ? Axes() : all[x.index()];
}

/// `local` or `global` along these axes of each dimension.
ValueId boundary(I& i, const HloOp& op, K kind, ValueId x, const std::vector<Axes>& dims)
{
    if (std::ranges::all_of(dims, [](const Axes& axes) { return axes.empty(); }))
        return x;
    Sharding sharding;
    for (const Axes& axes : dims)
        sharding.dims.push_back({.axes = axes, .open = false});
    return i.emit(op, kind, {x}, {.sharding = to_text(sharding)});
}

/// x of each rank along `axes`, as a tensor that begins with a dimension for each axis. It no longer varies
/// along them.
ValueId stacked(I& i, const HloOp& op, ValueId x, const Axes& axes)
{
    const Axes own = varying(i, x);
    const Shape shape = i.shape_of(x);
    Shape ones(axes.size(), 1), whole;
    std::vector<Axes> dims(axes.size() + shape.size());
    for (std::size_t a = 0; a < axes.size(); ++a) {
        whole.push_back(i.graph().mesh.size(axes[a]));
        if (has_axis(own, axes[a]))
            dims[a] = {axes[a]};
    }
    ones.insert(ones.end(), shape.begin(), shape.end());
    whole.insert(whole.end(), shape.begin(), shape.end());
    return i.spread(op, boundary(i, op, K::global, i.reshaped(op, x, ones), dims), counting(whole.size()),
                    whole); // the same on all
}

/// The reverse: a rank's part of a tensor that begins with a dimension for each axis.
ValueId unstacked(I& i, const HloOp& op, ValueId x, const Axes& axes)
{
    const Shape shape = i.shape_of(x);
    std::vector<Axes> dims(shape.size());
    for (std::size_t a = 0; a < axes.size(); ++a)
        dims[a] = {axes[a]};
    return i.reshaped(op, boundary(i, op, K::local, x, dims),
                      {shape.begin() + static_cast<std::ptrdiff_t>(axes.size()), shape.end()});
}

/// The first `count` dimensions as one, of the number of ranks.
ValueId with_ranks(I& i, const HloOp& op, ValueId x, std::size_t count)
{
    const Shape shape = i.shape_of(x);
    const auto rest = shape.begin() + static_cast<std::ptrdiff_t>(count);
    Shape flat{std::accumulate(shape.begin(), rest, i64{1}, std::multiplies<>())};
    flat.insert(flat.end(), rest, shape.end());
    return i.reshaped(op, x, flat);
}

/// A tensor that begins with a dimension of ranks: a rank's part.
ValueId of_ranks(I& i, const HloOp& op, ValueId x, const Axes& axes)
{
    Shape shape = i.shape_of(x);
    shape.erase(shape.begin());
    for (std::size_t a = axes.size(); a-- > 0;)
        shape.insert(shape.begin(), i.graph().mesh.size(axes[a]));
    return unstacked(i, op, i.reshaped(op, x, shape), axes);
}

/// The axes along which the ranks of each group differ, in the order of the mesh.
Axes axes_of_groups(I& i, const HloOp& op)
{
    const Mesh& mesh = i.graph().mesh;
    const HloAttribute* groups = op.attributes.find("replica_groups");
    i.require(groups && groups->kind == HloAttribute::Kind::literal && groups->literal.type.shape.size() == 2,
              op, "it lacks groups of ranks");
    const Numbers ranks = numbers_of(groups);
    const i64 size = groups->literal.type.shape[1];
    i.require(size > 0 && static_cast<i64>(ranks.size()) == mesh.ranks() &&
                  std::ranges::all_of(ranks, [&](i64 r) { return r >= 0 && r < mesh.ranks(); }),
              op, "its groups are not those of the mesh's ranks");
    Axes axes;
    const Coordinates first = mesh.coordinates(ranks[0]);
    for (std::size_t a = 0; a < mesh.axes.size(); ++a)
        for (i64 r = 1; r < size; ++r)
            if (mesh.coordinates(ranks[static_cast<std::size_t>(r)])[a] != first[a] &&
                !has_axis(axes, mesh.axes[a].name))
                axes.push_back(mesh.axes[a].name);
    for (std::size_t at = 0; at < ranks.size(); at += static_cast<std::size_t>(size)) {
        const Numbers group(ranks.begin() + static_cast<std::ptrdiff_t>(at),
                            ranks.begin() + static_cast<std::ptrdiff_t>(at) + size);
        i.require(group == mesh.group(mesh.coordinates(group[0]), axes), op,
                  "its groups are not along axes of the mesh");
    }
    i.require_manual(op, axes);
    return axes;
}

i64 number_of(const I& i, const HloOp& op, const char* name)
{
    const Numbers numbers = i.list(op, name);
    i.require(numbers.size() == 1 && numbers[0] >= 0 && numbers[0] < static_cast<i64>(i.shape(op, 0).size()),
              op, str("its ", name, " is not a dimension"));
    return numbers[0];
}

void manual_computation(I& i, const HloOp& op)
{
    const HloAttribute *in = op.attributes.find("in_shardings"), *out = op.attributes.find("out_shardings"),
                       *axes = op.attributes.find("manual_axes");
    const HloRegion& body = i.region(op, 0);
    i.require(in && out && axes && in->items.size() == op.operands.size() &&
                  out->items.size() == op.results.size() && body.arguments.size() == op.operands.size(),
              op, "it lacks shardings");
    const Axes manual = axes->names;
    const auto manual_part = [&](const HloAttribute& sharding, std::size_t rank) {
        HloAttribute attributes;
        attributes.names = {"sdy.sharding"};
        attributes.items = {sharding};
        std::vector<Axes> dims(rank);
        if (const auto stated = i.mesh().of(attributes, rank, i.place(op));
            stated && stated->dims.size() == rank)
            for (std::size_t d = 0; d < rank; ++d)
                for (const std::string& axis : stated->dims[d].axes)
                    if (has_axis(manual, axis.substr(0, axis.find(':'))))
                        dims[d].push_back(axis);
        return dims;
    };
    std::vector<HloValue> arguments;
    for (std::size_t n = 0; n < op.operands.size(); ++n) {
        const ValueId x = i.value(op, n);
        const ValueId part = boundary(i, op, K::local, x, manual_part(in->items[n], i.shape_of(x).size()));
        i.require(i.shape_of(part) == body.arguments[n].type.shape, op,
                  str("its argument ", n, " has another shape than its shards"));
        arguments.push_back({body.arguments[n].type, {}, part});
    }
    const Axes before = i.enter_manual(op, manual);
    const std::vector<HloValue> results = i.run_region(op, body, std::move(arguments));
    i.leave_manual(before);
    i.require(results.size() == op.results.size(), op, "it returns another number of values");
    for (std::size_t n = 0; n < results.size(); ++n) {
        const auto dims = manual_part(out->items[n], results[n].type.shape.size());
        ValueId x = i.value_of(results[n], op);
        Axes rest, stated;
        for (const Axes& each : dims)
            stated.insert(stated.end(), each.begin(), each.end());
        for (const std::string& axis : varying(i, x))
            if (has_axis(manual, axis) && !has_axis(stated, axis))
                rest.push_back(axis);
        for (const std::string& axis : stated)
            i.require(
                has_axis(varying(i, x), axis), op,
                str("result ", n, " is the same along '", axis, "', along which its sharding divides it"));
        if (!rest.empty()) { // the same on all of these ranks, says the text: the first one's
            const ValueId all = with_ranks(i, op, stacked(i, op, x, rest), rest.size());
            Numbers limit = i.shape_of(all);
            limit[0] = 1;
            const Numbers zeros(limit.size(), 0);
            x = i.reshaped(
                op, i.emit(op, K::slice, {all}, {.lists = {{Attr::start, zeros}, {Attr::limit, limit}}}),
                i.shape_of(x));
        }
        i.give(op, boundary(i, op, K::global, x, dims), n);
    }
}

ValueId reduced_over(I& i, const HloOp& op, const Axes& axes)
{
    const std::string how = i.simple_region(op, 0);
    const bool known = how == "add" || how == "maximum" || how == "minimum" || how == "multiply";
    i.require(known && i.type(op, 0).element != HloElement::i1, op,
              "its region is not a sum, product, maximum or minimum");
    const ValueId all = stacked(i, op, i.value(op, 0), axes);
    return i.emit(op, K::reduce, {all},
                  {.combine = how == "add"       ? Combine::sum
                              : how == "maximum" ? Combine::max
                              : how == "minimum" ? Combine::min
                                                 : Combine::product,
                   .lists = {{Attr::dims, counting(axes.size())}}});
}

void all_reduce(I& i, const HloOp& op)
{
    const Axes axes = axes_of_groups(i, op);
    i.give(op, axes.empty() ? i.value(op, 0) : reduced_over(i, op, axes));
}

void reduce_scatter(I& i, const HloOp& op)
{
    const Axes axes = axes_of_groups(i, op);
    std::vector<Axes> dims(i.shape(op, 0).size());
    dims[static_cast<std::size_t>(number_of(i, op, "scatter_dimension"))] = axes;
    i.give(op, axes.empty() ? i.value(op, 0) : boundary(i, op, K::local, reduced_over(i, op, axes), dims));
}

/// A dimension of ranks, the first one, goes before dimension `dim` of the rest, and becomes a part of it.
ValueId ranks_into(I& i, const HloOp& op, ValueId x, i64 dim)
{
    Shape shape = i.shape_of(x);
    Numbers order = counting(shape.size() - 1, 1);
    order.insert(order.begin() + dim, 0);
    const ValueId moved = i.transposed(op, x, order);
    const i64 ranks = shape[0];
    shape.erase(shape.begin());
    shape[static_cast<std::size_t>(dim)] *= ranks;
    return i.reshaped(op, moved, shape);
}

void all_gather(I& i, const HloOp& op)
{
    const Axes axes = axes_of_groups(i, op);
    const i64 dim = number_of(i, op, "all_gather_dim");
    const ValueId x = i.value(op, 0);
    const Axes own = varying(i, x);
    std::vector<Axes> dims(i.shape_of(x).size());
    dims[static_cast<std::size_t>(dim)] = axes;
    if (std::ranges::all_of(axes, [&](const std::string& axis) { return has_axis(own, axis); }))
        return i.give(op, boundary(i, op, K::global, x, dims));
    i.give(op, ranks_into(i, op, with_ranks(i, op, stacked(i, op, x, axes), axes.size()), dim));
}

void all_to_all(I& i, const HloOp& op)
{
    const Axes axes = axes_of_groups(i, op);
    const i64 split = number_of(i, op, "split_dimension"), join = number_of(i, op, "concat_dimension");
    if (axes.empty())
        return i.give(op, i.value(op, 0));
    const ValueId all = with_ranks(i, op, stacked(i, op, i.value(op, 0), axes), axes.size());
    Shape shape = i.shape_of(all);
    const i64 ranks = shape[0];
    const auto at = static_cast<std::size_t>(split) + 1;
    i.require(shape[at] % ranks == 0, op, "the number of ranks does not divide its dimension");
    shape[at] /= ranks;
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(at), ranks); // [from, …, to, …]
    Numbers order = counting(shape.size());
    order.erase(order.begin() + static_cast<std::ptrdiff_t>(at));
    order.insert(order.begin(), static_cast<i64>(at)); // [to, from, …]
    ValueId sent = i.transposed(op, i.reshaped(op, all, shape), order);
    Shape rest = i.shape_of(sent);
    rest.erase(rest.begin(), rest.begin() + 2);
    order = counting(rest.size(), 2); // [to, …, from, join, …]
    order.insert(order.begin() + join, 1);
    order.insert(order.begin(), 0);
    sent = i.transposed(op, sent, order);
    rest[static_cast<std::size_t>(join)] *= ranks;
    rest.insert(rest.begin(), ranks);
    i.give(op, of_ranks(i, op, i.reshaped(op, sent, rest), axes));
}

void collective_permute(I& i, const HloOp& op)
{
    const Mesh& mesh = i.graph().mesh;
    const Numbers pairs = i.list(op, "source_target_pairs");
    i.require(pairs.size() % 2 == 0 &&
                  std::ranges::all_of(pairs, [&](i64 r) { return r >= 0 && r < mesh.ranks(); }),
              op, "its pairs are not ranks of the mesh");
    Axes axes;
    for (std::size_t p = 0; p < pairs.size(); p += 2)
        for (std::size_t a = 0; a < mesh.axes.size(); ++a)
            if (mesh.coordinates(pairs[p])[a] != mesh.coordinates(pairs[p + 1])[a] &&
                !has_axis(axes, mesh.axes[a].name))
                axes.push_back(mesh.axes[a].name);
    std::ranges::sort(axes, {}, [&](const std::string& axis) { return mesh.find(axis); });
    i.require_manual(op, axes);
    const auto index = [&](i64 rank) {
        i64 n = 0;
        for (const std::string& axis : axes)
            n = n * mesh.size(axis) + mesh.index_along(axis, mesh.coordinates(rank));
        return n;
    };
    i64 ranks = 1;
    for (const std::string& axis : axes)
        ranks *= mesh.size(axis);
    Numbers source(static_cast<std::size_t>(ranks), -1), count(source.size(), 0);
    for (std::size_t p = 0; p < pairs.size(); p += 2) {
        const auto to = static_cast<std::size_t>(index(pairs[p + 1]));
        i.require(source[to] < 0 || source[to] == index(pairs[p]), op,
                  "its pairs differ along other axes of the mesh");
        source[to] = index(pairs[p]);
        ++count[to];
    }
    for (const i64 n : count)
        i.require(n == 0 || n == mesh.ranks() / ranks, op, "its pairs differ along other axes of the mesh");
    const ValueId all = with_ranks(i, op, stacked(i, op, i.value(op, 0), axes), axes.size());
    const Shape shape = i.shape_of(all);
    std::vector<ValueId> parts;
    for (const i64 from : source) {
        Numbers start(shape.size(), 0), limit = shape;
        start[0] = from;
        limit[0] = from + 1;
        Shape one = shape;
        one[0] = 1;
        parts.push_back(
            from < 0 ? i.constant(op, i.graph()[all].type.dtype, one, 0)
                     : i.emit(op, K::slice, {all}, {.lists = {{Attr::start, start}, {Attr::limit, limit}}}));
    }
    const ValueId moved =
        parts.size() == 1 ? parts[0] : i.emit(op, K::concatenate, parts, {.lists = {{Attr::dims, {0}}}});
    i.give(op, of_ranks(i, op, moved, axes));
}

void partition_id(I& i, const HloOp& op)
{
    const Mesh mesh = i.graph().mesh;
    Axes axes;
    for (const MeshAxis& axis : mesh.axes)
        axes.push_back(axis.name);
    i.require_manual(op, axes);
    const ValueId ranks = i.emit(
        op, K::iota, {}, {.dtype = DType::i32, .lists = {{Attr::shape, {mesh.ranks()}}, {Attr::dims, {0}}}});
    i.give(op, of_ranks(i, op, ranks, axes));
    i.given(op).rank_step = 1;
}

} // namespace

bool give_axis_index(HloImporter& i, const HloOp& op, bool remainder)
{
    const i64 step = op.operands.size() == 2 ? i.operand(op, 0).rank_step : 0;
    const auto number = step > 0 ? i.known_int(op, 1) : std::nullopt;
    const Mesh& mesh = i.graph().mesh;
    if (!number || *number < 1 || *number > mesh.ranks())
        return false;
    if (!remainder) {
        const ValueId x = i.value(op, 0);
        i.give(op, i.emit(op, K::divide, {x, i.constant_like(op, x, static_cast<double>(*number))}));
        i.given(op).rank_step = step * *number;
        return true;
    }
    Axes axes; // those whose indices are the digits from `step` to `step` times `number`
    i64 below = 1, product = 1;
    for (std::size_t a = mesh.axes.size(); a-- > 0 && below < step * *number; below *= mesh.axes[a].size)
        if (below >= step) {
            axes.insert(axes.begin(), mesh.axes[a].name);
            product *= mesh.axes[a].size;
        }
    if (below != step * *number || product != *number)
        return false;
    const ValueId all = i.emit(op, K::iota, {},
                               {.dtype = DType::i32, .lists = {{Attr::shape, {product}}, {Attr::dims, {0}}}});
    i.give(op, of_ranks(i, op, all, axes));
    return true;
}

void add_manual(HloHandlers& all)
{
    all.insert({{"manual_computation", manual_computation},
                {"all_reduce", all_reduce},
                {"reduce_scatter", reduce_scatter},
                {"all_gather", all_gather},
                {"all_to_all", all_to_all},
                {"collective_permute", collective_permute},
                {"partition_id", partition_id}});
}

} // namespace trivium
