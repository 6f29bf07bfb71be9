#include "io/report/chart.hpp"

#include "base/check.hpp"
#include "io/report/axis.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

namespace trivium {

namespace {

using Points = std::vector<ChartPoint>;
using Form = ChartSeries::Form;

/// The vertical axis.
Axis vertical_axis(const Chart& chart)
{
    double low = std::numeric_limits<double>::infinity(), high = -low;
    const auto widen = [&](double y) {
        low = std::min(low, y);
        high = std::max(high, y);
    };
    for (const ChartSeries& series : chart.series) {
        if (series.points.empty())
            continue;
        std::vector<double> values;
        for (const ChartPoint& p : series.points)
            values.push_back(p.y);
        std::sort(values.begin(), values.end());
        const double part = series.form == Form::raw ? 0.002 : 0,
                     last = static_cast<double>(values.size() - 1);
        widen(values[static_cast<std::size_t>(part * last)]);
        widen(values[static_cast<std::size_t>(std::ceil((1 - part) * last))]);
        if (!chart.from_zero) // a loss falls from its first value
            widen(series.points.front().y);
    }
    Axis axis = nice_axis(chart.from_zero ? std::min(0.0, low) : low, high, chart.height >= 350 ? 6 : 4);
    if (chart.from_zero && low >= 0)
        axis.low = 0;
    return axis;
}

Axis horizontal_axis(const Chart& chart)
{
    double first = std::numeric_limits<double>::infinity(), last = -first;
    for (const ChartSeries& series : chart.series)
        for (const ChartPoint& p : series.points) {
            first = std::min(first, p.x);
            last = std::max(last, p.x);
        }
    TRV_CHECK(first <= last, "a chart without a point");
    if (chart.range)
        std::tie(first, last) = *chart.range;
    Axis axis = nice_axis(first, last, chart.width >= 700 ? 8 : 5);
    if (first >= 0 && first < 0.1 * last)
        first = 0;
    if (last > first) { // the lines end at the frame
        axis.low = first;
        axis.high = last;
    }
    return axis;
}

/// The chart under construction: data coordinates in, SVG out.
class Plot {
public:
    explicit Plot(const Chart& chart)
        : chart_(chart), x_(horizontal_axis(chart)), y_(vertical_axis(chart)),
          left_(chart.y_label.empty() ? 50 : 64), right_(chart.width - 20),
          top_((chart.title.empty() ? 26 : 44) + 16 * static_cast<double>(chart.subtitles.size())),
          bottom_(chart.height - (chart.x_label.empty() ? 28 : 48)), canvas_(chart.width, chart.height)
    {
        list_entries();
    }

    std::string svg(const std::string& style)
    {
        frame();
        for (const ChartMark& m : chart_.marks)
            mark(m);
        for (const Form form : {Form::raw, Form::line, Form::dots}) // thin lines first, below the others
            for (const ChartSeries& series : chart_.series)
                if (series.form == form)
                    draw(series);
        labels();
        legend();
        return canvas_.svg("chart", chart_.title, style);
    }

private:
    struct Entry {
        std::string text, colour;
        enum { line, dot, upright } symbol;
    };

    double place_x(double x) const { return left_ + (x - x_.low) / (x_.high - x_.low) * (right_ - left_); }
    double place_y(double y) const
    {
        const double share =
            std::clamp((y - y_.low) / (y_.high - y_.low), 0.0, 1.0); // clamp spikes to the edge
        return bottom_ - share * (bottom_ - top_);
    }

    void frame()
    {
        for (double y = y_.low; y <= y_.high + y_.tick / 2; y += y_.tick) {
            const double at = place_y(y);
            canvas_.line("grid", left_, at, right_, at);
            canvas_.text("tick", left_ - 8, at, tick_label(std::abs(y) < y_.tick / 2 ? 0 : y, y_.tick), "end",
                         Canvas::centred);
        }
        for (double x = std::ceil(x_.low / x_.tick - 1e-9) * x_.tick; x <= x_.high + 1e-9 * std::abs(x_.high);
             x += x_.tick) {
            const double at = place_x(x);
            canvas_.line("axis", at, bottom_, at, bottom_ + 5);
            canvas_.text("tick", at, bottom_ + 19, tick_label(std::abs(x) < x_.tick / 2 ? 0 : x, x_.tick),
                         "middle");
        }
        canvas_.line("axis", left_, bottom_, right_, bottom_);
        if (!chart_.title.empty())
            canvas_.text("title", left_, 26, chart_.title);
        for (std::size_t i = 0; i < chart_.subtitles.size(); ++i)
            canvas_.text("tick", left_, 44 + 16 * static_cast<double>(i), chart_.subtitles[i]);
        if (!chart_.x_label.empty())
            canvas_.text("label", (left_ + right_) / 2, chart_.height - 10, chart_.x_label, "middle");
        if (!chart_.y_label.empty())
            canvas_.upright_label(16, (top_ + bottom_) / 2, chart_.y_label);
    }

