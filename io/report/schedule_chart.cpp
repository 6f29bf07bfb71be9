#include "io/report/schedule_chart.hpp"

#include "base/check.hpp"
#include "base/units.hpp"
#include "io/report/axis.hpp"
#include "io/report/canvas.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>

namespace trivium {

namespace {

/// Forward blue, backward and its first half warm, weights green: as in the papers on zero-bubble schedules.
constexpr const char* mark_colours[] = {"#1f6fb4", "#d9622b", "#c98a12", "#2f9e6e", "#7d8794", "#8a6fc9"};
constexpr const char* mark_names[] = {"F: forward",         "B: backward",      "I: input gradient",
                                      "W: weight gradient", "rest of the step", "collective"};

/// A shade of "#rrggbb": towards black for negative amounts, towards white for positive ones, at most 1.
std::string shade(const std::string& colour, double amount)
{
    std::string mixed = "#";
    for (const std::size_t at : {1, 3, 5}) {
        const double value = static_cast<double>(std::stoi(colour.substr(at, 2), nullptr, 16));
        char digits[8];
        std::snprintf(digits, sizeof digits, "%02x",
                      static_cast<unsigned>(value + std::abs(amount) * ((amount > 0 ? 255 : 0) - value)));
        mixed += digits;
    }
    return mixed;
}

/// Whether the tasks of a chunk are so pale that their numbers are dark.
bool is_pale(std::int64_t chunk, std::int64_t chunks) { return chunks > 1 && 2 * chunk > chunks - 1; }

/// The shades of chunks go from dark to pale.
std::string schedule_rules(std::int64_t chunks)
{
    std::string css = ".number{font-size:11px;fill:#fff;pointer-events:none}.dark{fill:#111}"
                      ".task{stroke-width:.5}.task:hover{opacity:.5}";
    for (int i = 0; i < static_cast<int>(ScheduleMark::wait); ++i) {
        css += str(".m", i, "{fill:", mark_colours[i], "}");
        if (i >= static_cast<int>(ScheduleMark::step))
            continue;
        for (std::int64_t chunk = 0; chunks > 1 && chunk < chunks; ++chunk) {
            const double part = 2 * static_cast<double>(chunk) / static_cast<double>(chunks - 1) - 1;
            css += str(".m", i, ".n", chunk,
                       "{fill:", shade(mark_colours[i], part < 0 ? 0.4 * part : 0.6 * part), "}");
        }
    }
    return css;
}

std::string schedule_theme(const ChartPalette& p)
{
    return str(".task{stroke:", p.ground, "}.m5,.m6{stroke:none}.m6{fill:", p.ground, ";opacity:.8}");
}

/// "12.345 ms".
std::string milliseconds(double seconds) { return fixed(1e3 * seconds, 3) + " ms"; }

class SchedulePicture {
public:
    explicit SchedulePicture(const ScheduleChart& chart)
        : chart_(chart), chunks_(chart.chunks()),
          top_(58 + Canvas::subtitle_height * static_cast<double>(chart.subtitles.size())),
          right_(chart.width - 210.0), bottom_(top_ + row_height * static_cast<double>(chart.rows.size())),
          canvas_(chart.width, static_cast<int>(bottom_) + 84)
    {
    }

    std::string svg()
    {
        canvas_.heading(left_, chart_.title + "; " + chart_.summary(), chart_.subtitles);
        axis();
        canvas_.text("label", right_ + 14, top_ - 10, "bubble");
        canvas_.text("label", right_ + 80, top_ - 10, "peak in flight");
        for (std::size_t r = 0; r < chart_.rows.size(); ++r)
            row(chart_.rows[r], top_ + row_height * static_cast<double>(r));
        legend();
        return canvas_.svg("picture", chart_.title, picture_style(schedule_rules(chunks_), schedule_theme));
    }

private:
    static constexpr double row_height = 34, bar_height = 26, thin = 7;

    double x(double time) const { return left_ + time / chart_.length * (right_ - left_); }

