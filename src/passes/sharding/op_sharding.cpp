#include "passes/sharding/op_sharding.hpp"

#include "ir/shards.hpp"
#include "passes/sharding/factor_shardings.hpp"
#include "passes/sharding/refusals.hpp"

#include <algorithm>

namespace trivium {

OpSharding::OpSharding(const Graph& graph, const Op& op, const AxisParts& parts, std::string stage_axis)
    : g_(graph), op_(op), parts_(parts), stage_axis_(std::move(stage_axis)), rule_(rule_of(graph, op))
{
    for (const Factor& factor : rule_.factors) {
        composed_ = composed_ || factor.composed();
        pinned_ = pinned_ || !factor.pinned.empty();
    }
    read_in_part_.assign(rule_.factors.size(), false);
    for (std::size_t i = 0; i < rule_.operands.size(); ++i)
        for (std::size_t d = 0; d < rule_.operands[i].size(); ++d) {
            const Value& v = g_[op.operands[i]];
            const auto dim = static_cast<std::size_t>(rule_.operands[i][d]);
            const Factor& factor = rule_.factors[dim];
            const i64 ranks = g_.mesh.parts_along(v.sharding->dims[d].axes);
            if (factor.window && ranks > 1 && ranks <= max_box_ranks)
                read_in_part_[dim] = window_of(*factor.window, {0, rule_[factor.window->of].size},
                                               v.type.shape[d]) != IndexRange{0, v.type.shape[d]};
        }
    const auto project = [&](ValueId v, const FactorList& dims) {
        Assignment& mine = by_tensor_.emplace_back(rule_.factors.size());
        if (!composed_) {
            for (std::size_t d = 0; d < dims.size(); ++d)
                if (!g_[v].sharding->dims[d].axes.empty())
                    mine[static_cast<std::size_t>(dims[d])] = parts.parts_of(g_[v].sharding->dims[d].axes);
            return;
        }
        ValueSharding sharding;
        for (const DimSharding& dim : g_[v].sharding->dims)
            sharding.dims.push_back({parts.parts_of(dim.axes)});
        const FactorShardings factors(rule_, dims, g_[v].type.shape, sharding, parts);
        for (std::size_t f = 0; f < rule_.factors.size(); ++f)
            if (const PartList* axes = factors.axes_of(static_cast<int>(f)))
                mine[f] = *axes;
    };
    for (std::size_t i = 0; i < rule_.operands.size(); ++i)
        project(op.operands[i], rule_.operands[i]);
    for (std::size_t r = 0; r < rule_.results.size(); ++r)
        project(op.results[r], rule_.results[r]);
    PartList taken; // by a manual region or its boundary
    for (const Factor& factor : rule_.factors)
        for (const PartId part : parts.parts_of(factor.pinned))
            taken.push_back(part);
    for (const auto* values : {&op.operands, &op.results})
        for (const ValueId v : *values)
            for (const PartId part : parts.manual(v))
                taken.push_back(part);
    for (std::size_t p = 0; p < parts.count(); ++p) {
        const auto part = static_cast<PartId>(p);
        const MeshAxis& axis = g_.mesh.axes[static_cast<std::size_t>(parts[part].axis)];
        if (axis.name == stage_axis_ || holds(taken, part))
            continue;
        std::vector<int> factors{-1};
        bool elsewhere = false; // it shards a factor of which every rank needs all
        const auto look = [&](std::size_t tensor, const FactorList& dims) {
            for (const int dim : dims)
                for (const int f : rule_.parts_of(dim))
                    if (rule_[f].kind == FactorKind::replicated)
                        elsewhere = elsewhere || holds(by_tensor_[tensor][static_cast<std::size_t>(f)], part);
                    else if (rule_[f].pinned.empty() && rule_[f].size >= parts[part].size &&
                             holds(by_tensor_[tensor][static_cast<std::size_t>(f)], part) &&
                             std::ranges::find(factors, f) == factors.end())
                        factors.push_back(f);
        };
        for (std::size_t i = 0; i < rule_.operands.size(); ++i)
            look(i, rule_.operands[i]);
        for (std::size_t r = 0; r < rule_.results.size(); ++r)
            look(rule_.operands.size() + r, rule_.results[r]);
        // A sum that is added to another one must be partial over the same axes.
        for (std::size_t f = 0;
             op.accumulate && g_[op.operands.back()].role != Role::carry && f < rule_.factors.size(); ++f)
            if (rule_.factors[f].kind == FactorKind::reduced && rule_.factors[f].size >= parts[part].size &&
                std::ranges::find(factors, static_cast<int>(f)) == factors.end())
                factors.push_back(static_cast<int>(f));
        // Then another factor may have it instead.
        for (std::size_t f = 0; elsewhere && info(op).factors && f < rule_.factors.size(); ++f)
            if (const Factor& factor = rule_.factors[f];
                factor.kind == FactorKind::parallel && !factor.composed() && factor.pinned.empty() &&
                factor.size >= parts[part].size &&
                std::ranges::find(factors, static_cast<int>(f)) == factors.end())
                factors.push_back(static_cast<int>(f));
        options_.emplace_back(part, std::move(factors));
    }
}

std::optional<Assignment> OpSharding::assignment(const Options& options,
                                                 const std::vector<int>& factors) const
{
    Assignment made(rule_.factors.size());
    for (std::size_t o = 0; o < options.size(); ++o)
        if (factors[o] >= 0)
            made[static_cast<std::size_t>(factors[o])].push_back(options[o].first);
    order(made);
    for (std::size_t f = 0; f < made.size(); ++f)
        if (!rule_.factors[f].pinned.empty())
            made[f] = parts_.parts_of(rule_.factors[f].pinned);
    return possible(made) && leaves_partial(made) ? std::optional(std::move(made)) : std::nullopt;
}

bool OpSharding::leaves_partial(const Assignment& assignment) const
{
    for (std::size_t r = 0; r < rule_.results.size(); ++r)
        if (!g_[op_.results[r]].sharding->partial.empty() &&
            !lacking_partial(g_, op_.results[r], result_layout(r, assignment)).empty())
            return false;
    return true;
}

std::vector<Assignment> OpSharding::all_assignments(std::size_t most) const
{
    std::vector<int> shardable;
    const auto look = [&](const std::vector<FactorList>& tensors) {
        for (const FactorList& dims : tensors)
            for (const int dim : dims)
                for (const int f : rule_.parts_of(dim))
                    if (rule_[f].kind != FactorKind::replicated && rule_[f].pinned.empty() &&
                        std::ranges::find(shardable, f) == shardable.end())
                        shardable.push_back(f);
    };
    look(rule_.operands);
    look(rule_.results);
    Options options = options_;
    std::size_t all = 1;
    for (auto& [part, factors] : options) {
        for (const int f : shardable)
            if (rule_[f].size >= parts_[part].size && std::ranges::find(factors, f) == factors.end())
                factors.push_back(f);
        all *= factors.size();
        if (all > most)
            return assignments();
    }
    return assignments(options);
}

std::vector<std::size_t> OpSharding::bundles(const Options& options) const
{
    const auto together = [&](PartId one, PartId next) {
        return std::ranges::all_of(by_tensor_, [&](const Assignment& tensor) {
            return std::ranges::all_of(tensor, [&](const PartList& axes) {
                const auto at = std::ranges::find(axes, one);
                return at == axes.end() ? !holds(axes, next) : at + 1 != axes.end() && at[1] == next;
            });
        });
    };
    std::vector<std::size_t> sizes;
    i64 ranks = 1;
    for (std::size_t o = 0; o < options.size(); ++o) {
        const auto& [part, factors] = options[o];
        const i64 larger = ranks * parts_[part].size;
        const bool joins =
            o > 0 && options[o - 1].first + 1 == part && parts_[part - 1].axis == parts_[part].axis &&
            options[o - 1].second == factors && together(part - 1, part) &&
            std::ranges::all_of(factors, [&](int f) { return f < 0 || rule_[f].size >= larger; });
        ranks = joins ? larger : parts_[part].size;
        if (joins)
            ++sizes.back();
        else
            sizes.push_back(1);
    }
    return sizes;
}

std::vector<Assignment> OpSharding::assignments(Options options) const
{
    // Each is priced with work for each rank.
    const auto most = static_cast<std::size_t>(std::clamp<i64>((i64{1} << 15) / g_.mesh.ranks(), 64, 4096));
    constexpr double few = 32; // above that, parts of an axis that all tensors have together stay together
    const auto ways_of = [&](const std::vector<std::size_t>& sizes) {
        double ways = 1;
        std::size_t first = 0;
        for (const std::size_t size : sizes) {
            ways *= static_cast<double>(options[first].second.size());
            first += size;
        }
        return ways;
    };
    std::vector<std::size_t> sizes(options.size(), 1);
    double ways = ways_of(sizes);
    if (ways > few) {
        sizes = bundles(options);
        ways = ways_of(sizes);
    }
    if (ways > static_cast<double>(most)) // then those with most axes as some tensor has them
        for (auto& [part, factors] : options)
            std::rotate(factors.begin(), factors.begin() + 1, factors.end());
    std::vector<Assignment> all;
    std::vector<std::size_t> choice(sizes.size(), 0);
    std::vector<int> factors(options.size(), -1);
    std::size_t looked = 0;
    for (bool more = true; more && all.size() < most && looked < 16 * most; ++looked) {
        std::size_t first = 0;
        for (std::size_t b = 0; b < sizes.size(); first += sizes[b++])
            std::fill_n(factors.begin() + static_cast<std::ptrdiff_t>(first), sizes[b],
                        options[first].second[choice[b]]);
        if (std::optional<Assignment> one = assignment(options, factors))
            all.push_back(*std::move(one));
        more = false;
        first = 0;
        for (std::size_t b = 0; b < sizes.size() && !more; first += sizes[b++]) {
            more = ++choice[b] < options[first].second.size();
            if (!more)
                choice[b] = 0;
        }
    }
    if (ways > static_cast<double>(most)) {
        factors.assign(options.size(), -1);
        if (std::optional<Assignment> none = assignment(options, factors);
            none && std::ranges::find(all, *none) == all.end())
            all.push_back(*std::move(none));
    }
    return all;
}

std::optional<Assignment> OpSharding::assignment_like(std::size_t i, const DimAxes& operand) const
{
    ValueSharding sharding;
    for (const auto& axes : operand)
        sharding.dims.push_back({parts_.parts_of(axes)});
    const FactorShardings factors(rule_, rule_.operands[i], g_[op_.operands[i]].type.shape, sharding, parts_);
    Assignment made(rule_.factors.size());
    for (std::size_t f = 0; f < made.size(); ++f)
        if (const PartList* axes = factors.axes_of(static_cast<int>(f)))
            made[f] = *axes;
    for (std::size_t f = 0; f < made.size(); ++f)
        if (!made[f].empty() && rule_.factors[f].kind == FactorKind::replicated)
            return {};
    if (!possible(made) || operand_axes(i, made) != operand || (composed_ && irregular_operand(i, made)))
        return {};
    return made;
}

void OpSharding::order(Assignment& assignment) const
{
    for (std::size_t f = 0; f < assignment.size(); ++f) {
        PartList& axes = assignment[f];
        if (axes.size() < 2)
            continue;
        std::ranges::sort(axes, [&](PartId a, PartId b) {
            return parts_[a].axis != parts_[b].axis ? parts_[a].axis > parts_[b].axis : a < b;
        });
        // What a tensor has comes first: to shard it further then moves nothing.
        PartList most;
        for (const Assignment& tensor : by_tensor_) {
            PartList has = tensor[f];
            std::erase_if(has, [&](PartId part) { return !holds(axes, part); });
            if (has.size() > most.size() && std::equal(has.begin(), has.end(), tensor[f].begin()))
                most = std::move(has);
        }
        std::erase_if(axes, [&](PartId part) { return holds(most, part); });
        axes.insert(axes.begin(), most.begin(), most.end());
        const auto follow = [&](std::size_t tensor) {
            PartList order = by_tensor_[tensor][f];
            std::erase_if(order, [&](PartId part) { return !holds(axes, part); });
            if (order.size() == axes.size())
                axes = order;
        };
        const std::size_t operands = rule_.operands.size();
        for (std::size_t r = 0; r < rule_.results.size(); ++r)
            follow(operands + r);
        for (std::size_t i = 0; i < operands; ++i)
            follow(i);
        for (std::size_t r = 0; r < rule_.results.size(); ++r)
            if (aliased_operand(op_, r)) // sharded like its buffer
                follow(operands + r);
    }
}

/// Every rank has a part of each factor, and of each dimension one range.
bool OpSharding::possible(const Assignment& assignment) const
{
    const auto count = [&](int f) { return parts_.ranks_along(assignment[static_cast<std::size_t>(f)]); };
    for (std::size_t f = 0; f < assignment.size(); ++f)
        if (count(static_cast<int>(f)) > rule_.factors[f].size)
            return false;
    if (!composed_)
        return true;
    const auto contiguous = [&](const FactorList& dims) {
        return std::ranges::all_of(dims, [&](int dim) {
            i64 ranks = 1;
            for (const int f : rule_.parts_of(dim))
                ranks *= count(f);
            if (rule_[dim].composed() && !pinned_ && ranks > max_box_ranks)
                return false;
            bool single = true; // of all factors so far, a rank has one index
            for (const int f : rule_[dim].parts) {
                if (!single && count(f) > 1)
                    return false;
                single = single && count(f) == rule_[f].size;
            }
            return true;
        });
    };
    return std::ranges::all_of(rule_.operands, contiguous) && std::ranges::all_of(rule_.results, contiguous);
}

PartList OpSharding::parts_for(int dim, const Assignment& assignment) const
{
    PartList list;
    for (const int f : rule_.parts_of(dim))
        list.insert(list.end(), assignment[static_cast<std::size_t>(f)].begin(),
                    assignment[static_cast<std::size_t>(f)].end());
    return list;
}

DimAxes OpSharding::axes_for(const FactorList& dims, const Assignment& assignment) const
{
    DimAxes axes;
    axes.reserve(dims.size());
    for (const int dim : dims)
        if (rule_[dim].composed())
            axes.push_back(parts_.names_of(parts_for(dim, assignment)));
        else // the usual case: without a copy
            axes.push_back(parts_.names_of(assignment[static_cast<std::size_t>(dim)]));
    return axes;
}

DimAxes OpSharding::operand_axes(std::size_t i, const Assignment& assignment) const
{
    return axes_for(rule_.operands[i], assignment);
}

Layout OpSharding::result_layout(std::size_t r, const Assignment& assignment) const
{
    Layout layout{axes_for(rule_.results[r], assignment), {}};
    std::vector<bool> kept(rule_.factors.size(), false);
    for (const int dim : rule_.results[r])
        for (const int f : rule_.parts_of(dim))
            kept[static_cast<std::size_t>(f)] = true;
    PartList summed;
    for (std::size_t f = 0; f < assignment.size(); ++f)
        if (!kept[f] && rule_.factors[f].pinned.empty())
            summed.insert(summed.end(), assignment[f].begin(), assignment[f].end());
    std::ranges::sort(summed);
    const std::vector<std::string> names = parts_.names_of(summed);
    for (auto name = names.rbegin(); name != names.rend(); ++name) // the fastest first
        layout.partial.push_back({*name, rule_.combine[r]});
    return layout;
}

IndexRange OpSharding::range_of(std::size_t factor, const Assignment& assignment, const Coordinates& at) const
{
    IndexRange all{0, rule_.factors[factor].size}; // as box_of_axes(), without names and memory
    parts_.each_joined(assignment[factor], [&](const AxisPart& part) {
        const IndexRange mine = part_of(all.size, part.size, part.index(at));
        all = {all.begin + mine.begin, mine.size};
    });
    return all;
}

IndexRange OpSharding::dim_range(int dim, i64 extent, const Assignment& assignment,
                                 const Coordinates& at) const
{
    const Factor& made = rule_[dim];
    const auto part_of = [&](int f) { return range_of(static_cast<std::size_t>(f), assignment, at); };
    if (made.window) {
        if (assignment[static_cast<std::size_t>(made.window->of)].empty() &&
            !read_in_part_[static_cast<std::size_t>(dim)])
            return {0, extent};
        return window_of(*made.window, part_of(made.window->of), extent);
    }
    if (made.parts.empty())
        return part_of(dim);
    IndexRange all{0, 1};
    for (const int f : made.parts) {
        const IndexRange part = part_of(f);
        all.begin = all.begin * rule_[f].size + part.begin;
        all.size *= part.size;
    }
    return all;
}

Box OpSharding::box(const FactorList& dims, const Shape& whole, const Assignment& assignment,
                    const Coordinates& at) const
{
    Box made{Shape(dims.size()), Shape(dims.size())};
    for (std::size_t d = 0; d < dims.size(); ++d) {
        const IndexRange part = dim_range(dims[d], whole[d], assignment, at);
        made.offset[d] = part.begin;
        made.shape[d] = part.size;
    }
    return made;
}

Box OpSharding::operand_box(std::size_t i, const Assignment& assignment, const Coordinates& at) const
{
    return box(rule_.operands[i], g_[op_.operands[i]].type.shape, assignment, at);
}

Box OpSharding::result_box(std::size_t r, const Assignment& assignment, const Coordinates& at) const
{
    return box(rule_.results[r], g_[op_.results[r]].type.shape, assignment, at);
}

bool OpSharding::irregular(int dim, i64 extent, const Assignment& assignment) const
{
    if (!rule_[dim].composed())
        return false;
    const PartList list = parts_for(dim, assignment);
    if (list.empty())
        return read_in_part_[static_cast<std::size_t>(dim)];
    Assignment mine;
    for (const int f : rule_.parts_of(dim))
        mine.push_back(assignment[static_cast<std::size_t>(f)]);
    const auto [known, added] = irregular_.try_emplace({dim, extent, std::move(mine)}, false);
    if (!added)
        return known->second;
    const DimAxes regular{parts_.names_of(list)};
    const Shards shards({extent}, regular, g_.mesh);
    for (const i64 rank : g_.mesh.group(Coordinates(g_.mesh.axes.size(), 0), regular[0])) {
        const Coordinates at = g_.mesh.coordinates(rank);
        const Box shard = shards(at);
        if (dim_range(dim, extent, assignment, at) != IndexRange{shard.offset[0], shard.shape[0]})
            return known->second = true;
    }
    return false;
}

bool OpSharding::irregular_operand(std::size_t i, const Assignment& assignment) const
{
    const Shape& whole = g_[op_.operands[i]].type.shape;
    for (std::size_t d = 0; composed_ && d < whole.size(); ++d)
        if (irregular(rule_.operands[i][d], whole[d], assignment))
            return true;
    return false;
}

bool OpSharding::irregular_result(std::size_t r, const Assignment& assignment) const
{
    const Shape& whole = g_[op_.results[r]].type.shape;
    for (std::size_t d = 0; composed_ && d < whole.size(); ++d)
        if (irregular(rule_.results[r][d], whole[d], assignment))
            return true;
    return false;
}

DimAxes OpSharding::regular_axes(std::size_t i, const Assignment& assignment) const
{
    DimAxes axes = operand_axes(i, assignment);
    const Shape& whole = g_[op_.operands[i]].type.shape;
    for (std::size_t d = 0; d < whole.size(); ++d)
        if (irregular(rule_.operands[i][d], whole[d], assignment))
            axes[d].clear();
    return axes;
}

DimAxes OpSharding::axes_before_exchange(std::size_t i, const Assignment& assignment,
                                         const DimAxes& from) const
{
    DimAxes axes = operand_axes(i, assignment);
    const auto is_free = [&](const std::string& axis) {
        return std::ranges::none_of(names_in(axes),
                                    [&](const std::string& other) { return g_.mesh.overlap(axis, other); });
    };
    for (std::size_t d = 0; d < axes.size(); ++d)
        if (axes[d].empty() && read_in_part_[static_cast<std::size_t>(rule_.operands[i][d])] &&
            std::ranges::all_of(from[d], is_free))
            axes[d] = from[d];
    return axes;
}

Op OpSharding::local_op(const Assignment& assignment, const Coordinates& at) const
{
    Op local = op_;
    std::vector<IndexRange> ranges(assignment.size());
    for (std::size_t f = 0; f < assignment.size(); ++f) {
        const Factor& factor = rule_.factors[f];
        ranges[f] = range_of(f, assignment, at);
        const bool sharded = !assignment[f].empty();
        for (std::size_t s = 0; sharded && s < local.attrs->sizes.size(); ++s)
            if (local.attrs->sizes[s].factor == factor.name)
                local.attrs.edit().sizes[s].size = ranges[f].size;
        if (sharded && factor.kind == FactorKind::indexed)
            local.attrs.edit().offsets.push_back({factor.name, ranges[f].begin});
    }
    if (!info(op_).localize)
        return local;
    LocalPart part{g_, op_, rule_, std::move(ranges), {}, {}, {}};
    for (std::size_t i = 0; i < rule_.operands.size(); ++i)
        part.operands.push_back(operand_box(i, assignment, at));
    for (std::size_t r = 0; r < rule_.results.size(); ++r)
        part.results.push_back(result_box(r, assignment, at));
    for (const PartList& axes : assignment) {
        i64 index = 0;
        parts_.each_joined(axes, [&](const AxisPart& each) { index += each.index(at); });
        part.first.push_back(index == 0);
    }
    info(op_).localize(local.attrs.edit(), part);
    return local;
}

} // namespace trivium
