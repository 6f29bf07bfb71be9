#pragma once
// Reads pictures.
#include <string>
#include <vector>

struct Rectangle {
    double x, y, width, height;
    std::string classes, hint;
};

/// Throws unless `text` is one well-formed element; returns the rectangles whose first class is `wanted`,
/// with their tooltips.
std::vector<Rectangle> rectangles_of_svg(const std::string& text, const std::string& wanted);
