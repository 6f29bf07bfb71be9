#include "passes/pipeline/equal_stages.hpp"

#include "ir/ops/op_table.hpp"

#include <algorithm>
#include <set>

namespace trivium {

namespace {

bool equal(const Value& a, const Value& b)
{
    return a.type == b.type && a.role == b.role && a.lifetime == b.lifetime && a.producer == b.producer &&
           a.decay == b.decay && a.space == b.space && a.rows == b.rows && a.stack == b.stack &&
           a.update == b.update && a.factors == b.factors && a.state_of.update == b.state_of.update &&
           a.state_of.index == b.state_of.index && a.sharding->dims == b.sharding->dims &&
           a.sharding->partial == b.sharding->partial && a.whole == b.whole;
}

/// Without what a translation changes, and without the places of operands in the result of all ranks.
Attributes compared(const Op& op)
{
    Attributes attrs = op.attrs;
    attrs.from = attrs.to = attrs.tag = attrs.reader = {};
    if (info(op).contributes)
        attrs.at = {};
    return attrs;
}

bool equal(const Op& a, const Op& b)
{
    if (a.kind != b.kind || a.operands != b.operands || a.results != b.results || a.region != b.region ||
        a.phase != b.phase || a.accumulate != b.accumulate || a.division != b.division ||
        a.stays_partial != b.stays_partial || a.together != b.together)
        return false;
    return a.attrs == b.attrs || compared(a) == compared(b);
}

template <class Key>
bool is_one_to_one(const std::map<Key, Key>& map)
{
    std::set<Key> images;
    for (const auto& [from, to] : map)
        images.insert(to);
    return images.size() == map.size();
}

/// Notes that `a` becomes `b`. False if another does, or `a` becomes another.
template <class Key>
bool note(std::map<Key, Key>& known, const Key& a, const Key& b)
{
    const auto [at, added] = known.try_emplace(a, b);
    return at->second == b;
}

} // namespace

StageTranslation::Address StageTranslation::address_of(const Op& op)
{
    return {op.attrs->from, op.attrs->to, op.attrs->tag, op.attrs->reader};
}

bool StageTranslation::add(const Graph& from, const Graph& to, const Op& a, const Op& b)
{
    return equal(a, b) && note(block_, a.block, b.block) &&
           note(stage_, stage_of(from, a), stage_of(to, b)) &&
           (!a.attrs->tag || note(address_, address_of(a), address_of(b)));
}

std::optional<StageTranslation> StageTranslation::between(const Graph& from, const Graph& to)
{
    const auto carries_equal = [](const Carry& a, const Carry& b) { return a.in == b.in && a.out == b.out; };
    if (from.ops.size() != to.ops.size() || from.values.size() != to.values.size() ||
        from.outputs != to.outputs || !std::ranges::equal(from.carries, to.carries, carries_equal))
        return {};
    StageTranslation made;
    for (std::size_t i = 0; i < from.ops.size(); ++i)
        if (!made.add(from, to, from.ops[i], to.ops[i]))
            return {};
    for (std::size_t i = 0; i < from.values.size(); ++i)
        if (!equal(from.values[i], to.values[i]))
            return {};
        else if (from.values[i].role != Role::computed)
            made.given_.emplace(from.values[i].name, to.values[i]);
    if (!is_one_to_one(made.block_) || !is_one_to_one(made.stage_))
        return {};
    return made;
}

Graph StageTranslation::translate(Graph finished, const Coordinates& at) const
{
    finished.at = at;
    for (Value& value : finished.values)
        if (const auto known = given_.find(value.name);
            value.role != Role::computed && known != given_.end()) {
            value.name = known->second.name;
            value.init = known->second.init;
            value.state_of = known->second.state_of;
        }
    for (Op& op : finished.ops) {
        if (const auto known = block_.find(op.block); known != block_.end())
            op.block = known->second;
        if (!op.attrs->tag)
            continue;
        const Address& address = address_.at(address_of(op));
        Attributes& attrs = op.attrs.edit();
        attrs.from = address.from;
        attrs.to = address.to;
        attrs.tag = address.tag;
        attrs.reader = address.reader;
    }
    return finished;
}

} // namespace trivium