    void draw(const ChartSeries& series)
    {
        const std::string colour = str("c", series.colour);
        const Points points = thinned(series.points, series.form == Form::dots ? 4 : 1);
        if (series.form == Form::dots) {
            for (const ChartPoint& p : points)
                dot(colour, place_x(p.x), place_y(p.y), str(series.name, " at ", p.x, ": ", p.y));
            return;
        }
        std::string path;
        for (const ChartPoint& p : points)
            path += str(path.empty() ? "M" : "L", fixed(place_x(p.x)), ",", fixed(place_y(p.y)));
        if (!path.empty())
            canvas_.add("path", (series.form == Form::raw ? "raw " : "line ") + colour, {{"d", path}});
    }

    void mark(const ChartMark& mark)
    {
        const double at = place_x(mark.x);
        if (at < left_ - 0.5 || at > right_ + 0.5)
            return;
        if (!mark.label.empty())
            labels_.push_back({at, mark.label});
        if (mark.kind == ChartMark::Kind::note)
            return;
        const bool restart = mark.kind == ChartMark::Kind::restart;
        double& before = last_mark_[restart ? 0 : 1];
        if (std::abs(at - before) < 3) // they would overlap
            return;
        before = at;
        const std::string colour = mark.colour < 0 ? "" : str(" c", mark.colour);
        canvas_.line((restart ? "restart" : "skipped") + colour, at, restart ? top_ : bottom_ - 8, at,
                     bottom_, mark.hint);
    }

    /// The labels of marks, each right of its mark, in the first row where nothing else is.
    void labels()
    {
        constexpr double row_height = 14;
        const auto rows = static_cast<std::size_t>((bottom_ - top_ - 8) / row_height);
        std::vector<std::vector<std::pair<double, double>>> taken(rows); // from, to
        for (std::size_t row = 0; boxed_ && row < rows; ++row)
            if (row_height * static_cast<double>(row) < 20 + box_height())
                taken[row].push_back({box_left(), right_});
        std::size_t hidden = 0;
        for (const auto& [at, label] : labels_) {
            const double width = width_of(label), from = at + 4 + width < right_ ? at + 4 : at - 4 - width,
                         to = from + width;
            const auto free = std::find_if(taken.begin(), taken.end(), [&, f = from](const auto& row) {
                return std::none_of(row.begin(), row.end(),
                                    [&](const auto& t) { return f < t.second + 8 && t.first < to + 8; });
            });
            if (free == taken.end()) {
                ++hidden;
                continue;
            }
            free->push_back({from, to});
            const double y = top_ + 12 + row_height * static_cast<double>(free - taken.begin());
            canvas_.rect("ground under", from - 2, y - 10, width + 4, 13);
            canvas_.text("tick mark", from, y, label);
        }
        if (hidden > 0)
            canvas_.text("tick mark", right_, bottom_ - 6, str("and ", hidden, " more labels, without room"),
                         "end");
    }

    /// One row above the lines if it fits, otherwise a box at the right, where a falling curve leaves room.
    void legend()
    {
        if (!boxed_) {
            double x = right_ - row_width();
            for (const Entry& entry : entries_) {
                symbol(entry, x + 12, chart_.title.empty() ? 12 : 21);
                x += 42 + width_of(entry.text);
            }
            return;
        }
        canvas_.add("rect", "legend",
                    {{"x", box_left()},
                     {"y", top_ + 4},
                     {"width", right_ - 4 - box_left()},
                     {"height", box_height()},
                     {"rx", 4}});
        for (std::size_t i = 0; i < entries_.size(); ++i)
            symbol(entries_[i], box_left() + 8, top_ + 20 + 18 * static_cast<double>(i));
    }

    void list_entries()
    {
        std::vector<Entry>& entries = entries_;
        const auto known = [&](const std::string& name) {
            return std::any_of(entries.begin(), entries.end(),
                               [&](const Entry& e) { return e.text == name; });
        };
        for (const ChartSeries& series : chart_.series)
            if (!series.name.empty() && !series.points.empty() && !known(series.name))
                entries.push_back({series.name, str("c", series.colour),
                                   series.form == Form::dots ? Entry::dot : Entry::line});
        for (const auto& [kind, name] : {std::pair{ChartMark::Kind::restart, "restart"},
                                         std::pair{ChartMark::Kind::skipped, "skipped step"}})
            if (chart_.explains_marks &&
                std::any_of(chart_.marks.begin(), chart_.marks.end(),
                            [&, k = kind](const ChartMark& m) { return m.kind == k; }))
                entries.push_back({name, name[0] == 'r' ? "restart" : "skipped", Entry::upright});
        boxed_ = row_width() > right_ - left_ - 10 * static_cast<double>(chart_.title.size());
    }

