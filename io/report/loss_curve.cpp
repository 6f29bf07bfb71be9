#include "io/report/loss_curve.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "io/report/chart.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

namespace trivium {

namespace {

std::string rank_text(double ranks)
{
    return std::isfinite(ranks) ? counted(static_cast<i64>(ranks), "rank") : "";
}

void add_run(Chart& chart, const NamedMetrics& run, const std::string& name, int colour,
             const LossCurveOptions& options)
{
    const MetricsTable& m = run.metrics;
    ChartSeries raw{ChartSeries::Form::raw, colour, "", {}},
        valid{ChartSeries::Form::dots, colour, "validation", {}};
    const MetricsValues xs = m.values(options.x), ys = m.values(options.y),
                        valid_ys = m.values("valid_" + options.y);
    const MetricsValues ranks_of = m.values("ranks"), restarted_at = m.values("restarted_at");
    double ranks_before = NAN;
    std::optional<ChartMark> start; // the first number of ranks, for a run that changes it
    for (std::size_t i = 0; i < m.size(); ++i) {
        const double x = options.x == "step" ? static_cast<double>(m.steps[i]) : xs[i];
        const double ranks = ranks_of[i];
        if (!std::isfinite(x))
            continue;
        if (const double y = ys[i]; std::isfinite(y))
            raw.points.push_back({x, y});
        if (const double y = valid_ys[i]; std::isfinite(y))
            valid.points.push_back({x, y});
        const bool restart = std::isfinite(restarted_at[i]),
                   change = std::isfinite(ranks) && ranks != ranks_before;
        if (restart)
            chart.marks.push_back(
                {ChartMark::Kind::restart, x, change ? rank_text(ranks) : "", "restart", colour});
        if (change && std::isnan(ranks_before) && !restart)
            start = ChartMark{ChartMark::Kind::note, x, rank_text(ranks), "", colour};
        else if (change && start) {
            chart.marks.push_back(*start);
            start.reset();
        }
        ranks_before = std::isfinite(ranks) ? ranks : ranks_before;
    }
    ChartSeries line{ChartSeries::Form::line, colour, name,
                     smoothed(raw.points, static_cast<std::size_t>(options.smoothing *
                                                                   static_cast<double>(raw.points.size())))};
    if (options.smoothing > 0)
        chart.series.push_back(std::move(raw));
    chart.series.push_back(std::move(line));
    chart.series.push_back(std::move(valid));
}

} // namespace

std::string loss_curve_svg(std::span<const NamedMetrics> runs, const LossCurveOptions& options)
{
    Chart chart;
    chart.title = options.title;
    chart.subtitles = options.subtitles;
    chart.x_label = options.x;
    chart.y_label = options.y == "loss" ? "loss, nats per token" : options.y;
    chart.width = options.width;
    chart.height = options.height;
    const int colours = static_cast<int>(std::size(light_palette.lines));
    for (std::size_t i = 0; i < runs.size(); ++i)
        add_run(chart, runs[i], runs.size() == 1 ? "training" : runs[i].name, static_cast<int>(i) % colours,
                options);
    if (std::all_of(chart.series.begin(), chart.series.end(),
                    [](const ChartSeries& s) { return s.points.empty(); }))
        throw UserError({"loss curve",
                         str("there is nothing to draw: no record has a finite '", options.y,
                             "' at a finite '", options.x, "'"),
                         "", "name a metrics.jsonl of a run that made at least one step"});
    return chart_svg(chart, chart_style(light_palette));
}

} // namespace trivium
