#pragma once
// Line charts as SVG.
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
        raw,  ///< a thin faint line of values as they are; nearly all of them decide what the axis shows,
              ///< spikes do not
        line, ///< a strong line
        dots,
    };
    Form form = Form::line;
    int colour = 0;                 ///< one of seven
    std::string name;               ///< in the legend, where it is not empty
    std::vector<ChartPoint> points; ///< finite, in the order of x
};

/// Something that happened at one place of the horizontal axis.
struct ChartMark {
    enum class Kind { restart, skipped };
    Kind kind = Kind::restart;
    double x = 0;
    std::string label; ///< beside it
    std::string hint;  ///< where the pointer stands on it
    int colour = -1;   ///< that of a series, or none
};

struct Chart {
    std::string title, x_label, y_label;
    std::vector<ChartSeries> series;
    std::vector<ChartMark> marks;
    bool explains_marks = true;                     ///< in the legend
    bool from_zero = false;                         ///< the vertical axis begins there
    std::optional<std::pair<double, double>> range; ///< of x; else what the points need
    int width = 900, height = 500;                  ///< pixels
};

/// CSS colours.
struct ChartPalette {
    std::string ground, grid, axis, text, faint, warning;
    std::vector<std::string> lines; ///< seven
};
const ChartPalette& light_palette();
const ChartPalette& dark_palette();

/// CSS rules for the classes of a chart's elements.
std::string chart_style(const ChartPalette& palette);

/// One svg element; `style` is put inside, empty where the page has it. Of a long series each column of
/// pixels keeps its least and its greatest value, so that spikes stay. \pre at least one point
std::string chart_svg(const Chart& chart, const std::string& style = "");

/// Centred moving average over `width` points.
std::vector<ChartPoint> smoothed(std::vector<ChartPoint> points, std::size_t width);

} // namespace trivium
