#include "io/loss_curve.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace trivium {

namespace {

// Colours that stay apart for colour-blind eyes (Okabe and Ito, 2008).
constexpr const char* colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444"};
constexpr double left = 64, right = 20, top = 44, bottom = 48; // margins, pixels
constexpr std::size_t most_points = 2000;                      // of a line; more would not show

struct Point {
    double x, y;
};

/// What one series draws.
struct Curve {
    std::string name;
    std::vector<Point> raw, smooth, valid;
    std::vector<std::pair<double, std::string>> restarts; ///< where, and on how many ranks
};

struct Axis {
    double low, high, tick;
};

std::string number(double value)
{
    char text[32];
    std::snprintf(text, sizeof text, "%.2f", value);
    return text;
}

std::string rank_text(double ranks) { return str(static_cast<i64>(ranks), ranks == 1 ? " rank" : " ranks"); }

std::string escape(const std::string& text)
{
    std::string safe;
    for (const char c : text)
        safe += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
    return safe;
}

/// The step of 1, 2 or 5 times a power of ten that gives at most `count` intervals.
double nice_tick(double span, int count)
{
    const double rough = span / count, power = std::pow(10, std::floor(std::log10(rough)));
    for (const double factor : {1.0, 2.0, 5.0})
        if (factor * power >= rough * 0.999)
            return factor * power;
    return 10 * power;
}

/// From one tick to another, around [low, high].
Axis nice_axis(double low, double high, int count)
{
    if (!(high - low > 1e-9 * std::max(1.0, std::abs(high)))) { // one value: room around it
        const double room = std::max(0.5, std::abs(high) * 0.05);
        low -= room;
        high += room;
    }
    const double tick = nice_tick(high - low, count);
    return {std::floor(low / tick + 1e-9) * tick, std::ceil(high / tick - 1e-9) * tick, tick};
}

/// "2.5", "20k", "1.5M": as short as the tick allows.
std::string tick_label(double value, double tick)
{
    double unit = 1;
    const char* suffix = "";
    const double size = std::max(std::abs(value), tick);
    if (size >= 1e9)
        unit = 1e9, suffix = "G";
    else if (size >= 1e6)
        unit = 1e6, suffix = "M";
    else if (size >= 1e4)
        unit = 1e3, suffix = "k";
    const int digits = std::clamp(static_cast<int>(std::ceil(-std::log10(tick / unit) - 1e-9)), 0, 6);
    char text[48];
    std::snprintf(text, sizeof text, "%.*f%s", digits, value == 0 ? 0.0 : value / unit, value == 0 ? "" : suffix);
    return text;
}

/// Centred moving average over `width` points.
std::vector<Point> smoothed(const std::vector<Point>& points, double part)
{
    const auto size = static_cast<std::ptrdiff_t>(points.size());
    const auto half = static_cast<std::ptrdiff_t>(part * static_cast<double>(size) / 2);
    std::vector<double> sums(points.size() + 1, 0);
    for (std::size_t i = 0; i < points.size(); ++i)
        sums[i + 1] = sums[i] + points[i].y;
    std::vector<Point> result = points;
    for (std::ptrdiff_t i = 0; i < size; ++i) {
        // Symmetric at the steep start, where one side would bend the curve; cut off at the flat end.
        const std::ptrdiff_t reach = std::min(half, i), begin = i - reach, end = std::min(size, i + reach + 1);
        const double sum = sums[static_cast<std::size_t>(end)] - sums[static_cast<std::size_t>(begin)];
        result[static_cast<std::size_t>(i)].y = sum / static_cast<double>(end - begin);
    }
    return result;
}

/// At most `most_points`: of each bucket the least and the greatest, so that spikes stay.
std::vector<Point> thinned(const std::vector<Point>& points)
{
    if (points.size() <= most_points)
        return points;
    std::vector<Point> result;
    const std::size_t buckets = most_points / 2;
    for (std::size_t b = 0; b < buckets; ++b) {
        const auto begin = points.begin() + static_cast<std::ptrdiff_t>(b * points.size() / buckets);
        const auto end = points.begin() + static_cast<std::ptrdiff_t>((b + 1) * points.size() / buckets);
        const auto [low, high] = std::minmax_element(begin, end, [](const Point& p, const Point& q) { return p.y < q.y; });
        result.push_back(low < high ? *low : *high);
        if (low != high)
            result.push_back(low < high ? *high : *low);
    }
    return result;
}

Curve make_curve(const LossSeries& series, const LossCurveOptions& options)
{
    Curve curve;
    curve.name = series.name;
    const auto x_of = [&](const MetricsRecord& record) {
        return options.x == "step" ? static_cast<double>(record.step) : record.value(options.x);
    };
    double ranks_before = 0;
    for (const MetricsRecord& record : series.records) {
        const double x = x_of(record), y = record.value(options.y), valid = record.value("valid_" + options.y);
        if (!std::isfinite(x))
            continue;
        if (std::isfinite(y))
            curve.raw.push_back({x, y});
        if (std::isfinite(valid))
            curve.valid.push_back({x, valid});
        if (record.has("restarted_at"))
            curve.restarts.emplace_back(x, record.has("ranks") ? rank_text(record.value("ranks")) : "");
        else if (record.has("ranks") && ranks_before == 0 && record.value("ranks") > 1)
            curve.restarts.emplace_back(x, rank_text(record.value("ranks"))); // the first launch
        ranks_before = record.has("ranks") ? record.value("ranks") : ranks_before;
    }
    curve.smooth = smoothed(curve.raw, options.smoothing);
    return curve;
}

/// The plot under construction: data coordinates in, SVG out.
class Plot {
public:
    Plot(const LossCurveOptions& options, Axis x, Axis y) : options_(options), x_(x), y_(y) {}

