#include "passes/sharding/pricing.hpp"

#include "ir/exchange.hpp"

#include <algorithm>
#include <numeric>

namespace trivium {

void append_text(std::string& text, const DimAxes& axes)
{
    for (const auto& dim : axes) {
        for (const std::string& axis : dim)
            (text += axis) += '\0';
        text += '|';
    }
}

void append_text(std::string& text, const Layout& layout)
{
    append_text(text, layout.axes);
    for (const Partial& p : layout.partial)
        (((text += p.axis) += '\0') += name_of(p.combine)) += '\0';
    text += '\n';
}

bool outlives_microbatch(const Graph& graph, ValueId v)
{
    while (graph[v].producer && info(graph[graph[v].producer]).placement)
        v = graph[graph[v].producer].operands[0];
    return graph[v].lifetime != Lifetime::microbatch;
}

double Pricing::work(const Op& op, const OpSharding& sharding, const Assignment& assignment) const
{
    double touched = 0, parts = 1;
    for (const std::vector<ValueId>& values : {op.operands, op.results})
        for (const ValueId v : values)
            touched += static_cast<double>(g_[v].type.bytes());
    for (const PartList& axes : assignment)
        parts *= static_cast<double>(parts_.ranks_along(axes));
    const double flops = info(op).flops ? info(op).flops(op, sharding.rule()) : 0;
    const DType type = op.operands.empty() ? DType::f32 : g_[op.operands[0]].type.dtype;
    return (touching * touched + work_.flop(type) * flops) / parts;
}

double Pricing::bytes_moved(const Layout& from, const DimAxes& to, const Value& value, bool sums_wait)
{
    if (from.partial.empty() && from.axes == to)
        return 0;
    const Shape& shape = value.type.shape;
    key_ = sums_wait ? "w\n" : "\n";
    append_text(key_, from);
    append_text(key_, to);
    // What divides evenly moves in the same way at every size, which moves in proportion.
    const bool even = divides_evenly(shape, from.axes, g_.mesh) && divides_evenly(shape, to, g_.mesh);
    for (const i64 extent : shape)
        (key_ += std::to_string(even ? std::gcd(extent, g_.mesh.ranks()) : extent)) += even ? 'e' : ',';
    const auto [at, added] = shares_.try_emplace(key_, 0.0);
    if (added)
        at->second = share_moved(from, to, shape, sums_wait);
    return at->second * static_cast<double>(std::max<i64>(element_count(shape), 1)) *
           static_cast<double>(size_of(value.type.dtype));
}

/// \pre key_ is that of the arguments
double Pricing::share_moved(const Layout& from, const DimAxes& to, const Shape& shape, bool sums_wait)
{
    MovePrices::OfMesh* const others = known_ ? &known_->on(g_.mesh) : nullptr;
    if (others)
        if (const auto at = others->find(key_); at != others->end() && at->second.layouts <= layouts_) {
            layouts_ -= at->second.layouts;
            return at->second.share;
        }
    const int before = layouts_;
    std::vector<Move> moves = moves_between(from, to, shape, g_.mesh, &layouts_);
    if (sums_wait)
        put_off_sums(moves, to, g_.mesh);
    const double share = elements_moved(moves, from, shape, g_.mesh) /
                         static_cast<double>(std::max<i64>(element_count(shape), 1));
    if (others && layouts_ > 0) // otherwise the search had to stop
        others->try_emplace(key_, MovePrices::Price{share, before - layouts_});
    return share;
}

double Pricing::bytes_lacking(const DimAxes& axes, const BoxOf& has, const BoxOf& needs,
                              const Value& value) const
{
    const Coordinates first(g_.mesh.axes.size(), 0);
    double cells = 0, ranks = 0;
    for (const i64 rank : g_.mesh.group(first, names_in(axes))) { // max_box_ranks at most
        const Coordinates at = g_.mesh.coordinates(rank);
        cells += static_cast<double>(elements_lacking(has(at), needs(at)));
        ++ranks;
    }
    return cells / ranks * static_cast<double>(size_of(value.type.dtype));
}

double Pricing::bytes_lacking(const DimAxes& from, const BoxOf& needs, const Value& value) const
{
    return bytes_lacking(from, Shards(value.type.shape, from, g_.mesh), needs, value);
}

double Pricing::bytes_exchanged(const OpSharding& sharding, std::size_t r, const Assignment& assignment,
                                const Value& value) const
{
    const DimAxes to = sharding.result_layout(r, assignment).axes;
    return bytes_lacking(
        to, [&](const Coordinates& at) { return sharding.result_box(r, assignment, at); },
        Shards(value.type.shape, to, g_.mesh), value);
}

double Pricing::bytes_to_read(const OpSharding& sharding, std::size_t i, const Assignment& assignment,
                              const Layout& from, const Value& value)
{
    return sharding.irregular_operand(i, assignment)
               ? approach(sharding, i, assignment, from, value).bytes
               : bytes_moved(from, sharding.operand_axes(i, assignment), value);
}

Approach Pricing::approach(const OpSharding& sharding, std::size_t i, const Assignment& assignment,
                           const Layout& from, const Value& value)
{
    const DimAxes sharded = sharding.axes_before_exchange(i, assignment, from.axes),
                  whole = sharding.regular_axes(i, assignment);
    Approach halo{sharded, true,
                  bytes_moved(from, sharded, value) +
                      bytes_lacking(
                          sharded,
                          [&](const Coordinates&at) { return sharding.operand_box(i, assignment, at); },
                          value)},
        slice{whole, false, bytes_moved(from, whole, value)};
    return whole == sharded || slice.bytes == 0 || slice.bytes < halo.bytes ? slice : halo;
}

} // namespace trivium
