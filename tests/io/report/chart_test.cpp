#include "catch.hpp"
#include "io/report/axis.hpp"
#include "io/report/chart.hpp"
#include "io/temporary_folder.hpp"

#include <cmath>
#include <sstream>

using namespace trivium;

namespace {

/// The points of the line of this class, in pixels.
std::vector<ChartPoint> drawn(const std::string& svg, const std::string& classes)
{
    const std::string begin = "<path class=\"" + classes + "\" d=\"";
    const std::size_t from = svg.find(begin);
    REQUIRE(from != std::string::npos);
    std::string path =
        svg.substr(from + begin.size(), svg.find('"', from + begin.size()) - from - begin.size());
    for (char& c : path)
        c = c == 'M' || c == 'L' || c == ',' ? ' ' : c;
    std::istringstream numbers(path);
    std::vector<ChartPoint> points;
    for (ChartPoint p; numbers >> p.x >> p.y;)
        points.push_back(p);
    return points;
}

} // namespace

TEST_CASE("a long line keeps every spike, with at most two points per pixel")
{
    Chart chart;
    chart.series.push_back({ChartSeries::Form::line, 0, "", {}});
    for (int step = 0; step < 300'000; ++step)
        chart.series[0].points.push_back({static_cast<double>(step), step == 123'456 ? 9.0
                                                                     : step == 200'001
                                                                         ? 1.0
                                                                         : 5 + 0.5 * std::sin(step)});
    const std::vector<ChartPoint> points = drawn(chart_svg(chart), "line c0");
    CHECK(points.size() <= 2 * 900);
    CHECK(points.size() > 1500);
    const auto higher = [](const ChartPoint& p, const ChartPoint& q) { return p.y < q.y; };
    const auto [top, bottom] = std::minmax_element(points.begin(), points.end(), higher); // down is more
    const double left = points.front().x;
    CHECK((top->x - left) / (bottom->x - left) == Approx(123.456 / 200.001).epsilon(0.005));
    CHECK(bottom->y > top->y + 300); // 1 to 9 spans the frame
    CHECK(std::is_sorted(points.begin(), points.end(),
                         [](const ChartPoint& p, const ChartPoint& q) { return p.x < q.x - 1; }));
}

TEST_CASE("a spike of raw values is clamped to the edge and does not flatten the rest")
{
    Chart chart;
    chart.height = 500;
    chart.series.push_back({ChartSeries::Form::raw, 0, "", {}});
    for (int step = 0; step < 2000; ++step)
        chart.series[0].points.push_back({static_cast<double>(step), step == 700 ? 1e6 : 2 + std::cos(step)});
    double least = 1e9, greatest = 0;
    for (const ChartPoint& p : drawn(chart_svg(chart), "raw c0")) {
        least = std::min(least, p.y);
        greatest = std::max(greatest, p.y);
    }
    CHECK(least >= 0);
    CHECK(greatest - least > 300);
}

TEST_CASE("ticks are round numbers with matching labels")
{
    for (const auto& [low, high] : std::vector<std::pair<double, double>>{
             {0, 1}, {1.7, 5.2}, {0, 1e-5}, {3e-4, 3e-4}, {-3, 8}, {0, 123456}, {0, 2.5e12}, {0, 0}}) {
        const Axis axis = nice_axis(low, high, 6);
        INFO(low << " " << high << " " << axis.tick);
        CHECK(axis.low <= low + 1e-9 * axis.tick);
        CHECK(axis.high >= high - 1e-9 * axis.tick);
        CHECK((axis.high - axis.low) / axis.tick <= 8.001);
        const double mantissa = axis.tick / std::pow(10, std::floor(std::log10(axis.tick) + 1e-9));
        CHECK((std::abs(mantissa - 1) < 1e-6 || std::abs(mantissa - 2) < 1e-6 ||
               std::abs(mantissa - 5) < 1e-6));
        for (double at = axis.low; at <= axis.high + axis.tick / 2; at += axis.tick) {
            const std::string label = tick_label(std::abs(at) < axis.tick / 2 ? 0 : at, axis.tick);
            const double unit = label.ends_with('k')   ? 1e3
                                : label.ends_with('M') ? 1e6
                                : label.ends_with('G') ? 1e9
                                                       : 1;
            CHECK(std::abs(std::strtod(label.c_str(), nullptr) * unit - at) < 0.01 * axis.tick);
        }
    }
    CHECK(tick_label(2.5, 0.5) == "2.5");
    CHECK(tick_label(20000, 5000) == "20k");
    CHECK(tick_label(2e-5, 1e-5) == "2e-05");
}

TEST_CASE("a moving average of a constant or a straight line is that line")
{
    std::vector<ChartPoint> points;
    for (int x = 0; x < 1000; ++x)
        points.push_back({static_cast<double>(x), 3 + 0.25 * x});
    const std::vector<ChartPoint> smooth = smoothed(points, 20);
    REQUIRE(smooth.size() == 1000);
    for (std::size_t i = 0; i < 980; ++i)
        CHECK(smooth[i].y == Approx(points[i].y));
}
