#include "io/report/report_charts.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"

#include <algorithm>
#include <cmath>

namespace trivium {

namespace {

using Form = ChartSeries::Form;

/// The finite values of a key, times `scale`, of the `included` records.
template <class Included>
std::vector<ChartPoint> points_of(const MetricsTable& metrics, const std::string& name, double scale,
                                  Included&& included)
{
    std::vector<ChartPoint> points;
    const MetricsValues values = metrics.values(name);
    for (std::size_t i = 0; i < metrics.size(); ++i)
        if (std::isfinite(values[i]) && included(i))
            points.push_back({static_cast<double>(metrics.steps[i]), values[i] * scale});
    return points;
}

std::vector<ChartPoint> points_of(const MetricsTable& metrics, const std::string& name, double scale = 1)
{
    return points_of(metrics, name, scale, [](std::size_t) { return true; });
}

/// Adds noisy values: raw, and means over 2 % of the steps without skipped ones. With `by_launch`, no mean
/// extends over a restart, because the measured quantity may change there.
void add_noisy(Chart& chart, const RunFiles& run, const std::string& key, double scale, bool by_launch,
               const std::string& name = "")
{
    const MetricsTable& m = run.metrics;
    const MetricsValues skipped = m.values("skipped"), restarted = m.values("restarted_at");
    const std::vector<ChartPoint> kept =
        points_of(m, key, scale, [&](std::size_t i) { return !(skipped[i] > 0); });
    std::vector<double> breaks; // starts of launches
    for (std::size_t i = 0; by_launch && i < m.size(); ++i)
        if (std::isfinite(restarted[i]))
            breaks.push_back(static_cast<double>(m.steps[i]));
    std::vector<ChartPoint> smooth;
    auto next = breaks.begin();
    for (auto begin = kept.begin(); begin != kept.end();) {
        while (next != breaks.end() && *next <= begin->x)
            ++next;
        const auto end =
            next == breaks.end()
                ? kept.end()
                : std::find_if(begin, kept.end(), [&](const ChartPoint& p) { return p.x >= *next; });
        const std::vector<ChartPoint> part = smoothed({begin, end}, m.size() / 50);
        smooth.insert(smooth.end(), part.begin(), part.end());
        begin = end;
    }
    chart.series.push_back({Form::raw, 0, "", points_of(m, key, scale)});
    chart.series.push_back({Form::line, 0, name, std::move(smooth)});
}

std::vector<ChartMark> marks_of(const RunFiles& run)
{
    std::vector<ChartMark> marks;
    if (run.metrics.steps.empty())
        return marks;
    const auto label_of = [](const Launch& l) { return l.ranks > 0 ? counted(l.ranks, "rank") : ""; };
    if (std::any_of(run.launches.begin(), run.launches.end(),
                    [&](const Launch& l) { return l.ranks != run.launches.front().ranks; }))
        marks.push_back({ChartMark::Kind::note, static_cast<double>(run.metrics.steps.front()),
                         label_of(run.launches.front()), ""});
    for (std::size_t i = 1; i < run.launches.size(); ++i) {
        const Launch& l = run.launches[i];
        marks.push_back({ChartMark::Kind::restart, static_cast<double>(l.from),
                         l.ranks != run.launches[i - 1].ranks ? label_of(l) : "",
                         str("launch ", l.number, " resumed from step ", l.from)});
    }
    const MetricsValues skipped = run.metrics.values("skipped");
    for (std::size_t i = 0; i < run.metrics.size(); ++i)
        if (skipped[i] > 0)
            marks.push_back({ChartMark::Kind::skipped, static_cast<double>(run.metrics.steps[i]), "",
                             str("step ", run.metrics.steps[i], " was skipped")});
    return marks;
}

Chart small(const std::string& title)
{
    Chart chart;
    chart.title = title;
    chart.width = 560;
    chart.height = 240;
    chart.from_zero = true;
    chart.explains_marks = false; // the chart of the loss does
    return chart;
}

} // namespace

std::vector<Chart> report_charts(const RunFiles& run)
{
    const MetricsTable& m = run.metrics;
    Chart loss;
    loss.title = "Loss, nats per token";
    loss.x_label = "step";
    loss.width = 1140;
    loss.height = 400;
    add_noisy(loss, run, "loss", 1, false, "training");
    loss.series.push_back({Form::dots, 1, "validation", points_of(m, "valid_loss")});
    loss.series.push_back({Form::dots, 2, "validation, not averaged", points_of(m, "valid_loss_raw")});

    Chart rate = small("Learning rate");
    rate.series.push_back({Form::line, 0, "", points_of(m, "lr")});
    Chart norm = small("Gradient norm");
    add_noisy(norm, run, "grad_norm", 1, false);
    Chart loads = small("Most loaded expert, slots relative to the mean");
    add_noisy(loads, run, "expert_load", 1, false);
    Chart speed = small("Throughput, tokens/s");
    add_noisy(speed, run, "tokens_per_second", 1, true);
    Chart mfu = small("Model FLOPs utilisation, %");
    add_noisy(mfu, run, "mfu", 100, true);
    Chart time = small("Step time, s");
    add_noisy(time, run, "step_seconds", 1, true);
    Chart exposed = small("Exposed communication, s per step");
    add_noisy(exposed, run, "exposed_comm_seconds", 1, true);
    Chart saves = small("Checkpoint saves, s");
    saves.series.push_back({Form::dots, 0, "whole", points_of(m, "checkpoint_seconds")});
    saves.series.push_back({Form::dots, 1, "training waited", points_of(m, "checkpoint_stall_seconds")});
    Chart memory = small("Memory of the fullest rank, GiB");
    memory.series.push_back({Form::line, 1, "planned", points_of(m, "planned_bytes", 0x1p-30)});
    memory.series.push_back({Form::line, 0, "used", points_of(m, "memory_bytes", 0x1p-30)});

    std::vector<Chart> charts;
    const auto [first, last] = std::minmax_element(m.steps.begin(), m.steps.end());
    const std::vector<ChartMark> marks = marks_of(run);
    for (Chart* chart : {&loss, &rate, &norm, &loads, &speed, &mfu, &time, &exposed, &saves, &memory}) {
        if (std::all_of(chart->series.begin(), chart->series.end(),
                        [](const ChartSeries& s) { return s.points.empty(); }))
            continue;
        chart->range = {static_cast<double>(*first), static_cast<double>(*last)};
        chart->marks = marks;
        for (ChartMark& mark : chart->marks)
            mark.label = chart == &loss ? mark.label : "";
        charts.push_back(std::move(*chart));
    }
    return charts;
}

} // namespace trivium
