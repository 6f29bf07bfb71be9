#include "io/report/arena_chart.hpp"

#include "base/check.hpp"
#include "base/units.hpp"
#include "io/report/axis.hpp"
#include "io/report/canvas.hpp"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace trivium {

namespace {

using Rectangle = ArenaChart::Rectangle;

/// Parameters and states blue, gradients and what computes them warm, activations green. They contrast with
/// both grounds.
constexpr const char* kind_colours[arena_colours] = {"#1f6fb4", "#5aa9e0", "#7d8794", "#14808f",
                                                     "#8a6fc9", "#d9622b", "#4a5563", "#2f9e6e",
                                                     "#d77fae", "#e0a526", "#3fa3ad", "#a0a8b2"};

std::string arena_theme(const ChartPalette& p)
{
    return str(".edge{stroke:", p.ground, "}.peak{stroke:", p.warning, "}.peaktext{fill:", p.warning,
               "}.part{fill:", p.axis, "}.limit{stroke:", p.text, "}");
}

std::string arena_rules()
{
    std::string css = ".peaktext{font-size:12px;font-weight:600}.edge{stroke-width:.6}"
                      ".buffer{shape-rendering:crispEdges}.peak{stroke-width:1.4;stroke-dasharray:5 3}"
                      ".limit{stroke-width:1.2}.odd{opacity:.16}.even{opacity:.32}rect:hover{opacity:.75}";
    for (int i = 0; i < arena_colours; ++i)
        css += str(".k", i, "{fill:", kind_colours[i], "}");
    return css;
}

/// Touching rectangles of one kind and time become one.
std::vector<Rectangle> merged(std::vector<Rectangle> all, std::int64_t near)
{
    std::sort(all.begin(), all.end(), [](const Rectangle& a, const Rectangle& b) {
        return std::tie(a.kind, a.begin, a.end, a.offset) < std::tie(b.kind, b.begin, b.end, b.offset);
    });
    std::vector<Rectangle> made;
    std::size_t count = 1;
    const auto close = [&] {
        if (count > 1)
            made.back().hint += str(" and ", count - 1, " more: ", format_bytes(made.back().bytes));
        count = 1;
    };
    for (Rectangle& next : all) {
        if (!made.empty()) {
            Rectangle& last = made.back();
            const std::int64_t gap = next.offset - last.offset - last.bytes;
            if (last.kind == next.kind && last.begin == next.begin && last.end == next.end && gap >= 0 &&
                gap < near) {
                last.bytes = next.offset + next.bytes - last.offset;
                ++count;
                continue;
            }
            close();
        }
        made.push_back(std::move(next));
    }
    if (!made.empty())
        close();
    return made;
}

class ArenaPicture {
public:
    explicit ArenaPicture(const ArenaChart& chart) : chart_(chart), canvas_(chart.width, chart.height)
    {
        unit_ = chart.arena >= (std::int64_t{1} << 30)   ? 30
                : chart.arena >= (std::int64_t{1} << 20) ? 20
                                                         : 10;
        top_ += Canvas::subtitle_height * static_cast<double>(chart.subtitles.size());
        right_ = chart.width - 170;
        bottom_ = chart.height - 78;
    }

    std::string svg()
    {
        axes();
        rectangles();
        parts();
        peak();
        legend();
        return canvas_.svg("picture", chart_.title, picture_style(arena_rules(), arena_theme));
    }

private:
    double x(double time) const { return left_ + time / chart_.length * (right_ - left_); }
    double y(double bytes) const
    {
        return bottom_ - bytes / static_cast<double>(chart_.arena) * (bottom_ - top_);
    }

    void axes()
    {
        canvas_.heading(left_, chart_.title, chart_.subtitles);
        const double unit = std::ldexp(1.0, unit_), high = static_cast<double>(chart_.arena) / unit;
        const Axis axis = nice_axis(0, high, 8);
        for (double at = 0; at <= high * (1 + 1e-9); at += axis.tick) {
            canvas_.line("grid", left_, y(at * unit), right_, y(at * unit));
            canvas_.text("tick", left_ - 8, y(at * unit), tick_label(at, axis.tick), "end", Canvas::centred);
        }
        canvas_.upright_label(18, (top_ + bottom_) / 2,
                              str("offset in the arena, ", unit_ == 30   ? "GiB"
                                                           : unit_ == 20 ? "MiB"
                                                                         : "KiB"));
        const Axis time = nice_axis(0, chart_.length, 10);
        for (double at = 0; at <= chart_.length; at += time.tick) {
            canvas_.line("axis", x(at), bottom_ + 20, x(at), bottom_ + 25);
            canvas_.text("tick", x(at), bottom_ + 39, tick_label(at, time.tick), "middle");
        }
        canvas_.text("label", (left_ + right_) / 2, chart_.height - 14, chart_.x_label, "middle");
    }

