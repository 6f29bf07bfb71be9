#include "plan/report.hpp"

#include "base/check.hpp"
#include "ir/op_table.hpp"
#include "plan/cost.hpp"

#include <iomanip>

namespace trivium {

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
        row << "  " << std::left << std::setw(12) << (op.region == Region::microbatch ? name_of(op.phase) : name_of(op.region)) << "block "
            << std::setw(5) << op.block << std::setw(16) << info(op).name << std::setw(10) << text_attr(op.attrs, "axis") << std::setw(28)
            << op.scope << std::right << std::setw(4) << std::max(op.operands.size(), op.results.size()) << " tensor(s)" << std::setw(14)
            << format_bytes(bytes_sent(graph, op));
        if (row.str() != last)
            close();
        last = row.str();
        ++count;
    }
    close();
    return out.str();
}

std::string memory_table(const MemoryPlan& plan)
{
    std::ostringstream out;
    const auto row = [&](std::string_view name, Bytes bytes, const std::string& note = "") {
        out << "  " << std::left << std::setw(20) << name << std::right << std::setw(14) << format_bytes(bytes)
            << std::setw(20) << format_count(bytes) << " bytes" << (note.empty() ? "" : "  ") << note << "\n";
    };
    out << "live at the peak\n";
    for (int k = 0; k < memory_kind_count; ++k)
        if (plan.by_kind[k] > 0)
            row(name_of(static_cast<MemoryKind>(k)), plan.by_kind[k]);
    row("sum", plan.lower_bound);
    out << "arena\n";
    row("kept over the run", plan.kept);
    row("within a step", plan.transient);
    row("arena", plan.arena, str("(", plan.lower_bound * 100 / std::max<Bytes>(plan.arena, 1), " % filled at the peak)"));
    if (plan.snapshot > 0)
        row("snapshot beside it", plan.snapshot, "(in the host's memory, for checkpoints)");
    row("process beside it", plan.process, "(constant of the machine file)");
    return out.str();
}

} // namespace trivium