    void axis()
    {
        const double unit = chart_.length < 1e-3 ? 1e-6 : chart_.length < 1 ? 1e-3 : 1;
        const Axis time = nice_axis(0, chart_.length / unit, 10);
        for (double at = 0; at * unit <= chart_.length * (1 + 1e-9); at += time.tick) {
            canvas_.line("grid", x(at * unit), top_ - 4, x(at * unit), bottom_);
            canvas_.text("tick", x(at * unit), bottom_ + 16, tick_label(at, time.tick), "middle");
        }
        canvas_.text("label", (left_ + right_) / 2, bottom_ + 36,
                     str("time, ", unit == 1     ? "s"
                                   : unit < 1e-4 ? "us"
                                                 : "ms"),
                     "middle");
    }

    void row(const ScheduleChart::Row& row, double y)
    {
        const double middle = y + bar_height / 2;
        canvas_.text("label", left_ - 8, middle, row.name, "end", Canvas::centred);
        for (const ScheduleChart::Span& span : row.spans)
            draw(span, y);
        canvas_.text("tick", right_ + 14, middle, fixed(100 * chart_.bubble(row)) + " %", "start",
                     Canvas::centred);
        canvas_.text("tick", right_ + 80, middle, str(row.in_flight, ", ", format_bytes(row.activations)),
                     "start", Canvas::centred);
    }

    void draw(const ScheduleChart::Span& span, double y)
    {
        const double width = x(span.end) - x(span.begin);
        const bool collective = span.mark == ScheduleMark::collective;
        if ((collective || span.mark == ScheduleMark::wait) && width < 1.0 / 3)
            return;
        canvas_.rect(str("task m", static_cast<int>(span.mark), chunks_ > 1 ? str(" n", span.chunk) : ""),
                     fixed(x(span.begin), 2), collective ? y + bar_height - thin : y, fixed(width, 2),
                     collective ? thin : bar_height,
                     str(span.name, ", ", milliseconds(span.begin), " to ", milliseconds(span.end)));
        if (const std::string number = std::to_string(span.microbatch);
            span.microbatch >= 0 && width > 7.0 * static_cast<double>(number.size()) + 2)
            canvas_.text(is_pale(span.chunk, chunks_) ? "number dark" : "number", x(span.begin) + width / 2,
                         y + bar_height / 2, number, "middle", Canvas::centred);
    }

    void legend()
    {
        double at = left_;
        for (int i = 0; i < static_cast<int>(ScheduleMark::wait); ++i) {
            if (!chart_.has(static_cast<ScheduleMark>(i)))
                continue;
            canvas_.swatch(str("m", i), at, bottom_ + 52);
            canvas_.text("tick", at + 20, bottom_ + 63, mark_names[i]);
            at += 40 + 7.0 * static_cast<double>(std::string_view(mark_names[i]).size());
        }
        canvas_.text("tick", at, bottom_ + 63,
                     str("blank or nearly blank: idle; numbers: microbatches",
                         chunks_ > 1 ? str("; from dark to pale: chunks 0 to ", chunks_ - 1) : ""));
    }

    const ScheduleChart& chart_;
    std::int64_t chunks_;
    double left_ = 74, top_, right_, bottom_; ///< frame, in pixels
    Canvas canvas_;
};

} // namespace

char letter_of(ScheduleMark mark) { return "FBIWS=."[static_cast<int>(mark)]; }

double ScheduleChart::bubble() const
{
    double sum = 0;
    for (const Row& row : rows)
        sum += bubble(row);
    return rows.empty() ? 0 : sum / static_cast<double>(rows.size());
}

bool ScheduleChart::has(ScheduleMark mark) const
{
    return std::any_of(rows.begin(), rows.end(), [&](const Row& row) {
        return std::any_of(row.spans.begin(), row.spans.end(),
                           [&](const Span& span) { return span.mark == mark; });
    });
}

std::int64_t ScheduleChart::chunks() const
{
    std::int64_t most = 1;
    for (const Row& row : rows)
        for (const Span& span : row.spans)
            most = std::max(most, span.chunk + 1);
    return most;
}

std::string ScheduleChart::summary() const
{
    return str("step ", step < 1 ? milliseconds(step) : format_seconds(step), ", bubble ",
               fixed(100 * bubble()), " % (mean of the ranks)");
}

std::string schedule_svg(const ScheduleChart& chart)
{
    TRV_CHECK(chart.length > 0, "a schedule that takes no time");
    return SchedulePicture(chart).svg();
}

} // namespace trivium
