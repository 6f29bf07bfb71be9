#pragma once
// Elements of an SVG picture with axes, a title and rectangles.
#include "io/report/chart.hpp"

#include <functional>

namespace trivium {

/// `value` with `digits` decimals.
std::string fixed(double value, int digits = 1);

class Canvas {
public:
    static constexpr double subtitle_height = 16;

    Canvas(int width, int height) : width_(width), height_(height) {}

    void add(const std::string& element) { body_ += element + "\n"; }
    void line(const char* classes, double x1, double y1, double x2, double y2);
    /// `attributes`: further attributes of the element, each after a blank.
    void text(const char* classes, double x, double y, const std::string& content,
              const char* anchor = "start", const std::string& attributes = "");

    /// The title, and lines below it.
    void heading(double x, const std::string& title, const std::vector<std::string>& subtitles);

    /// One svg element. `rules`: CSS of the picture; `themed`: the CSS that depends on the palette.
    std::string svg(const std::string& title, const std::string& rules,
                    const std::function<std::string(const ChartPalette&)>& themed) const;

private:
    int width_, height_; ///< pixels
    std::string body_;
};

} // namespace trivium
