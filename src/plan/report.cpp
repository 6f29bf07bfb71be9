#include "plan/report.hpp"

#include "base/check.hpp"
#include "ir/collectives.hpp"
#include "ir/text/text.hpp"
#include "plan/cost.hpp"

#include <algorithm>
#include <iomanip>
#include <limits>

namespace trivium {

namespace {

std::string_view part_of_step(const Op& op)
{
    return op.region == Region::microbatch ? name_of(op.phase) : name_of(op.region);
}

/// Saturating sum.
Bytes plus(Bytes a, Bytes b)
{
    return a > std::numeric_limits<Bytes>::max() - b ? std::numeric_limits<Bytes>::max() : a + b;
}
Bytes times(Bytes bytes, i64 n)
{
    return n > 0 && bytes > std::numeric_limits<Bytes>::max() / n ? std::numeric_limits<Bytes>::max()
                                                                  : bytes * n;
}

} // namespace

std::string communication_table(const Graph& graph)
{
    std::ostringstream out;
    std::string last;
    int count = 0;
    const auto close = [&] {
        if (count > 0)
            out << last << std::setw(6) << count << "\n";
        count = 0;
    };
    for (const Op& op : graph.ops) {
        if (!info(op).communicates)
            continue;
        std::ostringstream row;
        const std::size_t tensors = std::max(op.operands.size(), op.results.size());
        row << "  " << std::left << std::setw(12) << part_of_step(op) << "block " << std::setw(5) << op.block
            << std::setw(16) << info(op).name << std::setw(10) << *op.attrs->axis << std::setw(28) << op.scope
            << std::right << std::setw(4) << tensors << (tensors == 1 ? " tensor " : " tensors")
            << std::setw(14) << format_bytes(mean_bytes_sent(graph, op));
        if (row.str() != last)
            close();
        last = row.str();
        ++count;
    }
    close();
    return out.str();
}

std::vector<CommunicationTotal> communication_totals(const Graph& graph, i64 microbatches)
{
    std::vector<std::string> axes;
    for (const MeshAxis& axis : graph.mesh.axes)
        axes.push_back(axis.name);
    for (const std::string& axis : joint_axes(graph))
        axes.push_back(axis);
    axes.push_back(world_axis);
    std::vector<CommunicationTotal> rows;
    const auto add = [](CommunicationTotal& sum, const CommunicationTotal& t) {
        sum.collectives += t.times * t.collectives;
        sum.sent += t.times * t.sent;
        sum.received += t.times * t.received;
        sum.bytes = plus(sum.bytes, times(t.bytes, t.times));
    };
    CommunicationTotal all{"all", "step"};
    int steps = 0;
    for (const std::string& axis : axes) {
        CommunicationTotal step{axis, "step"};
        const std::size_t before = rows.size();
        for (const std::string_view part : {"prologue", "forward", "backward", "weights", "epilogue"}) {
            CommunicationTotal total{axis, std::string(part)};
            for (const Op& op : graph.ops) {
                if (!info(op).communicates || *op.attrs->axis != axis || part_of_step(op) != part)
                    continue;
                total.times = op.region == Region::microbatch ? microbatches : 1;
                ++(op.attrs->to ? total.sent : op.attrs->from ? total.received : total.collectives);
                total.bytes = plus(total.bytes, mean_bytes_sent(graph, op));
            }
            if (total.collectives + total.sent + total.received == 0)
                continue;
            rows.push_back(total);
            add(step, total);
        }
        if (rows.size() == before)
            continue;
        rows.push_back(step);
        add(all, step);
        ++steps;
    }
    if (steps > 1)
        rows.push_back(all);
    return rows;
}

std::string totals_table(const std::vector<CommunicationTotal>& totals)
{
    std::ostringstream out;
    out << "  " << std::left << std::setw(10) << "axis" << std::setw(26) << "in" << std::right
        << std::setw(12) << "collectives" << std::setw(8) << "sends" << std::setw(10) << "receives"
        << std::setw(14) << "bytes sent"
        << "\n";
    for (const CommunicationTotal& t : totals) {
        const bool sum = t.part == "step";
        const bool each = t.part != "prologue" && t.part != "epilogue";
        out << "  " << std::left << std::setw(10) << t.axis << std::setw(26)
            << (sum    ? "= an optimizer step"
                : each ? str(t.part, " of a microbatch, x", t.times)
                       : t.part)
            << std::right << std::setw(12) << t.collectives << std::setw(8) << t.sent << std::setw(10)
            << t.received << std::setw(14) << format_bytes(t.bytes) << "\n";
    }
    return out.str();
}

std::string sharding_table(const Graph& graph)
{
    std::ostringstream out;
    for (const Value& v : graph.values)
        out << "  " << std::left << std::setw(44) << "%" + v.name << " " << std::setw(22) << to_string(v.type)
            << " " << std::setw(26) << to_text(v.sharding) << " " << (v.sharding->origin.empty() ? "" : "by ")
            << v.sharding->origin << "\n";
    return out.str();
}

std::string flops_table(const Graph& graph)
{
    std::vector<std::pair<std::string, std::pair<int, Flops>>> kinds;
    for (const Op& op : graph.ops) {
        const std::string name = info(op).name;
        auto at = std::find_if(kinds.begin(), kinds.end(), [&](const auto& k) { return k.first == name; });
        if (at == kinds.end())
            at = kinds.insert(kinds.end(), {name, {0, 0}});
        at->second.first += 1;
        at->second.second += flops_of(graph, op);
    }
    std::ostringstream out;
    for (const auto& [name, count] : kinds)
        out << "  " << std::left << std::setw(20) << name << " " << std::right << std::setw(5) << count.first
            << "  " << std::setw(10) << format_si(count.second) << " flops\n";
    return out.str();
}

const char* const sharding_legend =
    "# type: bf16[4,128] is the element type and the extents, outermost first; [] is a scalar.\n"
    "# sharding: <data,tensor+data,-|tensor:sum> lists, per dimension, the mesh axes over which it is "
    "sharded, major first, - for none;\n"
    "#   after the bar: axes over which the value is still partial, to be combined by sum, lse (log of a "
    "sum of exponentials), max, min or product.\n";
const char* const rule_legend = "# letters in rules: b sequences, s tokens (t of keys), d width, g key-value "
                                "heads, r query heads each, e head size, f feed-forward, v vocabulary;\n"
                                "#   x0, x1, … the dimensions of a communicated tensor, y the one that "
                                "changes; * any dimensions, . a scalar.\n";
const char* const steps_legend =
    "# line: number, queue, microbatch (mb0) or step, op (buffers read "
    "@offset in bytes, after host: of its arena) -> (buffers written), Steps that it waits for.\n";

std::string memory_table(const MemoryPlan& plan)
{
    std::ostringstream out;
    const auto row = [&](std::string_view name, Bytes bytes, const std::string& note = "") {
        out << "  " << std::left << std::setw(20) << name << std::right << std::setw(14)
            << format_bytes(bytes) << std::setw(20) << format_count(bytes) << " bytes"
            << (note.empty() ? "" : "  ") << note << "\n";
    };
    out << "live at the peak\n";
    for (int k = 0; k < memory_kind_count; ++k)
        if (plan.by_kind[k] > 0)
            row(name_of(static_cast<MemoryKind>(k)), plan.by_kind[k]);
    row("sum", plan.lower_bound);
    out << "arena\n";
    row("kept over the run", plan.kept);
    row("within a step", plan.transient);
    const Bytes unit = plan.arena > (Bytes{1} << 50) ? 1024 : 1; // a hundred times petabytes would overflow
    row("arena", plan.arena,
        str("(", plan.lower_bound / unit * 100 / std::max<Bytes>(plan.arena / unit, 1),
            " % filled at the peak)"));
    if (plan.host_arena > 0)
        row("host arena", plan.host_arena, "(in host memory: parallel.offload)");
    if (plan.snapshot > 0)
        row("snapshot", plan.snapshot, "(in host memory, for checkpoints)");
    if (plan.read_ahead > 0)
        row("read ahead", plan.read_ahead, "(in host memory: inputs of the next microbatch)");
    row("process", plan.process, "(program, libraries, buffers outside the arena: `process` of the machine)");
    return out.str();
}

} // namespace trivium
