#pragma once
// Elements of an SVG picture.
#include "base/units.hpp"

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace trivium {

/// CSS colours.
struct ChartPalette {
    const char *ground, *grid, *axis, *text, *faint, *warning;
    const char* lines[7];
};
extern const ChartPalette light_palette, dark_palette;

class Canvas {
public:
    static constexpr double subtitle_height = 16;
    static constexpr const char* centred = " dy=\"0.35em\""; ///< attribute of a text whose middle is at y

    /// A length has one decimal, unless it is given as text.
    struct Value {
        Value(int number) : text(std::to_string(number)) {}
        Value(double length) : text(fixed(length)) {}
        Value(std::string value) : text(std::move(value)) {}
        std::string text;
    };
    struct Attribute {
        const char* name;
        Value value;
    };

    Canvas(int width, int height) : width_(width), height_(height) {}

    /// `hint`: tooltip, unless empty.
    void add(const char* element, const std::string& classes, std::initializer_list<Attribute> attributes,
             const std::string& hint = "");
    void line(const std::string& classes, double x1, double y1, double x2, double y2,
              const std::string& hint = "")
    {
        add("line", classes, {{"x1", x1}, {"y1", y1}, {"x2", x2}, {"y2", y2}}, hint);
    }
    void rect(const std::string& classes, const Value& x, const Value& y, const Value& width,
              const Value& height, const std::string& hint = "")
    {
        add("rect", classes, {{"x", x}, {"y", y}, {"width", width}, {"height", height}}, hint);
    }
    /// A small square of a legend.
    void swatch(const std::string& classes, double x, double y)
    {
        add("rect", classes, {{"x", x}, {"y", y}, {"width", 14}, {"height", 14}, {"rx", 2}});
    }
    /// `attributes`: further attributes of the element, each after a blank.
    void text(const char* classes, double x, double y, const std::string& content,
              const char* anchor = "start", const std::string& attributes = "");
    /// The label of a vertical axis; (x, y) is its middle.
    void upright_label(int x, double y, const std::string& content);

    /// The title, and lines below it.
    void heading(double x, const std::string& title, const std::vector<std::string>& subtitles);

    /// One svg element. `style`: CSS inside it, unless empty.
    std::string svg(const char* classes, const std::string& title, const std::string& style) const;

private:
    int width_, height_; ///< pixels
    std::string body_;
};

/// CSS of an svg element of class "picture". `rules`: those of the picture; `themed`: those that depend on
/// the palette.
std::string picture_style(const std::string& rules, std::string (*themed)(const ChartPalette&));

} // namespace trivium
