#include "cli/graph_report.hpp"

#include "base/check.hpp"
#include "ir/op_table.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace trivium {

namespace {

/// What set a dimension's axes: "given", "matmul, line 4", or nothing.
std::string origin_of(const Graph& graph, const Value& v, const DimSharding& dim)
{
    if (dim.by >= 0)
        return place_of(graph, graph.ops[static_cast<std::size_t>(dim.by)]);
    return v.sharding.pinned ? "given" : "";
}

std::string joined(const std::vector<std::string>& names)
{
    std::string text;
    for (const std::string& name : names)
        text += (text.empty() ? "" : ",") + name;
    return text;
}

} // namespace

nlohmann::ordered_json values_json(const Graph& sharded)
{
    nlohmann::ordered_json all = nlohmann::json::array();
    for (const Value& v : sharded.values) {
        nlohmann::ordered_json dims = nlohmann::json::array(), origin = nlohmann::json::array(),
                               partial = nlohmann::json::array();
        for (const DimSharding& dim : v.sharding.dims) {
            dims.push_back(dim.axes);
            origin.push_back(origin_of(sharded, v, dim));
        }
        for (const Partial& p : v.sharding.partial)
            partial.push_back({{"axis", p.axis}, {"combine", name_of(p.combine)}});
        all.push_back({{"name", v.name},
                       {"shape", v.type.shape},
                       {"dtype", name_of(v.type.dtype)},
                       {"sharding", dims},
                       {"partial", partial},
                       {"origin", origin}});
    }
    return all;
}

nlohmann::ordered_json collectives_json(const std::vector<CollectiveEntry>& all)
{
    nlohmann::ordered_json list = nlohmann::json::array();
    for (const CollectiveEntry& entry : all)
        list.push_back({{"kind", entry.kind},
                        {"axes", entry.axes},
                        {"bytes", entry.bytes},
                        {"value", entry.value},
                        {"at", entry.at},
                        {"line", entry.line}});
    return list;
}

nlohmann::ordered_json advice_json(const std::vector<Advice>& all)
{
    nlohmann::ordered_json list = nlohmann::json::array();
    for (const Advice& advice : all)
        list.push_back({{"kind", advice.collective.kind},
                        {"value", advice.collective.value},
                        {"bytes", advice.collective.bytes},
                        {"share", advice.share},
                        {"annotate", advice.value},
                        {"as", advice.annotation},
                        {"saved_bytes", advice.saved}});
    return list;
}

std::string collectives_table(const std::vector<CollectiveEntry>& all)
{
    std::string text;
    for (const CollectiveEntry& entry : all)
        text +=
            fmt::format("  {:<14} {:<16} {:>12} %{}{}\n", entry.kind, joined(entry.axes),
                        format_bytes(entry.bytes), entry.value, entry.at.empty() ? "" : ", for " + entry.at);
    return all.empty() ? "  none\n" : text;
}

std::string advice_text(const std::vector<Advice>& all)
{
    std::string text;
    for (const Advice& advice : all) {
        text +=
            fmt::format("  warning: {} of %{} over {} sends {}, {:.0f} % of the bytes of a rank's tensors",
                        advice.collective.kind, advice.collective.value, joined(advice.collective.axes),
                        format_bytes(advice.collective.bytes), 100 * advice.share);
        text += advice.value.empty() ? "; no annotation that was tried sends less\n"
                                     : fmt::format("; annotate %{} as {} to save {}\n", advice.value,
                                                   advice.annotation, format_bytes(advice.saved));
    }
    return text;
}

} // namespace trivium
