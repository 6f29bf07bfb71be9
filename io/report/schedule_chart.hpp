#pragma once
// A picture of a pipeline schedule: a row per rank, time to the right. As SVG and as text.
#include <cstdint>
#include <string>
#include <vector>

namespace trivium {

enum class ScheduleMark { forward, backward, input_gradient, weight_gradient, step, collective, wait };
inline constexpr int schedule_marks = 7;
/// Upper case, as in "F0"; '=' of collectives, '.' of waits.
char letter_of(ScheduleMark mark);

struct ScheduleChart {
    struct Span {
        ScheduleMark mark = ScheduleMark::forward;
        double begin = 0, end = 0; ///< seconds
        std::int64_t chunk = 0;    ///< of the rank's stages
        std::int64_t microbatch = -1;
        std::string name; ///< in tooltips
    };
    struct Row {
        std::string name;
        std::vector<Span> spans; ///< later ones are drawn over earlier ones
        double idle = 0;         ///< seconds
        std::int64_t in_flight = 0;
        std::int64_t activations = 0; ///< bytes
    };
    std::string title;
    std::vector<std::string> subtitles; ///< lines, in the SVG
    std::vector<Row> rows;
    double length = 1; ///< of the time axis, seconds
    double step = 1;   ///< from the begin of a step to that of the next, seconds; may be shorter
    int width = 1400;  ///< pixels

    double bubble(const Row& row) const { return row.idle / step; }
    /// The mean over the rows.
    double bubble() const;
    bool has(ScheduleMark mark) const;
    /// The largest number of stages of a rank.
    std::int64_t chunks() const;
    /// "step 12.345 ms, bubble 8.3 % (mean of the ranks)".
    std::string summary() const;
};

/// One svg element with a rectangle for each span; collectives and waits below a third of a pixel are left
/// out. \pre length > 0
std::string schedule_svg(const ScheduleChart& chart);

/// Rows of at most `columns` characters, a legend, and a table of the rows. A character shows what lasts
/// longest in its part of the time. \pre length > 0
std::string schedule_text(const ScheduleChart& chart, int columns);

} // namespace trivium
