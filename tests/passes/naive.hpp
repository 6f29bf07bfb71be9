#pragma once
// Tensors as plain arrays, and collectives and slices on them for all ranks together.
#include "catch.hpp"
#include "ir/ops/op_table.hpp"

#include <algorithm>
#include <cmath>

namespace trivium::naive {

/// One rank's shard of a tensor.
struct Array {
    Shape shape;
    std::vector<double> cells;
};

inline std::size_t inner_of(const Shape& shape, std::size_t dim)
{
    return static_cast<std::size_t>(
        element_count(Shape(shape.begin() + static_cast<std::ptrdiff_t>(dim) + 1, shape.end())));
}

/// Rows [begin, begin + size) of dimension `dim`.
inline Array rows(const Array& x, std::size_t dim, IndexRange part)
{
    Array y{x.shape, {}};
    y.shape[dim] = part.size;
    const std::size_t inner = inner_of(x.shape, dim), extent = static_cast<std::size_t>(x.shape[dim]);
    for (std::size_t i = 0; i < x.cells.size(); ++i) {
        const auto row = static_cast<i64>(i / inner % extent);
        if (row >= part.begin && row < part.begin + part.size)
            y.cells.push_back(x.cells[i]);
    }
    return y;
}

inline Array joined(const std::vector<const Array*>& parts, std::size_t dim)
{
    Array y{parts[0]->shape, {}};
    y.shape[dim] = 0;
    for (const Array* part : parts)
        y.shape[dim] += part->shape[dim];
    const std::size_t inner = inner_of(y.shape, dim);
    const std::size_t outer = y.shape[dim] == 0 ? 0
                                                : static_cast<std::size_t>(element_count(y.shape)) / inner /
                                                      static_cast<std::size_t>(y.shape[dim]);
    for (std::size_t o = 0; o < outer; ++o)
        for (const Array* part : parts) {
            const std::size_t run = static_cast<std::size_t>(part->shape[dim]) * inner;
            for (std::size_t i = 0; i < run; ++i)
                y.cells.push_back(part->cells[o * run + i]);
        }
    return y;
}

inline Array combined(const std::vector<const Array*>& parts, Combine combine)
{
    Array y = *parts[0];
    for (std::size_t i = 0; i < y.cells.size(); ++i) {
        double total = 0;
        for (const Array* part : parts) {
            REQUIRE(part->shape == y.shape);
            total += combine == Combine::sum ? part->cells[i] : std::exp(part->cells[i]);
        }
        y.cells[i] = combine == Combine::sum ? total : std::log(total);
    }
    return y;
}

/// The boxes that an exchange lists, by member.
inline std::vector<Box> boxes(const Op& op, Attr list)
{
    const std::vector<i64>& numbers = *op.attrs->lists.find(list);
    const std::size_t rank = op.attrs->lists.find(Attr::shape)->size();
    std::vector<Box> all;
    for (std::size_t i = 0; i < numbers.size(); i += 2 * rank) {
        const auto begin = numbers.begin() + static_cast<std::ptrdiff_t>(i);
        const auto middle = begin + static_cast<std::ptrdiff_t>(rank);
        all.push_back({{begin, middle}, {middle, middle + static_cast<std::ptrdiff_t>(rank)}});
    }
    return all;
}

/// What member `me` needs of the members' boxes, cell by cell.
inline Array exchanged(const Op& op, const std::vector<const Array*>& parts, std::size_t me)
{
    const std::vector<Box> owned = boxes(op, Attr::owned), needed = boxes(op, Attr::needed);
    REQUIRE(owned.size() == parts.size());
    Array y{needed[me].shape, {}};
    for (i64 i = 0; i < element_count(y.shape); ++i) {
        Shape cell(y.shape.size());
        i64 rest = i;
        for (std::size_t d = cell.size(); d-- > 0; rest /= y.shape[d])
            cell[d] = needed[me].offset[d] + rest % y.shape[d];
        int owners = 0;
        for (std::size_t m = 0; m < parts.size(); ++m) {
            bool inside = true;
            i64 at = 0;
            for (std::size_t d = 0; d < cell.size(); ++d) {
                const i64 local = cell[d] - owned[m].offset[d];
                inside = inside && local >= 0 && local < owned[m].shape[d];
                at = at * owned[m].shape[d] + local;
            }
            if (!inside)
                continue;
            ++owners;
            y.cells.push_back(parts[m]->cells[static_cast<std::size_t>(at)]);
        }
        REQUIRE(owners == 1);
    }
    return y;
}

/// Applies op `n` of each rank's graph, a collective or a slice, to the ranks' arrays.
inline std::vector<Array> communicate(const std::vector<Graph>& graphs, std::size_t n,
                                      const std::vector<Array>& before)
{
    std::vector<Array> after(graphs.size());
    for (std::size_t rank = 0; rank < graphs.size(); ++rank) {
        const Graph& g = graphs[rank];
        const Op& op = g.ops[n];
        const std::string name = info(op).name;
        REQUIRE(name == info(graphs[0].ops[n]).name);
        const Array& mine = before[rank];
        REQUIRE(g[op.operands[0]].type.shape == mine.shape);
        const std::size_t dim = op.attrs->dim ? static_cast<std::size_t>(op.attrs->dim->front()) : 0;
        if (name == "slice") {
            after[rank] = mine;
            const std::vector<i64>&start = *op.attrs->lists.find(Attr::start),
                  &limit = *op.attrs->lists.find(Attr::limit);
            for (std::size_t d = 0; d < start.size(); ++d)
                after[rank] = rows(after[rank], d, {start[d], limit[d] - start[d]});
        } else {
            const std::string& axis = *op.attrs->axis;
            const bool world = axis == "world";
            std::vector<const Array*> parts;
            for (std::size_t member = 0; world && member < before.size(); ++member)
                parts.push_back(&before[member]);
            if (!world)
                for (const i64 member : g.mesh.group(g.at, {axis}))
                    parts.push_back(&before[static_cast<std::size_t>(member)]);
            if (op.attrs->lists.find(Attr::owned)) {
                const std::vector<i64> members = g.mesh.group(g.at, {axis});
                const auto me =
                    std::find(members.begin(), members.end(), g.mesh.rank(g.at)) - members.begin();
                after[rank] = exchanged(op, parts, static_cast<std::size_t>(me));
            } else if (name == "all_gather")
                after[rank] = joined(parts, dim);
            else if (name == "all_reduce")
                after[rank] = combined(parts, *op.attrs->combine);
            else if (name == "reduce_scatter")
                after[rank] =
                    rows(combined(parts, Combine::sum), dim,
                         part_of(mine.shape[dim], g.mesh.size(axis), g.mesh.index_along(axis, g.at)));
            else
                FAIL("no move makes the op " << name);
        }
        REQUIRE(g[op.results[0]].type.shape == after[rank].shape);
    }
    return after;
}

} // namespace trivium::naive
