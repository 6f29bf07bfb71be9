#include "cli/graph/graph_report.hpp"

#include "base/check.hpp"
#include "ir/ops/op_table.hpp"
#include "ir/text/text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace trivium {

namespace {

/// What set a dimension's axes: "given", "matmul, line 4", or nothing.
std::string origin_of(const Graph& graph, const Value& v, const DimSharding& dim)
{
    if (dim.by >= 0)
        return op_and_line(graph.ops[static_cast<std::size_t>(dim.by)]);
    return v.sharding->pinned ? "given" : "";
}

/// The origins of the sharded dimensions: one, if it is the same for all, otherwise each.
std::string origins_of(const Graph& graph, const Value& v)
{
    std::string text, first;
    bool same = true;
    for (std::size_t d = 0; d < v.sharding->dims.size(); ++d) {
        const std::string origin = origin_of(graph, v, v.sharding->dims[d]);
        if (v.sharding->dims[d].axes.empty() || origin.empty())
            continue;
        same = same && (first.empty() || origin == first);
        first = first.empty() ? origin : first;
        text += str(text.empty() ? "" : "; ", "dim ", d, " ", origin);
    }
    if (text.empty() && v.sharding->pinned)
        return "given";
    return same ? first : text;
}

std::string joined(const std::vector<std::string>& names) { return fmt::format("{}", fmt::join(names, ",")); }

/// A table whose columns, but for the last one, are as wide as their widest cell, at most `widest`.
std::string aligned(const std::vector<std::vector<std::string>>& rows, std::size_t right_column = 99)
{
    constexpr std::size_t widest = 48;
    std::vector<std::size_t> width;
    for (const std::vector<std::string>& row : rows)
        for (std::size_t c = 0; c < row.size(); ++c) {
            width.resize(std::max(width.size(), row.size()));
            width[c] = std::max(width[c], std::min(row[c].size(), widest));
        }
    std::string text;
    for (const std::vector<std::string>& row : rows) {
        std::string line;
        for (std::size_t c = 0; c < row.size(); ++c)
            line += "  " + (c == right_column ? fmt::format("{:>{}}", row[c], width[c])
                                              : fmt::format("{:<{}}", row[c], width[c]));
        text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return text;
}

struct KindTotal {
    std::string kind;
    int count = 0;
    Bytes bytes = 0;
};

/// In the order of their first collective; with several kinds, then "all".
std::vector<KindTotal> totals_of(const std::vector<CollectiveEntry>& all)
{
    std::vector<KindTotal> totals;
    KindTotal sum{"all"};
    for (const CollectiveEntry& entry : all) {
        auto at = std::ranges::find_if(totals, [&](const KindTotal& t) { return t.kind == entry.kind; });
        if (at == totals.end())
            at = totals.insert(totals.end(), KindTotal{entry.kind});
        for (KindTotal* total : {&*at, &sum}) {
            ++total->count;
            total->bytes += entry.bytes;
        }
    }
    totals.push_back(sum);
    return totals;
}

std::string moved_by(const CollectiveEntry& entry)
{
    std::string text = "%" + entry.value;
    for (const std::string& name : entry.more)
        text += ", %" + name;
    return text;
}

std::string reader_of(const CollectiveEntry& entry)
{
    return entry.at.empty() ? "as an output" : "for " + entry.at;
}

} // namespace

nlohmann::ordered_json values_json(const Graph& sharded, const Shardings& propagated)
{
    nlohmann::ordered_json all = nlohmann::json::array();
    for (std::size_t i = 0; i < sharded.values.size(); ++i) {
        const Value& v = sharded.values[i];
        nlohmann::ordered_json dims = nlohmann::json::array(), origin = nlohmann::json::array(),
                               partial = nlohmann::json::array();
        for (const DimSharding& dim : v.sharding->dims) {
            dims.push_back(dim.axes);
            origin.push_back(origin_of(sharded, v, dim));
        }
        for (const Partial& p : v.sharding->partial)
            partial.push_back({{"axis", p.axis}, {"combine", name_of(p.combine)}});
        all.push_back({{"name", v.name},
                       {"shape", v.type.shape},
                       {"dtype", name_of(v.type.dtype)},
                       {"sharding", dims},
                       {"partial", partial},
                       {"origin", origin}});
        const auto before = propagated.find(ValueId(i));
        all.back()["propagated"] = before == propagated.end()
                                       ? nlohmann::ordered_json()
                                       : nlohmann::ordered_json(to_text(before->second));
    }
    return all;
}

std::vector<CollectiveEntry> collectives_to_report(const Graph& sharded, const Graph& local)
{
    std::vector<CollectiveEntry> all = collectives_of(local);
    const ValueNames names = values_by_name(sharded);
    const auto rename = [&](std::string& name) {
        if (const ValueId v = global_value(names, name))
            name = sharded[v].name;
    };
    for (CollectiveEntry& entry : all) {
        rename(entry.value);
        std::ranges::for_each(entry.more, rename);
    }
    return all;
}

nlohmann::ordered_json collectives_json(const std::vector<CollectiveEntry>& all)
{
    nlohmann::ordered_json list = nlohmann::json::array();
    for (const CollectiveEntry& entry : all) {
        std::vector<std::string> values{entry.value};
        values.insert(values.end(), entry.more.begin(), entry.more.end());
        list.push_back({{"kind", entry.kind},
                        {"axes", entry.axes},
                        {"bytes", entry.bytes},
                        {"value", entry.value},
                        {"values", values},
                        {"at", entry.at},
                        {"line", entry.line}});
    }
    return list;
}

nlohmann::ordered_json collective_totals_json(const std::vector<CollectiveEntry>& all)
{
    nlohmann::ordered_json list = nlohmann::json::array();
    for (const KindTotal& total : totals_of(all))
        list.push_back({{"kind", total.kind}, {"count", total.count}, {"bytes", total.bytes}});
    return list;
}

nlohmann::ordered_json advice_json(const std::vector<Advice>& all)
{
    nlohmann::ordered_json list = nlohmann::json::array();
    for (const Advice& advice : all)
        list.push_back({{"kind", advice.collective.kind},
                        {"axes", advice.collective.axes},
                        {"value", advice.collective.value},
                        {"at", advice.collective.at},
                        {"bytes", advice.collective.bytes},
                        {"share", advice.share},
                        {"annotate", advice.value},
                        {"as", advice.annotation},
                        {"line", advice.line},
                        {"saved_bytes", advice.saved}});
    return list;
}

std::string values_table(const Graph& sharded, const Shardings& propagated)
{
    std::vector<std::vector<std::string>> rows{{"value", "type", "sharding", "set by"}};
    for (std::size_t i = 0; i < sharded.values.size(); ++i) {
        const Value& v = sharded.values[i];
        const auto before = propagated.find(ValueId(i));
        rows.push_back({"%" + v.name, to_string(v.type), to_text(v.sharding),
                        before == propagated.end()
                            ? origins_of(sharded, v)
                            : str("look-ahead; propagation: ", to_text(before->second))});
    }
    return aligned(rows);
}

std::string changed_text(const Graph& sharded, const Shardings& propagated)
{
    std::string text;
    for (const auto& [v, before] : propagated)
        text += str("  %", sharded[v].name, " is ", to_text(sharded[v].sharding), " instead of ",
                    to_text(before), "\n");
    return text;
}

std::string collectives_table(const std::vector<CollectiveEntry>& all)
{
    if (all.empty())
        return "  none\n";
    std::vector<std::vector<std::string>> rows{{"kind", "axes", "bytes sent", "of", ""}};
    for (const CollectiveEntry& entry : all)
        rows.push_back(
            {entry.kind, joined(entry.axes), format_bytes(entry.bytes), moved_by(entry), reader_of(entry)});
    const std::vector<KindTotal> totals = totals_of(all);
    for (const KindTotal& total : totals)
        if (total.kind != "all" || totals.size() > 2)
            rows.push_back({str("= ", total.count, " ", total.kind == "all" ? "in all" : total.kind), "",
                            format_bytes(total.bytes)});
    return aligned(rows, 2);
}

std::string advice_text(const std::vector<Advice>& all)
{
    std::string text;
    for (const Advice& advice : all) {
        const CollectiveEntry& moved = advice.collective;
        text += fmt::format("  {} of %{} over {} {}: a rank sends {}, {:.0f} % of the bytes of its tensors\n",
                            moved.kind, moved.value, joined(moved.axes), reader_of(moved),
                            format_bytes(moved.bytes), 100 * advice.share);
        text += advice.value.empty() ? "    no other annotation of that value that was tried sends less\n"
                                     : fmt::format("    line {}: write %{} : {} {} to send {} less in all\n",
                                                   advice.line, advice.value, to_string(advice.type),
                                                   advice.annotation, format_bytes(advice.saved));
    }
    return text;
}

} // namespace trivium
