#include "check/report.hpp"

#include "base/median.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "config/keys.hpp"
#include "mpi/patient_wait.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>

namespace trivium {

namespace {

/// One node's values: medians of its ranks and links.
struct NodeRow {
    std::vector<int> ranks;
    double flops_f32 = 0, flops_bf16 = 0, memory = 0; ///< per rank
    double cpu_share = 1;                             ///< of the rank with the smallest share
    LinkRate within, between; ///< between: the best of its partners; 0 without partners
};

NodeRow row_of(const CheckReport& report, int node)
{
    NodeRow row;
    std::vector<double> f32, bf16, memory, rate, latency;
    const auto on = [&](int rank) { return report.node_of(rank) == node; };
    row.ranks = report.ranks_on(node);
    for (const int rank : row.ranks) {
        if (report.rates.empty())
            break;
        const RankRates& rates = report.rates[static_cast<std::size_t>(rank)];
        f32.push_back(rates.flops_f32);
        bf16.push_back(rates.flops_bf16);
        memory.push_back(rates.bytes_per_second);
        row.cpu_share = std::min(row.cpu_share, rates.cpu_share);
    }
    for (const LinkRate& link : report.links)
        if (on(link.a) && on(link.b)) {
            rate.push_back(link.bytes_per_second);
            latency.push_back(link.latency);
        } else if (on(link.a) || on(link.b)) {
            row.between.latency = row.between.bytes_per_second == 0
                                      ? link.latency
                                      : std::min(row.between.latency, link.latency);
            row.between.bytes_per_second = std::max(row.between.bytes_per_second, link.bytes_per_second);
        }
    if (!f32.empty()) {
        row.flops_f32 = median(f32);
        row.flops_bf16 = median(bf16);
        row.memory = median(memory);
    }
    if (!rate.empty())
        row.within = {0, 0, median(rate), median(latency)};
    return row;
}

std::string or_dash(double value, double unit, const char* pattern = "{:.1f}")
{
    return value > 0 ? fmt::format(fmt::runtime(pattern), value / unit) : "-";
}

std::string rates_table(const CheckReport& report)
{
    constexpr const char* form = "{:<16} {:<12} {:>7} {:>10} {:>10} {:>10} {:>9} {:>9} {:>9} {:>9} {:>6}\n";
    std::string text = fmt::format(fmt::runtime(form), "node", "", "threads", "f32", "bf16", "memory", "link",
                                   "latency", "link", "latency", "cores");
    text += fmt::format(fmt::runtime(form), "", "", "", "GFLOP/s", "GFLOP/s", "GB/s", "GB/s", "us", "GB/s",
                        "us", "given");
    text += fmt::format(fmt::runtime(form), "", "", "", "per rank", "per rank", "per rank", "within",
                        "within", "between", "between", "%");
    for (int node = 0; node < static_cast<int>(report.nodes.size()); ++node) {
        const NodeRow row = row_of(report, node);
        text += fmt::format(
            fmt::runtime(form), report.nodes[static_cast<std::size_t>(node)], print_ranks(row.ranks),
            report.facts[static_cast<std::size_t>(row.ranks.front())].threads, or_dash(row.flops_f32, 1e9),
            or_dash(row.flops_bf16, 1e9), or_dash(row.memory, 1e9),
            or_dash(row.within.bytes_per_second, 1e9, "{:.2f}"), or_dash(row.within.latency, 1e-6),
            or_dash(row.between.bytes_per_second, 1e9, "{:.2f}"), or_dash(row.between.latency, 1e-6),
            fmt::format("{:.0f}", 100 * row.cpu_share));
    }
    return text;
}

nlohmann::ordered_json findings_json(const CheckReport& report)
{
    nlohmann::ordered_json all = nlohmann::json::array();
    for (const Finding& f : report.findings) {
        std::set<std::string> nodes;
        for (const int rank : f.ranks)
            nodes.insert(report.nodes[static_cast<std::size_t>(report.node_of(rank))]);
        all.push_back({{"part", name_of(f.part)},
                       {"severity", f.severity == Severity::fault ? "fault" : "warning"},
                       {"ranks", f.ranks},
                       {"nodes", nodes},
                       {"problem", f.problem},
                       {"expected", f.expected},
                       {"seen", f.seen},
                       {"remedy", f.remedy}});
    }
    return all;
}

} // namespace

std::string describe_ranks(const CheckReport& report, const std::vector<int>& ranks)
{
    if (ranks.empty())
        return "";
    if (ranks.size() > 1 && ranks.size() == report.node_of_rank.size())
        return "every rank";
    std::string text;
    for (int node = 0; node < static_cast<int>(report.nodes.size()); ++node) {
        std::vector<int> here;
        std::copy_if(ranks.begin(), ranks.end(), std::back_inserter(here),
                     [&](int rank) { return report.node_of(rank) == node; });
        if (!here.empty())
            text += str(text.empty() ? "" : ", ", print_ranks(here), " (",
                        report.nodes[static_cast<std::size_t>(node)], ")");
    }
    return text;
}

std::string verdict(const CheckReport& report)
{
    const int faults = report.count(Severity::fault), warnings = report.count(Severity::warning);
    const std::string where = str(counted(report.facts.size(), "rank"), " on ",
                                  counted(report.nodes.size(), "node"), ", ", format_seconds(report.seconds));
    const std::string what = str(counted(faults, "fault"), ", ", counted(warnings, "warning"), "; ");
    if (report.status() != 0)
        return str("check: failed: ", what, where);
    const bool slow = std::any_of(report.findings.begin(), report.findings.end(),
                                  [](const Finding& f) { return f.part == CheckPart::rates; });
    return str(slow ? "check: passed, but some measurements are not reliable; " : "check: passed; ",
               warnings > 0 ? str(counted(warnings, "warning"), "; ") : "", where);
}

std::string to_text(const CheckReport& report)
{
    std::string text = report.rates.empty() ? "" : rates_table(report);
    for (const Finding& f : report.findings) {
        const std::string who = describe_ranks(report, f.ranks);
        text += str("\n", f.severity == Severity::fault ? "FAULT" : "warning", " ", name_of(f.part),
                    who.empty() ? "" : ", ", who, ": ", f.problem, "\n  expected ", f.expected,
                    "\n  found    ", f.seen, "\n  remedy   ", f.remedy, "\n");
    }
    return text + "\n" + verdict(report) + "\n";
}

std::string to_json(const CheckReport& report, const Machine* machine)
{
    nlohmann::ordered_json nodes = nlohmann::json::array();
    for (int node = 0; node < static_cast<int>(report.nodes.size()); ++node) {
        const NodeRow row = row_of(report, node);
        const RankFacts& facts = report.facts[static_cast<std::size_t>(row.ranks.front())];
        nlohmann::ordered_json j{{"node", report.nodes[static_cast<std::size_t>(node)]},
                                 {"ranks", row.ranks},
                                 {"processor", facts.processor},
                                 {"threads", facts.threads},
                                 {"memory_available_bytes", facts.memory}};
        if (!report.rates.empty())
            j.update(nlohmann::ordered_json{{"flops_f32", row.flops_f32},
                                            {"flops_bf16", row.flops_bf16},
                                            {"bytes_per_second", row.memory},
                                            {"cpu_share", row.cpu_share}});
        const auto link = [&](const char* rate, const char* latency, const LinkRate& l) {
            if (l.bytes_per_second > 0) {
                j[rate] = l.bytes_per_second;
                j[latency] = l.latency;
            }
        };
        link("link_bytes_per_second", "link_latency", row.within);
        link("node_link_bytes_per_second", "node_link_latency", row.between);
        if (!report.folder.empty()) {
            j["folder_write_bytes_per_second"] = report.folder[static_cast<std::size_t>(node)].write;
            j["folder_read_bytes_per_second"] = report.folder[static_cast<std::size_t>(node)].read;
        }
        nodes.push_back(j);
    }
    nlohmann::ordered_json links = nlohmann::json::array(), ranks = nlohmann::json::array();
    for (const LinkRate& l : report.links)
        links.push_back(
            {{"ranks", {l.a, l.b}}, {"bytes_per_second", l.bytes_per_second}, {"latency", l.latency}});
    for (const RankRates& r : report.rates)
        ranks.push_back({{"flops_f32", r.flops_f32},
                         {"flops_bf16", r.flops_bf16},
                         {"bytes_per_second", r.bytes_per_second},
                         {"cpu_share", r.cpu_share}});
    nlohmann::ordered_json out{{"status", report.status()},
                               {"faults", report.count(Severity::fault)},
                               {"warnings", report.count(Severity::warning)},
                               {"ranks", report.facts.size()},
                               {"build", report.facts[0].build},
                               {"seconds", report.seconds},
                               {"findings", findings_json(report)},
                               {"done", report.parts},
                               {"clocks", report.clocks},
                               {"nodes", nodes},
                               {"per_rank", ranks},
                               {"links", links}};
    if (machine) {
        nlohmann::ordered_json m;
        Machine::keys(*machine, [&](const char* key, const auto& value, const char*) { m[key] = value; });
        out["machine"] = m;
    }
    return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
           "\n"; // the name of a folder may be invalid UTF-8
}

} // namespace trivium
