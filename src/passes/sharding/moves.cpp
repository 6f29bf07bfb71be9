#include "passes/sharding/moves.hpp"

#include "base/check.hpp"
#include "ir/exchange.hpp"
#include "passes/sharding/axis_parts.hpp"
#include "passes/sharding/move_search.hpp"

#include <algorithm>

namespace trivium {

namespace {

/// What is still partial after a reduction over `axis`, which may be several of the axes, or a part of one.
void reduce(std::vector<Partial>& partial, const std::string& axis, const Mesh& mesh)
{
    std::vector<Partial> rest;
    for (Partial& p : partial) {
        if (p.axis == axis)
            continue;
        if (!mesh.size_of(axis) || !mesh.size_of(p.axis) || !mesh.overlap(p.axis, axis)) {
            rest.push_back(std::move(p));
            continue;
        }
        const AxisParts parts(mesh, {p.axis, axis}, false);
        PartList left = parts.parts_of(p.axis);
        std::erase_if(left, [&](PartId part) { return holds(parts.parts_of(axis), part); });
        for (const std::string& name : parts.names_of(left))
            rest.push_back({name, p.combine});
    }
    partial = std::move(rest);
}

/// The layout after a move.
void apply(Layout& layout, const Move& move, const Mesh& mesh)
{
    if (move.kind == MoveKind::all_reduce || move.kind == MoveKind::reduce_scatter)
        reduce(layout.partial, move.axis, mesh);
    if (!move.to.empty())
        layout.axes = move.to;
    else if (move.kind == MoveKind::all_gather)
        layout.axes[move.dim].pop_back();
    else if (move.kind != MoveKind::all_reduce)
        layout.axes[move.dim].push_back(move.axis);
}

/// Whether an axis, or a part of one, that `from` and `to` both name is at another place in `to`, or divided
/// otherwise.
bool changes_places(const DimAxes& from, const DimAxes& to, const Mesh& mesh)
{
    for (std::size_t d = 0; d < from.size(); ++d) {
        const auto parted = std::mismatch(from[d].begin(), from[d].end(), to[d].begin(), to[d].end());
        if (parted.first != from[d].end() && parted.second != to[d].end())
            return true;
        for (auto axis = parted.first; axis != from[d].end(); ++axis)
            for (const auto& other : to)
                for (const std::string& name : other)
                    if (mesh.overlap(*axis, name))
                        return true;
    }
    return false;
}

/// Elements that each of these ranks gets from others in an exchange, added.
double received(const DimAxes& from, const DimAxes& to, const Shape& whole, const Mesh& mesh,
                const std::vector<i64>& ranks)
{
    const Shards has(whole, from, mesh), needs(whole, to, mesh);
    double moved = 0;
    for (const i64 rank : ranks) {
        const Coordinates at = mesh.coordinates(rank);
        moved += static_cast<double>(elements_lacking(has(at), needs(at)));
    }
    return moved;
}

/// The sums over `partial` in the order in which to make them: the fastest axis first. Of an axis of which
/// `to` names parts, these by themselves, in the order of their dimension, then what is left.
std::vector<Partial> reductions_between(const std::vector<Partial>& partial, const DimAxes& to,
                                        const Mesh& mesh)
{
    std::vector<Partial> all;
    for (const Partial& p : partial) {
        std::vector<std::string> named{p.axis};
        for (const std::string& name : mesh.size_of(p.axis) ? names_in(to) : std::vector<std::string>{})
            if (name != p.axis && mesh.overlap(name, p.axis) && mesh.size(name) < mesh.size(p.axis))
                named.push_back(name);
        if (named.size() == 1) {
            all.push_back(p);
            continue;
        }
        const AxisParts parts(mesh, named, false);
        PartList left = parts.parts_of(p.axis);
        for (std::size_t i = 1; i < named.size(); ++i) {
            all.push_back({named[i], p.combine});
            std::erase_if(left, [&](PartId part) { return holds(parts.parts_of(named[i]), part); });
        }
        for (const std::string& name : parts.names_of(left))
            all.push_back({name, p.combine});
    }
    struct Place {
        int axis = 0;
        std::size_t in_dim = 0;
        i64 major = 1;
    };
    const auto place_of = [&](const Partial& p) {
        const AxisPart part = axis_part(mesh, p.axis);
        for (const std::vector<std::string>& dim : to)
            if (const auto at = std::ranges::find(dim, p.axis); at != dim.end())
                return Place{part.axis, static_cast<std::size_t>(at - dim.begin()), part.major};
        return Place{part.axis, ~std::size_t{0}, part.major};
    };
    std::ranges::stable_sort(all, [&](const Partial& a, const Partial& b) {
        const Place one = place_of(a), other = place_of(b);
        return one.axis != other.axis       ? one.axis > other.axis
               : one.in_dim != other.in_dim ? one.in_dim < other.in_dim
                                            : one.major > other.major;
    });
    return all;
}

constexpr i64 max_priced_ranks = 64;

/// The same per rank; of a large mesh over the ranks that differ along the axes that the exchange concerns,
/// or over some of them.
double received(const DimAxes& from, const DimAxes& to, const Shape& whole, const Mesh& mesh)
{
    constexpr i64 few = 64;
    const Coordinates first(mesh.axes.size(), 0);
    std::vector<std::string> along = names_in(from);
    for (const std::string& name : names_in(to))
        along.push_back(name);
    i64 most = 1; // that differ along these axes
    for (const MeshAxis& axis : mesh.axes)
        if (std::any_of(along.begin(), along.end(),
                        [&](const std::string& name) { return mesh.overlap(name, axis.name); }))
            most *= axis.size;
    std::vector<i64> ranks;
    if (most <= max_priced_ranks)
        ranks = mesh.group(first, mesh.ranks() <= few ? axes_of_group(mesh, world_axis) : along);
    else // a sample: the same numbers on all ranks
        for (i64 i = 0; i < max_priced_ranks; ++i)
            ranks.push_back(
                static_cast<i64>(static_cast<u64>(i) * 2'654'435'761U % static_cast<u64>(mesh.ranks())));
    return received(from, to, whole, mesh, ranks) / static_cast<double>(ranks.size());
}

} // namespace

void require_few(const Graph& graph, ValueId x, i64 ranks)
{
    constexpr i64 most = 16'384;
    if (ranks > most)
        throw UserError({str(source_place(graph, graph[x].line), "%", graph[x].name),
                         str("moves between ", ranks, " ranks, more than ", most),
                         "an exchange names the part of each rank",
                         "annotate the values before and after it in the same way, or use smaller axes"});
}

bool divides_evenly(const Shape& whole, const DimAxes& axes, const Mesh& mesh)
{
    for (std::size_t d = 0; d < axes.size(); ++d)
        if (whole[d] % mesh.parts_along(axes[d]) != 0)
            return false;
    return true;
}

Bytes largest_shard(const TensorType& type, const DimAxes& axes, const Mesh& mesh)
{
    return local_type(type, axes, mesh, Coordinates(mesh.axes.size(), 0)).bytes();
}

bool within(const std::vector<Partial>& some, const std::vector<Partial>& all)
{
    return std::all_of(some.begin(), some.end(),
                       [&](const Partial& p) { return std::find(all.begin(), all.end(), p) != all.end(); });
}

bool is_contributor(const Layout& layout, const Mesh& mesh, const Coordinates& at,
                    const std::string& stage_axis)
{
    std::vector<std::string> summed;
    for (const Partial& partial : layout.partial)
        summed.push_back(partial.axis);
    const Coordinates rest = mesh.first_along(summed, at);
    for (std::size_t a = 0; a < mesh.axes.size(); ++a)
        if (rest[a] != 0 && mesh.axes[a].name != stage_axis)
            return false;
    return true;
}

ValueId counted_once(Builder& builder, ValueId x, const std::vector<Partial>& all,
                     const std::vector<Partial>& own, const Coordinates& at)
{
    if (own.size() >= all.size())
        return x;
    const bool counts = std::ranges::all_of(all, [&](const Partial& p) {
        return within({p}, own) || builder.graph().mesh.index_along(p.axis, at) == 0;
    });
    return builder.scaled_by(x, counts ? 1 : 0);
}

std::vector<std::string> names_in(const DimAxes& axes)
{
    std::vector<std::string> all;
    for (const auto& dim : axes)
        all.insert(all.end(), dim.begin(), dim.end());
    return all;
}

Sharding sharding_of(const Layout& layout)
{
    Sharding sharding;
    for (const auto& axes : layout.axes)
        sharding.dims.push_back({axes, false});
    sharding.partial = layout.partial;
    return sharding;
}

namespace {

/// Whether one exchange would send this much less than other moves.
constexpr double worth_exchange = 1.05;

/// What follows the last reduction as one exchange, if that sends less. The search knows no exchange that
/// also drops or adds axes.
std::vector<Move> shortened(std::vector<Move> moves, const Layout& from, const DimAxes& to,
                            const Shape& whole, const Mesh& mesh)
{
    Layout at = from, reduced = from;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < moves.size(); ++i) {
        apply(at, moves[i], mesh);
        if (moves[i].kind == MoveKind::all_reduce || moves[i].kind == MoveKind::reduce_scatter) {
            begin = i + 1;
            reduced = at;
        }
    }
    const auto rest = moves.begin() + static_cast<std::ptrdiff_t>(begin);
    const std::vector<Move> exchange = direct_moves(reduced, to);
    if (reduced.axes == to || elements_moved({rest, moves.end()}, reduced, whole, mesh) <=
                                  worth_exchange * elements_moved(exchange, reduced, whole, mesh))
        return moves;
    moves.erase(rest, moves.end());
    moves.insert(moves.end(), exchange.begin(), exchange.end());
    return moves;
}

} // namespace

std::vector<Move> moves_between(const Layout& from, const DimAxes& to, const Shape& whole, const Mesh& mesh,
                                int* layouts)
{
    std::vector<Move> moves;
    if (from.partial.empty() && from.axes == to)
        return moves;
    Layout now = from;
    const auto make = [&](Move move) {
        apply(now, move, mesh);
        moves.push_back(std::move(move));
    };
    if (changes_places(from.axes, to, mesh))
        return shortened(search_moves(from, to, whole, mesh, layouts), from, to, whole, mesh);
    // So every dimension either loses axes or gains some. What is sliced first need be neither added nor
    // gathered.
    const auto slice = [&] {
        const auto waits = [&](const std::string& axis) {
            return std::any_of(now.partial.begin(), now.partial.end(), [&](const Partial& p) {
                const std::vector<std::string> axes = axes_of_group(mesh, p.axis);
                return std::any_of(axes.begin(), axes.end(),
                                   [&](const std::string& other) { return mesh.overlap(other, axis); });
            });
        };
        for (std::size_t d = 0; d < to.size(); ++d)
            while (now.axes[d].size() < to[d].size() && !waits(to[d][now.axes[d].size()]))
                make({MoveKind::slice, std::string(to[d][now.axes[d].size()]), d});
    };
    slice();
    for (const Partial& p : reductions_between(from.partial, to, mesh)) {
        std::size_t dim = 0;
        const auto next = [&](std::size_t d) {
            const std::size_t have = now.axes[d].size();
            return to[d].size() > have && to[d][have] == p.axis;
        };
        while (dim < to.size() && !next(dim))
            ++dim;
        if (dim < to.size() && p.combine == Combine::sum)
            make({MoveKind::reduce_scatter, p.axis, dim, p.combine});
        else
            make({MoveKind::all_reduce, p.axis, 0, p.combine});
    }
    slice();
    for (std::size_t d = 0; d < to.size(); ++d)
        while (now.axes[d].size() > to[d].size())
            make({MoveKind::all_gather, std::string(now.axes[d].back()), d});
    return moves;
}

double elements_moved(const std::vector<Move>& moves, Layout from, const Shape& whole, const Mesh& mesh)
{
    double moved = 0;
    const auto elements = [&] {
        double n = static_cast<double>(element_count(whole));
        for (const auto& axes : from.axes)
            for (const std::string& axis : axes)
                n /= static_cast<double>(mesh.size(axis));
        return n;
    };
    for (const Move& move : moves) {
        const double before = elements(), n = static_cast<double>(mesh.ranks_along(move.axis));
        const DimAxes old = from.axes;
        apply(from, move, mesh);
        switch (move.kind) {
        case MoveKind::all_gather: moved += elements() * (n - 1) / n; break;
        case MoveKind::reduce_scatter: moved += before * (n - 1) / n; break;
        case MoveKind::all_reduce: moved += 2 * before * (n - 1) / n; break;
        case MoveKind::slice: break;
        case MoveKind::all_to_all:
        case MoveKind::permute: moved += received(old, from.axes, whole, mesh); break;
        }
    }
    return moved;
}

std::vector<Partial> put_off_sums(std::vector<Move>& moves, const DimAxes& to, const Mesh& mesh)
{
    std::vector<Partial> partial;
    std::erase_if(moves, [&](const Move& move) {
        const bool waits = move.kind == MoveKind::all_reduce && move.combine == Combine::sum &&
                           std::none_of(to.begin(), to.end(), [&](const std::vector<std::string>& axes) {
                               return std::any_of(axes.begin(), axes.end(), [&](const std::string& axis) {
                                   return mesh.overlap(axis, move.axis);
                               });
                           });
        if (waits)
            partial.push_back({move.axis, move.combine});
        return waits;
    });
    return partial;
}

TensorType local_type(const TensorType& whole, const DimAxes& axes, const Mesh& mesh, const Coordinates& at)
{
    return {whole.dtype, box_of_axes(whole.shape, axes, mesh, at).shape};
}

ValueId emit_moves(Builder& b, ValueId x, const std::vector<Move>& moves, const Layout& from,
                   const TensorType& whole, const Coordinates& at)
{
    if (moves.empty())
        return x;
    const Mesh& mesh = b.graph().mesh;
    Layout now = from;
    for (const Move& move : moves) {
        const DimAxes before = now.axes;
        apply(now, move, mesh);
        const TensorType type = local_type(whole, now.axes, mesh, at);
        switch (move.kind) {
        case MoveKind::all_gather: x = b.all_gather(x, move.axis, move.dim, type.shape[move.dim]); break;
        case MoveKind::reduce_scatter:
            x = b.reduce_scatter(x, move.axis, move.dim, type.shape[move.dim]);
            break;
        case MoveKind::all_reduce: x = b.all_reduce(x, move.axis, move.combine); break;
        case MoveKind::slice:
            x = b.slice_of(x, move.dim,
                           part_of(b.graph()[x].type.shape[move.dim], mesh.size(move.axis),
                                   mesh.index_along(move.axis, at)));
            break;
        case MoveKind::all_to_all:
        case MoveKind::permute: {
            require_few(b.graph(), x, mesh.ranks_along(move.axis));
            const Shards has(whole.shape, before, mesh), needs(whole.shape, now.axes, mesh);
            std::vector<Box> owned, needed;
            for (const i64 member : mesh.group(at, {move.axis})) {
                owned.push_back(has(mesh.coordinates(member)));
                needed.push_back(needs(mesh.coordinates(member)));
            }
            const bool permutes = move.kind == MoveKind::permute;
            x = b.exchange(permutes ? Builder::Exchange::permute : Builder::Exchange::all_to_all, x,
                           move.axis, owned, needed, type.shape);
            break;
        }
        }
        b.graph()[x].sharding = sharding_of(now);
        b.graph()[x].whole = whole.shape;
    }
    return x;
}

} // namespace trivium
