#pragma once
// Counts in a rank's graph how often a value moves from one layout to another, and how often as a full gather
// followed by a slice.
#include "ir/ops/op_table.hpp"

#include <algorithm>
#include <set>

namespace trivium {

struct Reshardings {
    int all = 0;          ///< that communicate
    int full_gathers = 0; ///< of these, from shards to other shards over the whole tensor on every rank
};

inline bool is_sharded(const Value& v)
{
    return std::any_of(v.sharding->dims.begin(), v.sharding->dims.end(),
                       [](const DimSharding& dim) { return !dim.axes.empty(); });
}

/// `local`: before buckets, which join collectives.
inline void count_reshardings(const Graph& local, Reshardings& into)
{
    const auto moves = [&](ValueId v) { // as resharding does: communication, or a slice of a known tensor
        return local[v].producer && (info(local[local[v].producer]).communicates || !local[v].whole.empty());
    };
    std::vector<bool> read(local.values.size(), false); // by an op that computes, or by the host
    for (const ValueId v : local.outputs)
        read[v.index()] = true;
    for (const Op& op : local.ops)
        if (op.results.empty() || !moves(op.results[0]))
            for (const ValueId v : op.operands)
                read[v.index()] = true;
    for (std::size_t i = 0; i < local.values.size(); ++i) {
        if (!read[i] || !moves(ValueId(i)))
            continue;
        bool communicates = false, whole = false;
        ValueId from(i);
        while (moves(from)) {
            const Op& op = local[local[from].producer];
            if (op.operands.empty())
                break;
            communicates = communicates || info(op).communicates;
            whole = whole || (from != ValueId(i) && !is_sharded(local[from]) && !read[from.index()]);
            from = op.operands[0];
        }
        into.all += communicates;
        into.full_gathers += communicates && whole && is_sharded(local[from]) && is_sharded(local.values[i]);
    }
}

} // namespace trivium
