#include "base/check.hpp"
#include "base/units.hpp"
#include "io/report/canvas.hpp"
#include "io/report/schedule_chart.hpp"

#include <algorithm>
#include <cctype>
#include <map>

namespace trivium {

namespace {

constexpr std::size_t samples = 16; ///< of a character's time
constexpr std::size_t nothing = ~std::size_t{0};

std::string padded(const std::string& text, std::size_t width)
{
    return std::string(width - std::min(width, text.size()), ' ') + text;
}

/// By character: the index of the span that lasts longest in its time.
std::vector<std::size_t> span_by_cell(const ScheduleChart::Row& row, double length, std::size_t cells)
{
    std::vector<std::size_t> painted(cells * samples, nothing);
    const double each = length / static_cast<double>(painted.size());
    const auto first_in = [&](double time) { // the first sample whose middle is not before `time`
        const double at = std::max(0.0, time / each + 0.5);
        return std::min(painted.size(), static_cast<std::size_t>(at));
    };
    for (std::size_t s = 0; s < row.spans.size(); ++s)
        for (std::size_t i = first_in(row.spans[s].begin); i < first_in(row.spans[s].end); ++i)
            painted[i] = s;
    std::vector<std::size_t> made;
    for (std::size_t cell = 0; cell < cells; ++cell) {
        std::map<std::size_t, std::size_t> count;
        for (std::size_t i = 0; i < samples; ++i)
            ++count[painted[cell * samples + i]];
        made.push_back(std::max_element(count.begin(), count.end(), [](const auto& a, const auto& b) {
                           return a.second < b.second;
                       })->first);
    }
    return made;
}

std::string row_text(const ScheduleChart::Row& row, double length, std::size_t cells)
{
    const std::vector<std::size_t> spans = span_by_cell(row, length, cells);
    std::string text(cells, '.');
    std::vector<bool> numbered(row.spans.size(), false); // a task that waits has several runs of characters
    for (std::size_t begin = 0, end = 0; begin < cells; begin = end) {
        end = begin + 1;
        if (spans[begin] == nothing)
            continue;
        while (end < cells && spans[end] == spans[begin])
            ++end;
        const ScheduleChart::Span& span = row.spans[spans[begin]];
        const char upper = letter_of(span.mark);
        const char letter = span.chunk % 2 == 1 ? static_cast<char>(std::tolower(upper)) : upper;
        const bool task = span.microbatch >= 0;
        text.replace(begin, end - begin, end - begin, task ? '-' : letter);
        if (!task || numbered[spans[begin]])
            continue;
        text[begin] = letter;
        if (const std::string number = std::to_string(span.microbatch); number.size() < end - begin) {
            text.replace(begin + 1, number.size(), number);
            numbered[spans[begin]] = true;
        }
    }
    return text;
}

std::string legend(const ScheduleChart& chart)
{
    constexpr const char* meanings[] = {"forward",         "backward",         "input gradient",
                                        "weight gradient", "rest of the step", "collective alone"};
    std::string text;
    for (int i = 0; i < static_cast<int>(ScheduleMark::wait); ++i)
        if (const auto mark = static_cast<ScheduleMark>(i); chart.has(mark))
            text += str(letter_of(mark), " ", meanings[i], ", ");
    return text + ". idle; numbers are microbatches" +
           (chart.chunks() > 1 ? "; lower case: every second chunk" : "") + "\n";
}

} // namespace

std::string schedule_text(const ScheduleChart& chart, int columns)
{
    TRV_CHECK(chart.length > 0, "a schedule that takes no time");
    std::size_t name = 4;
    for (const ScheduleChart::Row& row : chart.rows)
        name = std::max(name, row.name.size());
    const std::size_t cells =
        static_cast<std::size_t>(std::max(columns, static_cast<int>(name) + 21)) - name - 1;
    std::string text = chart.title + "\n";
    for (const ScheduleChart::Row& row : chart.rows)
        text += padded(row.name, name) + " " + row_text(row, chart.length, cells) + "\n";
    text += legend(chart);
    text += padded("rank", name) + "  bubble  peak in flight  activations at the memory peak\n";
    for (const ScheduleChart::Row& row : chart.rows)
        text += str(padded(row.name, name), padded(fixed(100 * chart.bubble(row)), 6), " %",
                    padded(std::to_string(row.in_flight), 16), "  ", format_bytes(row.activations), "\n");
    return text + chart.summary() + "\n";
}

} // namespace trivium