    void rectangles()
    {
        const double bytes_per_pixel = static_cast<double>(chart_.arena) / (bottom_ - top_);
        std::vector<Rectangle> all = merged(
            chart_.rectangles, std::max<std::int64_t>(4096, static_cast<std::int64_t>(bytes_per_pixel / 8)));
        const auto area = [](const Rectangle& r) { return static_cast<double>(r.bytes) * (r.end - r.begin); };
        std::stable_sort(all.begin(), all.end(),
                         [&](const Rectangle& a, const Rectangle& b) { return area(a) > area(b); });
        drawn_.assign(chart_.kinds.size(), false);
        std::size_t drawn = 0, left_out = 0;
        for (const Rectangle& r : all) {
            const double height = static_cast<double>(r.bytes) / bytes_per_pixel,
                         width = x(r.end) - x(r.begin);
            if (drawn >= chart_.most || height < 1.0 / 3) {
                ++left_out;
                continue;
            }
            ++drawn;
            drawn_[static_cast<std::size_t>(r.kind)] = true;
            canvas_.rect(str("buffer k", r.kind, height > 6 && width > 6 ? " edge" : ""),
                         fixed(x(r.begin), 2), fixed(y(static_cast<double>(r.offset + r.bytes)), 2),
                         fixed(width, 2), fixed(height, 2), r.hint);
        }
        if (left_out > 0)
            canvas_.text("tick", right_, chart_.height - 14,
                         str(left_out, " smaller rectangles are not drawn"), "end");
        canvas_.line("limit", left_, top_, right_, top_);
        canvas_.text("tick", right_ + 6, top_, str("arena ", format_bytes(chart_.arena)), "start",
                     Canvas::centred);
    }

    /// A strip below the arena.
    void parts()
    {
        for (std::size_t i = 0; i < chart_.parts.size(); ++i) {
            const ArenaChart::Part& part = chart_.parts[i];
            const double width = x(part.end) - x(part.begin);
            canvas_.rect(part.letter == 'b' || part.letter == 'e' ? "part even" : "part odd",
                         fixed(x(part.begin), 2), bottom_ + 3, fixed(width, 2), 15, part.name);
            const double middle = x(part.begin) + width / 2;
            if (width > 7.0 * static_cast<double>(part.name.size()) + 4)
                canvas_.text("tick", middle, bottom_ + 14.5, part.name, "middle");
            else if (width > 10)
                canvas_.text("tick", middle, bottom_ + 14.5, std::string(1, part.letter), "middle");
        }
    }

    void peak()
    {
        const double at = x(chart_.peak + 0.5);
        canvas_.line("peak", at, top_ - 12, at, bottom_ + 2);
        canvas_.text("peaktext", at, top_ - 16, chart_.peak_label,
                     at > (left_ + right_) / 2 ? "end"
                     : at < left_ + 150        ? "start"
                                               : "middle");
    }

    void legend()
    {
        double at = top_ + 26;
        for (std::size_t i = chart_.kinds.size(); i-- > 0;) {
            if (!drawn_[i])
                continue;
            canvas_.swatch(str("k", i), right_ + 14, at - 10);
            canvas_.text("tick", right_ + 36, at + 1, chart_.kinds[i]);
            at += 22;
        }
        canvas_.text("tick", right_ + 14, at + 8, "blank: free");
        at += 38;
        canvas_.text("tick", right_ + 14, at, "parts of the step,");
        canvas_.text("tick", right_ + 14, at += 16, "with microbatches:");
        std::string known;
        for (const ArenaChart::Part& part : chart_.parts) {
            if (known.find(part.letter) != std::string::npos)
                continue;
            known += part.letter;
            const std::size_t number = part.name.find_last_not_of("0123456789"); // of the microbatch
            canvas_.text("tick", right_ + 14, at += 18,
                         str(part.letter, ": ",
                             number + 1 < part.name.size() ? part.name.substr(0, number) : part.name));
        }
    }

    const ArenaChart& chart_;
    int unit_ = 30;                                        ///< of the vertical axis: 2^unit_ bytes
    double left_ = 74, right_ = 0, top_ = 68, bottom_ = 0; ///< frame, in pixels
    std::vector<bool> drawn_;                              ///< by kind
    Canvas canvas_;
};

} // namespace

std::string arena_svg(const ArenaChart& chart)
{
    TRV_CHECK(chart.length > 0 && chart.arena > 0, "an empty arena");
    TRV_CHECK(chart.kinds.size() <= arena_colours, "a colour for each kind");
    return ArenaPicture(chart).svg();
}

} // namespace trivium
