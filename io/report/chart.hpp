#pragma once
// Line charts as SVG.
#include "io/report/canvas.hpp"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trivium {

struct ChartPoint {
    double x = 0, y = 0;
};

struct ChartSeries {
    enum class Form {
        raw,  ///< a thin faint line of unsmoothed values; the axis ignores rare spikes
        line, ///< a strong line
        dots,
    };
    Form form = Form::line;
    int colour = 0;                 ///< index in ChartPalette::lines
    std::string name;               ///< in the legend, unless empty
    std::vector<ChartPoint> points; ///< finite, ordered by x
};

/// An event at one position of the horizontal axis.
struct ChartMark {
    enum class Kind { restart, skipped, note }; ///< a note is only a label
    Kind kind = Kind::restart;
    double x = 0;
    std::string label; ///< text next to it
    std::string hint;  ///< tooltip
    int colour = -1;   ///< that of a series; -1: the default of the kind
};

struct Chart {
    std::string title, x_label, y_label;
    std::vector<std::string> subtitles; ///< lines below the title
    std::vector<ChartSeries> series;
    std::vector<ChartMark> marks;
    bool explains_marks = true;                     ///< lists marks in the legend
    bool from_zero = false;                         ///< the vertical axis starts at zero
    std::optional<std::pair<double, double>> range; ///< of the x axis; by default that of the points
    int width = 900, height = 500;                  ///< pixels
};

/// CSS rules for the classes of a chart's elements.
std::string chart_style(const ChartPalette& palette);

/// One svg element with `style` inside (empty if the page already contains chart_style). In a long series
/// each column of pixels keeps its minimum and maximum, so spikes stay visible. \pre at least one point
std::string chart_svg(const Chart& chart, const std::string& style = "");

/// Centred moving average over `width` points; symmetric near the first point too, truncated at the last.
std::vector<ChartPoint> smoothed(std::vector<ChartPoint> points, std::size_t width);

} // namespace trivium