    double place_x(double x) const { return left + (x - x_.low) / (x_.high - x_.low) * (options_.width - left - right); }
    double place_y(double y) const
    {
        const double share = std::clamp((y - y_.low) / (y_.high - y_.low), 0.0, 1.0); // spikes past the axis stay at its edge
        return options_.height - bottom - share * (options_.height - top - bottom);
    }

    void frame()
    {
        const double x_end = options_.width - right, y_end = options_.height - bottom;
        for (double y = y_.low; y <= y_.high + y_.tick / 2; y += y_.tick) {
            const std::string at = number(place_y(y));
            add(str("<line class=\"grid\" x1=\"", left, "\" x2=\"", x_end, "\" y1=\"", at, "\" y2=\"", at, "\"/>"));
            add(str("<text class=\"tick\" x=\"", left - 8, "\" y=\"", at, "\" dy=\"0.35em\" text-anchor=\"end\">",
                    tick_label(std::abs(y) < y_.tick / 2 ? 0 : y, y_.tick), "</text>"));
        }
        for (double x = std::ceil(x_.low / x_.tick - 1e-9) * x_.tick; x <= x_.high * (1 + 1e-9); x += x_.tick) {
            const std::string at = number(place_x(x));
            add(str("<line class=\"axis\" x1=\"", at, "\" x2=\"", at, "\" y1=\"", y_end, "\" y2=\"", y_end + 5, "\"/>"));
            add(str("<text class=\"tick\" x=\"", at, "\" y=\"", y_end + 19, "\" text-anchor=\"middle\">", tick_label(x, x_.tick), "</text>"));
        }
        add(str("<line class=\"axis\" x1=\"", left, "\" x2=\"", x_end, "\" y1=\"", y_end, "\" y2=\"", y_end, "\"/>"));
        const double middle = (top + y_end) / 2;
        add(str("<text class=\"title\" x=\"", left, "\" y=\"26\">", escape(options_.title), "</text>"));
        add(str("<text class=\"label\" x=\"", (left + x_end) / 2, "\" y=\"", options_.height - 10, "\" text-anchor=\"middle\">",
                escape(options_.x), "</text>"));
        add(str("<text class=\"label\" x=\"16\" y=\"", middle, "\" text-anchor=\"middle\" transform=\"rotate(-90 16 ", middle, ")\">",
                escape(options_.y), "</text>"));
    }

    void line(const std::vector<Point>& points, const char* colour, bool faint)
    {
        if (points.empty())
            return;
        std::string path;
        for (const Point& p : thinned(points))
            path += str(path.empty() ? "M" : "L", number(place_x(p.x)), ",", number(place_y(p.y)));
        add(str("<path class=\"", faint ? "raw" : "line", "\" stroke=\"", colour, "\" d=\"", path, "\"/>"));
    }

    void dots(const std::vector<Point>& points, const char* colour)
    {
        for (const Point& p : points)
            add(str("<circle class=\"valid\" cx=\"", number(place_x(p.x)), "\" cy=\"", number(place_y(p.y)), "\" r=\"4\" stroke=\"", colour, "\"/>"));
    }

    void restart(double x, const std::string& text, const char* colour)
    {
        const std::string at = number(place_x(x));
        if (!text.empty())
            add(str("<text class=\"tick\" x=\"", number(place_x(x) + 4), "\" y=\"", options_.height - bottom - 8, "\">", escape(text), "</text>"));
        add(str("<line class=\"restart\" x1=\"", at, "\" x2=\"", at, "\" y1=\"", top, "\" y2=\"", options_.height - bottom, "\" stroke=\"", colour,
                "\"><title>restart</title></line>"));
    }

