#include "cli/plan/plan_scaling.hpp"

#include "base/check.hpp"
#include "compile/describe.hpp"
#include "io/report/chart.hpp"

#include <charconv>
#include <fmt/format.h>

namespace trivium {

namespace {

double tokens_per_second(const PlanReport& r)
{
    return static_cast<double>(r.config.train.global_batch * r.config.model.seq) / r.own().score.step;
}

/// Tokens per second and rank, as a part of those of the first report.
double efficiency(const PlanReport& r, const PlanReport& first)
{
    return tokens_per_second(r) / static_cast<double>(r.rank_total()) /
           (tokens_per_second(first) / static_cast<double>(first.rank_total()));
}

} // namespace

std::vector<i64> ranks_in(const std::string& text)
{
    const std::size_t dots = text.find("..");
    const auto number = [&](const std::string& part) {
        i64 value = 0;
        const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
        if (error != std::errc() || end != part.data() + part.size() || value < 1 || value > 1'000'000'000)
            throw UserError({"--ranks", str("'", part, "' is not a number of ranks"), "",
                             "write a number, as in --ranks 64, or a range, as in --ranks 8..512"});
        return value;
    };
    if (dots == std::string::npos)
        return {number(text)};
    const i64 first = number(text.substr(0, dots)), last = number(text.substr(dots + 2));
    if (last < first)
        throw UserError(
            {"--ranks", str("the range ", text, " is empty"), "", "write the smaller number first"});
    std::vector<i64> all;
    for (i64 ranks = first; ranks <= last; ranks *= 2)
        all.push_back(ranks);
    return all;
}

std::string scaling_table(const std::vector<PlanReport>& reports)
{
    std::string text = "  ranks      step    tokens/s  efficiency    MFU  device-hours  strategy\n";
    for (const PlanReport& r : reports)
        text += fmt::format("{:>7} {:>9} {:>11} {:>9.0f} % {:>5.1f}% {:>13.1f}  {}, microbatch {}{}\n",
                            r.rank_total(), format_seconds(r.own().score.step),
                            format_si(tokens_per_second(r)), 100 * efficiency(r, reports.front()),
                            100 * r.mfu(r.own()), r.device_hours(r.own()), describe_grid(r.chosen),
                            micro_batch(r.config), r.memory.known && !r.memory.fits ? "; does NOT fit" : "");
    return text;
}

nlohmann::ordered_json scaling_json(const std::vector<PlanReport>& reports)
{
    nlohmann::ordered_json rows = nlohmann::json::array();
    for (const PlanReport& r : reports)
        rows.push_back({{"ranks", r.rank_total()},
                        {"step_seconds", r.own().score.step},
                        {"tokens_per_second", tokens_per_second(r)},
                        {"efficiency", efficiency(r, reports.front())},
                        {"mfu", r.mfu(r.own())},
                        {"device_hours", r.device_hours(r.own())},
                        {"fits", r.memory.known ? nlohmann::ordered_json(r.memory.fits) : nullptr},
                        {"strategy", describe_grid(r.chosen)}});
    return rows;
}

std::string scaling_svg(const std::vector<PlanReport>& reports)
{
    const PlanReport& first = reports.front();
    Chart chart;
    chart.title = "Tokens per second by ranks";
    chart.subtitles = {str(describe_model(first.config), "; '", first.machine.name, "'")};
    chart.x_label = "ranks";
    chart.y_label = "tokens per second";
    chart.from_zero = true;
    ChartSeries planned{ChartSeries::Form::line, 0, "the best strategy", {}},
        ideal{ChartSeries::Form::raw, 1, "as efficient as the fewest ranks", {}};
    for (const PlanReport& r : reports) {
        const auto ranks = static_cast<double>(r.rank_total());
        planned.points.push_back({ranks, tokens_per_second(r)});
        ideal.points.push_back({ranks, tokens_per_second(r) / efficiency(r, first)});
    }
    chart.series = {std::move(ideal), std::move(planned)};
    return chart_svg(chart, chart_style(light_palette));
}

} // namespace trivium