    static double width_of(const std::string& text) { return 6.6 * static_cast<double>(text.size()); }

    /// Of the legend.
    double row_width() const
    {
        double width = 0;
        for (const Entry& entry : entries_)
            width += 42 + width_of(entry.text);
        return width;
    }
    double box_left() const
    {
        double widest = 0;
        for (const Entry& entry : entries_)
            widest = std::max(widest, width_of(entry.text));
        return right_ - widest - 52;
    }
    double box_height() const { return 18 * static_cast<double>(entries_.size()) + 12; }

    void dot(const std::string& colour, double x, double y, const std::string& hint)
    {
        canvas_.add("circle", "dot " + colour, {{"cx", x}, {"cy", y}, {"r", 3.5}}, hint);
    }

    void symbol(const Entry& entry, double x, double y)
    {
        if (entry.symbol == Entry::line)
            canvas_.line("line " + entry.colour, x, y, x + 22, y);
        else if (entry.symbol == Entry::dot)
            dot(entry.colour, x + 11, y, entry.text);
        else
            canvas_.line(entry.colour, x + 11, y - 7, x + 11, y + 7);
        canvas_.text("tick", x + 28, y, entry.text, "start", Canvas::centred);
    }

    /// Minimum and maximum of each column of `pixels` width.
    Points thinned(const Points& points, double pixels) const
    {
        const auto column_of = [&](const ChartPoint& p) { return std::floor(place_x(p.x) / pixels); };
        Points result;
        for (auto begin = points.begin(); begin != points.end();) {
            const double column = column_of(*begin);
            const auto end = std::find_if(begin, points.end(),
                                          [&](const ChartPoint& p) { return column_of(p) != column; });
            auto [first, second] = std::minmax_element(
                begin, end, [](const ChartPoint& p, const ChartPoint& q) { return p.y < q.y; });
            if (second < first)
                std::swap(first, second);
            result.push_back(*first);
            if (second != first)
                result.push_back(*second);
            begin = end;
        }
        return result;
    }

    const Chart& chart_;
    Axis x_, y_;
    double left_, right_, top_, bottom_;                 ///< frame, in pixels
    std::vector<Entry> entries_;                         ///< of the legend
    bool boxed_ = false;                                 ///< whether they are in a box
    std::vector<std::pair<double, std::string>> labels_; ///< of marks, with their positions
    double last_mark_[2] = {-1e9, -1e9};                 ///< position of the last mark of each kind
    Canvas canvas_;
};

} // namespace

std::string chart_style(const ChartPalette& palette)
{
    std::string css =
        str(".chart{font-family:system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif}.ground{fill:",
            palette.ground, "}.grid{stroke:", palette.grid, "}.axis{stroke:", palette.axis,
            "}.tick{font-size:12px;fill:", palette.faint, "}.label{font-size:13px;fill:", palette.faint,
            "}.title{font-size:15px;font-weight:600;fill:", palette.text, "}.legend{fill:", palette.ground,
            ";fill-opacity:.85;stroke:", palette.grid,
            "}.under{fill-opacity:.8}.raw{fill:none;stroke-width:1;opacity:.3}.line{fill:none;stroke-width:2;"
            "stroke-linejoin:round}.dot{stroke-width:2;fill:",
            palette.ground, "}.restart{stroke:", palette.axis,
            ";stroke-width:1.2;stroke-dasharray:4 4}.skipped{stroke:", palette.warning, ";stroke-width:2}");
    for (std::size_t i = 0; i < std::size(palette.lines); ++i)
        css += str(".c", i, "{stroke:", palette.lines[i], "}");
    return css;
}

std::string chart_svg(const Chart& chart, const std::string& style) { return Plot(chart).svg(style); }

std::vector<ChartPoint> smoothed(std::vector<ChartPoint> points, std::size_t width)
{
    const auto size = static_cast<std::ptrdiff_t>(points.size()),
               half = static_cast<std::ptrdiff_t>(width / 2);
    std::vector<double> sums(points.size() + 1, 0);
    for (std::size_t i = 0; i < points.size(); ++i)
        sums[i + 1] = sums[i] + points[i].y;
    for (std::ptrdiff_t i = 0; i < size; ++i) {
        // Symmetric at the steep start, where a one-sided window would bend the curve; truncated at the flat
        // end.
        const std::ptrdiff_t reach = std::min(half, i), begin = i - reach,
                             end = std::min(size, i + reach + 1);
        const double sum = sums[static_cast<std::size_t>(end)] - sums[static_cast<std::size_t>(begin)];
        points[static_cast<std::size_t>(i)].y = sum / static_cast<double>(end - begin);
    }
    return points;
}

} // namespace trivium
