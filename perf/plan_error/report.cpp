#include "report.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace trivium {

namespace {

std::vector<std::string> machines_of(const std::vector<Simulated>& rows)
{
    std::vector<std::string> names;
    for (const Simulated& row : rows)
        if (std::ranges::find(names, row.row.machine) == names.end())
            names.push_back(row.row.machine);
    return names;
}

/// The errors of rows that were left out.
std::vector<double> left_out_on(const std::string& machine, const std::vector<Simulated>& rows)
{
    std::vector<double> errors;
    for (const Simulated& row : rows)
        if (row.left_out != 0 && (machine.empty() || row.row.machine == machine))
            errors.push_back(row.left_out);
    return errors;
}

std::string percent(double part) { return fmt::format("{:.1f} %", 100 * part); }

} // namespace

double median_of(std::vector<double> errors)
{
    if (errors.empty())
        return 0;
    for (double& e : errors)
        e = std::abs(e);
    std::ranges::sort(errors);
    const std::size_t n = errors.size();
    return (errors[(n - 1) / 2] + errors[n / 2]) / 2;
}

double worst_of(const std::vector<double>& errors)
{
    double worst = 0;
    for (const double e : errors)
        worst = std::max(worst, std::abs(e));
    return worst;
}

std::vector<double> errors_on(const std::string& machine, const std::vector<Simulated>& rows)
{
    std::vector<double> errors;
    for (const Simulated& row : rows)
        if (machine.empty() || row.row.machine == machine)
            errors.push_back(row.error());
    return errors;
}

Order order_of(const std::vector<Simulated>& rows)
{
    Order order;
    for (const Simulated& a : rows)
        for (const Simulated& b : rows)
            if (a.row.group == b.row.group && a.row.measured < b.row.measured) {
                ++order.pairs;
                if (a.planned >= b.planned)
                    order.wrong.push_back(fmt::format(
                        "{} < {} (measured {:.1f} % apart, planned {:.1f} %)", a.row.id, b.row.id,
                        100 * (b.row.measured / a.row.measured - 1), 100 * (b.planned / a.planned - 1)));
            }
    return order;
}

std::string table_of(const std::vector<Simulated>& rows, bool markdown)
{
    std::string out;
    const auto line = [&](const std::vector<std::string>& cells) {
        static constexpr int widths[] = {20, 14, 8, 10, 10, 9, 9};
        if (markdown)
            out += "|";
        for (std::size_t i = 0; i < cells.size(); ++i)
            out += markdown ? " " + cells[i] + " |"
                   : i < 2  ? fmt::format("{:<{}}", cells[i], widths[i])
                            : fmt::format("{:>{}}", cells[i], widths[i]);
        out += "\n";
    };
    line({"row", "machine", "ranks", "measured", "planned", "error", "left out"});
    if (markdown)
        out += "|---|---|---|---|---|---|---|\n";
    for (const Simulated& r : rows)
        line({r.row.id, r.row.machine, std::to_string(r.row.ranks), fmt::format("{:.3f} s", r.row.measured),
              fmt::format("{:.3f} s", r.planned), fmt::format("{:+.1f} %", 100 * r.error()),
              r.left_out == 0 ? "" : fmt::format("{:+.1f} %", 100 * r.left_out)});
    out += "\n";
    if (markdown)
        out += "| machine | rows | median error | largest | median, source left out | largest "
               "|\n|---|---|---|---|---|---|\n";
    std::vector<std::string> names = machines_of(rows);
    if (names.size() > 1)
        names.emplace_back();
    for (const std::string& name : names) {
        const std::vector<double> errors = errors_on(name, rows), without = left_out_on(name, rows);
        const std::string shown = name.empty() ? "all" : name;
        const std::string median = percent(median_of(errors)), worst = percent(worst_of(errors));
        if (markdown)
            out += fmt::format("| {} | {} | {} | {} | {} | {} |\n", shown, errors.size(), median, worst,
                               without.empty() ? "" : percent(median_of(without)),
                               without.empty() ? "" : percent(worst_of(without)));
        else
            out += fmt::format(
                "{}: {} rows, median error {}, largest {}{}\n", shown, errors.size(), median, worst,
                without.empty()
                    ? ""
                    : fmt::format("; source left out: median {}, largest {} ({} rows)",
                                  percent(median_of(without)), percent(worst_of(without)), without.size()));
    }
    const Order order = order_of(rows);
    out += fmt::format("\n{} of {} pairs of a group are in the measured order\n",
                       order.pairs - static_cast<int>(order.wrong.size()), order.pairs);
    for (const std::string& pair : order.wrong)
        out += (markdown ? "- " : "  wrong: ") + pair + "\n";
    return out;
}

} // namespace trivium
