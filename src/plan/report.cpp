#include "plan/report.hpp"

#include "base/check.hpp"

#include <iomanip>

namespace trivium {

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
    row("process beside it", plan.process, "(constant of the machine file)");
    return out.str();
}

} // namespace trivium
