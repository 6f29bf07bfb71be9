#include "passes/moves.hpp"

#include <algorithm>

namespace trivium {

namespace {

/// The layout after a move.
void apply(Layout& layout, const Move& move)
{
    std::erase_if(layout.partial, [&](const Partial& p) {
        return p.axis == move.axis &&
               (move.kind == MoveKind::all_reduce || move.kind == MoveKind::reduce_scatter);
    });
    if (move.kind == MoveKind::all_gather)
        layout.axes[move.dim].pop_back();
    else if (move.kind != MoveKind::all_reduce)
        layout.axes[move.dim].push_back(move.axis);
}

} // namespace

DimAxes dim_axes(const Sharding& sharding)
{
    DimAxes axes;
    for (const DimSharding& dim : sharding.dims)
        axes.push_back(dim.axes);
    return axes;
}

Sharding sharding_of(const Layout& layout)
{
    Sharding sharding;
    for (const auto& axes : layout.axes)
        sharding.dims.push_back({axes, false});
    sharding.partial = layout.partial;
    return sharding;
}

std::vector<Move> moves_between(const Layout& from, const DimAxes& to, const Mesh& mesh)
{
    std::vector<Move> moves;
    Layout now = from;
    const auto make = [&](Move move) {
        apply(now, move);
        moves.push_back(std::move(move));
    };
    std::vector<Partial> partial = from.partial;
    std::sort(partial.begin(), partial.end(),
              [&](const Partial& a, const Partial& b) { return mesh.find(a.axis) > mesh.find(b.axis); });
    for (const Partial& p : partial) {
        std::size_t dim = 0;
        const auto next = [&](std::size_t d) {
            const std::size_t have = now.axes[d].size();
            return to[d].size() > have && to[d][have] == p.axis &&
                   std::equal(now.axes[d].begin(), now.axes[d].end(), to[d].begin());
        };
        while (dim < to.size() && !next(dim))
            ++dim;
        if (dim < to.size() && p.combine == Combine::sum) // a reduce-scatter can only compute sums
            make({MoveKind::reduce_scatter, p.axis, dim, p.combine});
        else
            make({MoveKind::all_reduce, p.axis, 0, p.combine});
    }
    const auto common = [&](std::size_t d) {
        std::size_t n = 0;
        while (n < now.axes[d].size() && n < to[d].size() && now.axes[d][n] == to[d][n])
            ++n;
        return n;
    };
    for (std::size_t d = 0; d < to.size(); ++d)
        while (now.axes[d].size() > common(d))
            make({MoveKind::all_gather, std::string(now.axes[d].back()), d});
    for (std::size_t d = 0; d < to.size(); ++d)
        while (now.axes[d].size() < to[d].size())
            make({MoveKind::slice, std::string(to[d][now.axes[d].size()]), d});
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
        apply(from, move);
        switch (move.kind) {
        case MoveKind::all_gather: moved += elements() * (n - 1) / n; break;
        case MoveKind::reduce_scatter: moved += before * (n - 1) / n; break;
        case MoveKind::all_reduce: moved += 2 * before * (n - 1) / n; break;
        case MoveKind::slice: break;
        }
    }
    return moved;
}

TensorType local_type(const TensorType& whole, const DimAxes& axes, const Mesh& mesh, const Coordinates& at)
{
    return {whole.dtype, box_of(whole.shape, sharding_of({axes, {}}), mesh, at).shape};
}

ValueId emit_moves(Builder& b, ValueId x, const std::vector<Move>& moves, Layout now, const TensorType& whole,
                   const Coordinates& at)
{
    const Mesh mesh = b.graph().mesh;
    for (const Move& move : moves) {
        const i64 before = move.kind == MoveKind::all_reduce ? 0 : b.graph()[x].type.shape[move.dim];
        apply(now, move);
        const TensorType type = local_type(whole, now.axes, mesh, at);
        switch (move.kind) {
        case MoveKind::all_gather: x = b.all_gather(x, move.axis, move.dim, type.shape[move.dim]); break;
        case MoveKind::reduce_scatter:
            x = b.reduce_scatter(x, move.axis, move.dim, type.shape[move.dim]);
            break;
        case MoveKind::all_reduce: x = b.all_reduce(x, move.axis, move.combine); break;
        case MoveKind::slice:
            x = b.slice_of(
                x, move.dim,
                part_of(before, mesh.size(move.axis), at[static_cast<std::size_t>(mesh.find(move.axis))]));
            break;
        }
        b.graph()[x].sharding = sharding_of(now);
        b.graph()[x].whole = whole.shape;
    }
    return x;
}

} // namespace trivium
