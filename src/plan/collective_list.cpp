#include "plan/collective_list.hpp"

#include "ir/exchange.hpp"
#include "ir/op_table.hpp"
#include "plan/cost.hpp"

#include <algorithm>

namespace trivium {

namespace {

std::vector<std::string> names_of(const std::string& joint)
{
    std::vector<std::string> names;
    for (std::size_t begin = 0; begin <= joint.size();) {
        const std::size_t end = std::min(joint.find(axis_joint, begin), joint.size());
        names.push_back(joint.substr(begin, end - begin));
        begin = end + 1;
    }
    return names;
}

} // namespace

std::vector<CollectiveEntry> collectives_of(const Graph& local)
{
    std::vector<const Op*> reader(local.values.size(), nullptr);
    for (const Op& op : local.ops)
        for (const ValueId v : op.operands)
            if (!reader[v.index()])
                reader[v.index()] = &op;
    std::vector<CollectiveEntry> all;
    ValueId last; // what the last entry made
    i64 last_dim = -1;
    std::size_t begin = 0; // of the entry's axes along the current dimension
    for (const Op& op : local.ops) {
        if (!info(op).communicates || op.operands.empty() || op.results.empty())
            continue;
        const std::string kind = info(op).name;
        const bool more = !all.empty() && last && op.operands[0] == last && all.back().kind == kind;
        if (!more)
            all.push_back({kind, {}, 0, local[op.operands[0]].name, "", "", 0});
        CollectiveEntry& entry = all.back();
        // Along a dimension, a gather goes from the last axis to the first.
        const i64 dim = op.attrs.dim ? op.attrs.dim->front() : -1;
        if (!more || dim != last_dim || kind != "all_gather")
            begin = entry.axes.size();
        last_dim = dim;
        const std::vector<std::string> axes = names_of(*op.attrs.axis);
        entry.axes.insert(entry.axes.begin() + static_cast<std::ptrdiff_t>(begin), axes.begin(), axes.end());
        entry.bytes += info(op).exchanges
                           ? static_cast<Bytes>(mean_box_exchange_sent(exchange_of(local, op)) + 0.5)
                           : bytes_sent(local, op);
        last = op.results[0];
        entry.made = local[last].name;
        const Op* user = reader[last.index()];
        entry.at = user ? place_of(local, *user) : "";
        entry.line = user ? user->line : 0;
    }
    return all;
}

} // namespace trivium
