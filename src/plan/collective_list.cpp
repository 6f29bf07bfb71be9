#include "plan/collective_list.hpp"

#include "base/check.hpp"
#include "ir/ops/op_table.hpp"
#include "plan/cost.hpp"

#include <algorithm>

namespace trivium {

namespace {

/// The first op that reads v, or what other moves make of it; null: none.
const Op* final_reader(const Graph& local, ValueId v, const std::vector<const Op*>& reader)
{
    const Op* op = reader[v.index()];
    // What the partitioner inserts into the graph of a file has no line.
    while (op && (info(*op).communicates || (op->line == 0 && !local.file.empty())) && !op->results.empty()) {
        const auto at = static_cast<std::size_t>(std::ranges::find(op->operands, v) - op->operands.begin());
        v = op->results[std::min(at, op->results.size() - 1)];
        op = reader[v.index()];
    }
    return op;
}

} // namespace

std::string op_and_line(const Op& op)
{
    return str(op.scope, op.scope.empty() ? "" : ".", info(op).name,
               op.line > 0 ? str(", line ", op.line) : "");
}

ValueNames values_by_name(const Graph& graph)
{
    ValueNames names;
    for (std::size_t i = 0; i < graph.values.size(); ++i)
        names.emplace(graph.values[i].name, i);
    return names;
}

ValueId global_value(const ValueNames& names, std::string_view local)
{
    for (;;) {
        if (const auto at = names.find(local); at != names.end())
            return at->second;
        const std::size_t dot = local.rfind('.');
        if (dot == std::string_view::npos)
            return {};
        local = local.substr(0, dot);
    }
}

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
        if (!more) {
            all.push_back({kind, {}, 0, local[op.operands[0]].name, "", "", 0});
            for (std::size_t i = 1; i < op.operands.size(); ++i)
                all.back().more.push_back(local[op.operands[i]].name);
        }
        CollectiveEntry& entry = all.back();
        // Along a dimension, a gather goes from the last axis to the first.
        const i64 dim = op.attrs->dim ? op.attrs->dim->front() : -1;
        if (!more || dim != last_dim || kind != "all_gather")
            begin = entry.axes.size();
        last_dim = dim;
        std::vector<std::string> axes;
        each_name(*op.attrs->axis, [&](std::string_view name) { axes.emplace_back(name); });
        entry.axes.insert(entry.axes.begin() + static_cast<std::ptrdiff_t>(begin), axes.begin(), axes.end());
        entry.bytes += mean_bytes_sent(local, op);
        last = op.results[0];
        entry.made = local[last].name;
        const Op* user = final_reader(local, last, reader);
        entry.at = user ? op_and_line(*user) : "";
        entry.line = user ? user->line : 0;
    }
    return all;
}

} // namespace trivium
