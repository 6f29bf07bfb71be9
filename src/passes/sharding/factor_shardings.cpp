#include "passes/sharding/factor_shardings.hpp"

#include <algorithm>
#include <tuple>

namespace trivium {

namespace {

bool begins_with(const PartList& longer, const PartList& shorter)
{
    return longer.size() >= shorter.size() && std::equal(shorter.begin(), shorter.end(), longer.begin());
}

/// What `old` and `next` agree on; `expands`: `next` may add to it. If they contradict each other, nothing
/// adds to it any more.
PartList agreed(PartList old, const PartList& next, bool& expands)
{
    const auto differ = std::mismatch(old.begin(), old.end(), next.begin(), next.end());
    if (differ.first != old.end() && differ.second != next.end()) {
        old.erase(differ.first, old.end());
        expands = false;
    } else if (expands && differ.first == old.end()) {
        old = next;
    }
    return old;
}

} // namespace

bool ValueSharding::sharded() const
{
    return std::ranges::any_of(dims, [](const Dim& dim) { return !dim.axes.empty(); });
}

FactorShardings::FactorShardings(const FactorRule& rule, const FactorList& dims, const Shape& shape,
                                 const ValueSharding& sharding, const AxisParts& parts)
    : parts_(parts), blocked_(sharding.blocked), shape_(shape)
{
    entries_.reserve(dims.size());
    for (std::size_t d = 0; d < dims.size(); ++d) {
        const PartList& axes = sharding.dims[d].axes;
        if (!rule[dims[d]].composed()) {
            entries_.push_back({dims[d], d, axes, {}, shape[d], !sharding.dims[d].open, true});
            continue;
        }
        const std::span<const int> factors = rule.parts_of(dims[d]);
        std::size_t next = 0;
        bool overflows = false;
        for (std::size_t i = 0; i < factors.size(); ++i) {
            Entry entry{factors[i], d};
            entry.closed = !sharding.dims[d].open || overflows;
            entry.last = i + 1 == factors.size();
            entry.size = factors.size() == 1 ? shape[d] : rule[factors[i]].size;
            i64 rest = entry.size;
            while (!overflows && next < axes.size() && (entry.last || rest % parts[axes[next]].size == 0)) {
                rest /= entry.last ? 1 : parts[axes[next]].size;
                entry.axes.push_back(axes[next++]);
            }
            if (!entry.last && rest > 1 && next < axes.size()) {
                entry.overflow.assign(axes.begin() + static_cast<std::ptrdiff_t>(next), axes.end());
                next = axes.size();
                overflows = true;
            }
            entries_.push_back(std::move(entry));
        }
    }
}

const FactorShardings::Entry* FactorShardings::find(int factor) const
{
    for (const Entry& entry : entries_)
        if (entry.factor == factor)
            return &entry;
    return nullptr;
}

const PartList* FactorShardings::axes_of(int factor) const
{
    const Entry* entry = find(factor);
    return entry ? &entry->axes : nullptr;
}

bool FactorShardings::uses(PartId part, int but_factor) const
{
    return std::ranges::any_of(entries_, [&](const Entry& e) {
        return e.factor != but_factor && (holds(e.axes, part) || holds(e.overflow, part));
    });
}

PartList FactorShardings::within(const Entry& entry, const PartList& axes) const
{
    PartList list;
    i64 sharded = 1;
    for (const PartId part : axes) {
        const i64 size = parts_[part].size;
        const bool has = holds(entry.axes, part);
        const bool open = !entry.closed && entry.overflow.empty() &&
                          (entry.last ? sharded * size <= entry.size : entry.size % (sharded * size) == 0);
        if (holds(blocked_, part) || (!has && !open))
            break;
        sharded *= size;
        list.push_back(part);
    }
    return list;
}

PartList FactorShardings::admissible(int factor, const PartList& axes) const
{
    const Entry* entry = find(factor);
    if (!entry)
        return {};
    const auto extends = [&](const PartList& list) {
        return list.size() > entry->axes.size() && begins_with(list, entry->axes);
    };
    PartList list = within(*entry, axes);
    if (!extends(list))
        return {};
    list.erase(std::ranges::find_if(list, [&](PartId part) { return uses(part, factor); }), list.end());
    return extends(list) ? list : PartList{};
}

void FactorShardings::extend(int factor, const PartList& axes)
{
    PartList list = admissible(factor, axes);
    if (list.empty())
        return;
    for (Entry& entry : entries_)
        if (entry.factor == factor)
            entry.axes = std::move(list);
    changed_ = true;
}

PartList FactorShardings::shorter(int factor, const PartList& axes) const
{
    const Entry* entry = find(factor);
    return entry && axes.size() > entry->axes.size() && begins_with(axes, entry->axes) ? entry->axes : axes;
}

bool FactorShardings::write(ValueSharding& sharding, int by) const
{
    bool changed = false;
    for (std::size_t i = 0; i < entries_.size();) {
        const std::size_t d = entries_[i].dim;
        PartList axes;
        bool more = true;
        for (; i < entries_.size() && entries_[i].dim == d; ++i) {
            const Entry& entry = entries_[i];
            if (!more)
                continue;
            axes.insert(axes.end(), entry.axes.begin(), entry.axes.end());
            axes.insert(axes.end(), entry.overflow.begin(), entry.overflow.end());
            // The next factor would be sharded in steps: a rank would hold several ranges of the
            // dimension.
            more = entry.overflow.empty() && parts_.ranks_along(entry.axes) >= entry.size;
        }
        ValueSharding::Dim& dim = sharding.dims[d];
        if (axes != dim.axes) {
            dim.axes = std::move(axes);
            dim.by = by;
            changed = true;
        }
    }
    return changed;
}

PartList compatible_axes(int factor, const std::vector<FactorShardings>& operands,
                         const std::vector<FactorShardings>& results, bool forward, bool backward)
{
    PartList axes;
    if (!forward && !backward)
        return axes;
    bool expands = true;
    const auto visit = [&](const std::vector<FactorShardings>& tensors) {
        for (const FactorShardings& tensor : tensors)
            if (const PartList* mine = tensor.axes_of(factor))
                axes = agreed(std::move(axes), *mine, expands);
    };
    visit(forward ? operands : results);
    // In one direction, the other side only contradicts.
    expands = expands && forward && backward;
    visit(forward ? results : operands);
    return axes;
}

std::vector<int> factor_order(const FactorRule& rule, bool elementwise, const std::vector<PartList>& axes,
                              const std::vector<FactorShardings>& operands,
                              const std::vector<FactorShardings>& results, const AxisParts& parts)
{
    using Key = std::tuple<i64, i64, i64, int>;
    std::vector<Key> keys;
    for (std::size_t f = 0; f < rule.factors.size(); ++f) {
        i64 largest = -1, source = -1, index = 0;
        for (const auto* tensors : {&operands, &results})
            for (const FactorShardings& tensor : *tensors) {
                const PartList* mine = tensor.axes_of(static_cast<int>(f));
                if (mine && !axes[f].empty() && begins_with(*mine, axes[f]) && tensor.elements() > largest) {
                    largest = tensor.elements();
                    source = index;
                }
                ++index;
            }
        keys.emplace_back(-largest, elementwise ? -parts.ranks_along(axes[f]) : 0, source,
                          static_cast<int>(f));
    }
    std::ranges::sort(keys);
    std::vector<int> order;
    for (const Key& key : keys)
        order.push_back(std::get<3>(key));
    return order;
}

} // namespace trivium
