#pragma once
// A picture of an arena as SVG: time on x, offsets on y, each buffer a rectangle.
#include <cstdint>
#include <string>
#include <vector>

namespace trivium {

struct ArenaChart {
    struct Rectangle {
        double begin = 0, end = 0;          ///< time
        std::int64_t offset = 0, bytes = 0; ///< in the arena
        int kind = 0;                       ///< of kinds
        std::string hint;                   ///< tooltip
    };
    struct Part {
        std::string name;
        char letter = ' '; ///< the same letter, the same shade
        double begin = 0, end = 0;
    };
    std::string title, x_label;
    std::vector<std::string> subtitles; ///< lines
    std::vector<std::string> kinds;     ///< at most arena_colours; the legend has those that are drawn
    std::vector<Rectangle> rectangles;
    std::vector<Part> parts; ///< of the time axis, without gaps
    double length = 1;       ///< of the time axis
    std::int64_t arena = 1;  ///< bytes
    double peak = 0;         ///< time
    std::string peak_label;
    std::size_t most = 6000;        ///< rectangles to draw
    int width = 1200, height = 720; ///< pixels
};

inline constexpr int arena_colours = 12;

/// One svg element, with colours for light and dark pages. Rectangles of one kind that touch and last equally
/// long are drawn as one. Leaves out the smallest, beyond `most` and below a third of a pixel, and states
/// their number in the picture.
std::string arena_svg(const ArenaChart& chart);

} // namespace trivium