    /// Top right: where a falling curve is not.
    void legend(const std::vector<Curve>& curves)
    {
        bool any_valid = false, any_restart = false;
        std::size_t longest = 10;
        for (const Curve& curve : curves) {
            any_valid |= !curve.valid.empty();
            any_restart |= !curve.restarts.empty();
            longest = std::max(longest, curve.name.size());
        }
        const double rows = static_cast<double>(curves.size()) + any_valid + any_restart;
        const double width = 48 + 7.2 * static_cast<double>(longest), x = options_.width - right - width - 4;
        double y = top + 20;
        add(str("<rect class=\"legend\" x=\"", number(x), "\" y=\"", top + 4, "\" width=\"", number(width), "\" height=\"", number(18 * rows + 12), "\" rx=\"4\"/>"));
        const auto row = [&](const std::string& mark, const std::string& text) {
            add(mark);
            add(str("<text class=\"tick\" x=\"", number(x + 38), "\" y=\"", y, "\" dy=\"0.35em\">", escape(text), "</text>"));
            y += 18;
        };
        for (std::size_t i = 0; i < curves.size(); ++i)
            row(str("<line class=\"line\" x1=\"", number(x + 8), "\" x2=\"", number(x + 30), "\" y1=\"", y, "\" y2=\"", y, "\" stroke=\"",
                    colours[i % std::size(colours)], "\"/>"),
                curves[i].name);
        const char* const grey = "#666666";
        if (any_valid)
            row(str("<circle class=\"valid\" cx=\"", number(x + 19), "\" cy=\"", y, "\" r=\"4\" stroke=\"", grey, "\"/>"), "validation");
        if (any_restart)
            row(str("<line class=\"restart\" x1=\"", number(x + 19), "\" x2=\"", number(x + 19), "\" y1=\"", y - 7, "\" y2=\"", y + 7, "\" stroke=\"", grey, "\"/>"),
                "restart");
    }

    std::string svg() const
    {
        return str("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", options_.width, "\" height=\"", options_.height, "\" viewBox=\"0 0 ",
                   options_.width, " ", options_.height, "\" font-family=\"system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif\">\n<style>"
                   ".grid{stroke:#e5e5e5}.axis{stroke:#555}.tick{font-size:12px;fill:#555}.label{font-size:13px;fill:#333}"
                   ".title{font-size:17px;font-weight:600;fill:#222}.raw{fill:none;stroke-width:1;opacity:.28}"
                   ".line{fill:none;stroke-width:2;stroke-linejoin:round}.valid{fill:#fff;stroke-width:2}"
                   ".restart{stroke-width:1.2;stroke-dasharray:4 4;opacity:.75}.legend{fill:#fff;fill-opacity:.85;stroke:#ddd}</style>\n"
                   "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
                   body_, "</svg>\n");
    }

private:
    void add(const std::string& element) { body_ += element + "\n"; }

    const LossCurveOptions& options_;
    Axis x_, y_;
    std::string body_;
};

/// What of the values the vertical axis shows: everything smooth and validated, and nearly all of the raw values, so
/// that one spike does not flatten the curve.
Axis loss_axis(const std::vector<Curve>& curves)
{
    double low = std::numeric_limits<double>::infinity(), high = -low;
    const auto widen = [&](double y) {
        low = std::min(low, y);
        high = std::max(high, y);
    };
    for (const Curve& curve : curves) {
        std::vector<double> values;
        for (const Point& p : curve.raw)
            values.push_back(p.y);
        std::sort(values.begin(), values.end());
        if (!values.empty()) {
            const auto last = static_cast<double>(values.size() - 1);
            widen(values[static_cast<std::size_t>(0.002 * last)]);
            widen(values[static_cast<std::size_t>(std::ceil(0.998 * last))]);
            widen(curve.raw.front().y);
        }
        for (const Point& p : curve.valid)
            widen(p.y);
    }
    return nice_axis(low, high, 6);
}

} // namespace

std::string loss_curve_svg(std::span<const LossSeries> series, const LossCurveOptions& options)
{
    std::vector<Curve> curves;
    double first = std::numeric_limits<double>::infinity(), last = -first;
    for (const LossSeries& one : series) {
        curves.push_back(make_curve(one, options));
        for (const auto* points : {&curves.back().raw, &curves.back().valid})
            for (const Point& p : *points) {
                first = std::min(first, p.x);
                last = std::max(last, p.x);
            }
    }
    if (!(first <= last))
        throw UserError({"loss curve", str("there is nothing to draw: no record has a finite '", options.y, "' at a finite '", options.x, "'"), "",
                         "name a metrics.jsonl of a run that made at least one step"});
    Axis x = nice_axis(first, last, 8);
    if (first >= 0 && first < 0.1 * last)
        first = x.low = 0;
    x.low = std::max(x.low, std::min(first, last));
    x.high = last > x.low ? last : x.high; // the curve ends at the frame
    Plot plot(options, x, loss_axis(curves));
    plot.frame();
    for (std::size_t i = 0; i < curves.size(); ++i)
        for (const auto& [at, text] : curves[i].restarts)
            plot.restart(at, text, colours[i % std::size(colours)]);
    for (std::size_t i = 0; i < curves.size(); ++i)
        plot.line(curves[i].raw, colours[i % std::size(colours)], options.smoothing > 0);
    for (std::size_t i = 0; i < curves.size(); ++i) {
        if (options.smoothing > 0)
            plot.line(curves[i].smooth, colours[i % std::size(colours)], false);
        plot.dots(curves[i].valid, colours[i % std::size(colours)]);
    }
    plot.legend(curves);
    return plot.svg();
}

} // namespace trivium
