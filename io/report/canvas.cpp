#include "io/report/canvas.hpp"

#include "base/check.hpp"
#include "io/report/markup.hpp"

#include <cstdio>

namespace trivium {

std::string fixed(double value, int digits)
{
    char text[32];
    std::snprintf(text, sizeof text, "%.*f", digits, value);
    return text;
}

void Canvas::line(const char* classes, double x1, double y1, double x2, double y2)
{
    add(str("<line class=\"", classes, "\" x1=\"", fixed(x1), "\" y1=\"", fixed(y1), "\" x2=\"", fixed(x2),
            "\" y2=\"", fixed(y2), "\"/>"));
}

void Canvas::text(const char* classes, double x, double y, const std::string& content, const char* anchor,
                  const std::string& attributes)
{
    add(str("<text class=\"", classes, "\" x=\"", fixed(x), "\" y=\"", fixed(y), "\" text-anchor=\"", anchor,
            "\"", attributes, ">", markup_text(content), "</text>"));
}

void Canvas::heading(double x, const std::string& title, const std::vector<std::string>& subtitles)
{
    text("title", x, 24, title);
    for (std::size_t i = 0; i < subtitles.size(); ++i)
        text("tick", x, 41 + subtitle_height * static_cast<double>(i), subtitles[i]);
}

std::string Canvas::svg(const std::string& title, const std::string& rules,
                        const std::function<std::string(const ChartPalette&)>& themed) const
{
    const auto colours = [&](const ChartPalette& p) {
        return str(".ground{fill:", p.ground, "}.grid{stroke:", p.grid, "}.axis{stroke:", p.axis,
                   "}.tick{fill:", p.faint, "}.label{fill:", p.faint, "}.title{fill:", p.text, "}",
                   themed(p));
    };
    return str("<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"picture\" role=\"img\" aria-label=\"",
               markup_text(title), "\" width=\"", width_, "\" height=\"", height_, "\" viewBox=\"0 0 ",
               width_, " ", height_, "\">\n<style>",
               ".picture{font-family:system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif}"
               ".tick{font-size:12px}.label{font-size:13px}.title{font-size:15px;font-weight:600}",
               rules, colours(light_palette()), "@media(prefers-color-scheme:dark){", colours(dark_palette()),
               "}</style>\n<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n", body_, "</svg>\n");
}

} // namespace trivium
