#pragma once
// A picture of a pipeline schedule: a row per rank, time to the right. As SVG and as text.
#include <cstdint>
#include <string>
#include <vector>

namespace trivium {

enum class ScheduleMark { forward, backward, input_gradient, weight_gradient, step, collective, wait };
/// The letter of a task in upper case, as in "F0"; '=' for a collective, '.' for a wait.
char letter_of(ScheduleMark mark);

struct ScheduleChart {
    struct Span {
        ScheduleMark mark = ScheduleMark::forward;
        double begin = 0, end = 0;    ///< seconds
        std::int64_t chunk = 0;       ///< index among the rank's stages
        std::int64_t microbatch = -1; ///< -1: none
        std::string name;             ///< tooltip
    };
    struct Row {
        std::string name;
        std::vector<Span> spans;      ///< later ones are drawn over earlier ones
        double idle = 0;              ///< seconds of `step` without work
        std::int64_t in_flight = 0;   ///< maximum number of microbatches
        std::int64_t activations = 0; ///< bytes at the memory peak
    };
    std::string title;
    std::vector<std::string> subtitles; ///< lines below the title, in the SVG only
    std::vector<Row> rows;
    double length = 1; ///< of the time axis, seconds
    double step = 1; ///< seconds from the begin of one step to the begin of the next; may be less than length
    int width = 1400; ///< pixels

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

/// A timeline of at most `columns` characters for each row (but with at least 20 for the time), a legend, and
/// a table of the rows. A character shows the span that fills most of its interval of time. \pre length > 0
std::string schedule_text(const ScheduleChart& chart, int columns);

} // namespace trivium
