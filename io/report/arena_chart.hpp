#pragma once
// A picture of an arena as SVG: time on x, offsets on y, each buffer a rectangle.
#include <cstdint>
#include <string>
#include <vector>

namespace trivium {

struct ArenaChart {
    struct Rectangle {
        double begin = 0, end = 0;          ///< on the time axis
        std::int64_t offset = 0, bytes = 0; ///< bytes, in the arena
        int kind = 0;                       ///< index in `kinds`
        std::string hint;                   ///< tooltip
    };
    /// A range of the time axis, such as the forward pass of a microbatch.
    struct Part {
        std::string name;
        char letter = ' '; ///< shown if `name` does not fit; determines the shade
        double begin = 0, end = 0;
    };
    std::string title, x_label;
    std::vector<std::string> subtitles; ///< lines below the title
    std::vector<std::string> kinds;     ///< names; the legend lists the kinds that are drawn
    std::vector<Rectangle> rectangles;
    std::vector<Part> parts; ///< in order, without gaps
    double length = 1;       ///< end of the time axis, which begins at 0
    std::int64_t arena = 1;  ///< size of the arena, bytes
    double peak = 0;         ///< time of the peak
    std::string peak_label;
    std::size_t most = 6000;        ///< maximum number of rectangles to draw
    int width = 1200, height = 720; ///< pixels
};

inline constexpr int arena_colours = 12;

/// One svg element, with colours for light and dark pages. Rectangles of one kind that touch and have the
/// same begin and end are drawn as one. Draws at most the `most` largest, none lower than a third of a pixel,
/// and states in the picture how many it left out. \pre length > 0, arena > 0, at most arena_colours kinds
std::string arena_svg(const ArenaChart& chart);

} // namespace trivium
