#include "plan/collective_list.hpp"

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
    for (const Op& op : local.ops) {
        if (!info(op).communicates || op.operands.empty() || op.results.empty())
            continue;
        const std::string kind = info(op).name;
        const bool more = !all.empty() && last && op.operands[0] == last && all.back().kind == kind;
        if (!more)
            all.push_back({kind, {}, 0, local[op.operands[0]].name, "", 0});
        CollectiveEntry& entry = all.back();
        // A gather goes from the last axis to the first.
        const std::vector<std::string> axes = names_of(*op.attrs.axis);
        entry.axes.insert(kind == "all_gather" ? entry.axes.begin() : entry.axes.end(), axes.begin(), axes.end());
        entry.bytes += bytes_sent(local, op);
        last = op.results[0];
        const Op* user = reader[last.index()];
        entry.at = user ? place_of(local, *user) : "";
        entry.line = user ? user->line : 0;
    }
    return all;
}

} // namespace trivium
