#include "io/report/canvas.hpp"

#include "base/check.hpp"
#include "io/report/markup.hpp"

namespace trivium {

// The lines are distinguishable for colour-blind readers (Okabe and Ito, 2008).
const ChartPalette light_palette{
    "#ffffff",
    "#e6e8eb",
    "#6b7280",
    "#1f2937",
    "#565e6b",
    "#b91c1c",
    {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#444444"}};
const ChartPalette dark_palette{
    "#1b1f24",
    "#2f353d",
    "#8b949e",
    "#e6e9ed",
    "#a3abb5",
    "#ff7b72",
    {"#58b0ea", "#ff9248", "#37c99b", "#e7a3cb", "#f2c14e", "#a5d8f7", "#c3c8ce"}};

void Canvas::add(const char* element, const std::string& classes, std::initializer_list<Attribute> attributes,
                 const std::string& hint)
{
    body_ += str("<", element, " class=\"", classes, "\"");
    for (const Attribute& a : attributes)
        body_ += str(" ", a.name, "=\"", a.value.text, "\"");
    body_ += hint.empty() ? "/>\n" : str("><title>", markup_text(hint), "</title></", element, ">\n");
}

void Canvas::text(const char* classes, double x, double y, const std::string& content, const char* anchor,
                  const std::string& attributes)
{
    body_ += str("<text class=\"", classes, "\" x=\"", fixed(x), "\" y=\"", fixed(y), "\" text-anchor=\"",
                 anchor, "\"", attributes, ">", markup_text(content), "</text>\n");
}

void Canvas::upright_label(int x, double y, const std::string& content)
{
    text("label", x, y, content, "middle", str(" transform=\"rotate(-90 ", x, " ", fixed(y), ")\""));
}

void Canvas::heading(double x, const std::string& title, const std::vector<std::string>& subtitles)
{
    text("title", x, 24, title);
    for (std::size_t i = 0; i < subtitles.size(); ++i)
        text("tick", x, 41 + subtitle_height * static_cast<double>(i), subtitles[i]);
}

std::string Canvas::svg(const char* classes, const std::string& title, const std::string& style) const
{
    return str("<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"", classes, "\" role=\"img\" aria-label=\"",
               markup_text(title), "\" width=\"", width_, "\" height=\"", height_, "\" viewBox=\"0 0 ",
               width_, " ", height_, "\">\n", style.empty() ? "" : "<style>" + style + "</style>\n",
               "<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n", body_, "</svg>\n");
}

std::string picture_style(const std::string& rules, std::string (*themed)(const ChartPalette&))
{
    const auto colours = [&](const ChartPalette& p) {
        return str(".ground{fill:", p.ground, "}.grid{stroke:", p.grid, "}.axis{stroke:", p.axis,
                   "}.tick{fill:", p.faint, "}.label{fill:", p.faint, "}.title{fill:", p.text, "}",
                   themed(p));
    };
    return str(".picture{font-family:system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif}"
               ".tick{font-size:12px}.label{font-size:13px}.title{font-size:15px;font-weight:600}",
               rules, colours(light_palette), "@media(prefers-color-scheme:dark){", colours(dark_palette),
               "}");
}

} // namespace trivium
