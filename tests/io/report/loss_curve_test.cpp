#include "base/check.hpp"
#include "catch.hpp"
#include "io/metrics_lines.hpp"
#include "io/report/loss_curve.hpp"

#include <cmath>
#include <functional>

using namespace trivium;

namespace {

NamedMetrics run(const std::string& name, int steps, double end)
{
    std::string lines;
    for (int step = 1; step <= steps; ++step) {
        const double falling = (5.5 - end) * std::exp(-step / (0.2 * steps));
        lines += str("{\"step\":", step,
                     ",\"loss\":", step == 7 ? "null" : str(end + falling + 0.1 * std::sin(step * 12.9898)));
        if (step % (steps / 5) == 0)
            lines += str(",\"valid_loss\":", end + 0.1 + falling);
        if (step == steps / 2)
            lines += str(",\"restarted_at\":", step - 1);
        lines += "}\n";
    }
    return {name, table_of(lines)};
}

int count(const std::string& text, const std::string& part)
{
    int found = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
        ++found;
    return found;
}

} // namespace

TEST_CASE("a loss curve is a self-contained SVG with a line, points and marks for each series")
{
    const std::vector<NamedMetrics> runs{run("tensor = 2 <&>", 500, 2.0), run("one rank", 5000, 1.4)};
    const std::string svg = loss_curve_svg(runs, {.title = "Two runs"});
    CHECK(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
    CHECK(svg.ends_with("</svg>\n"));
    CHECK(count(svg, "<path class=\"raw c") == 2);
    CHECK(count(svg, "<path class=\"line c") == 2);
    CHECK(count(svg, "<circle class=\"dot c") == 10 + 1); // one in the legend
    CHECK(count(svg, "<line class=\"restart") == 2 + 1);
    CHECK(has(svg, "tensor = 2 &lt;&amp;&gt;"));
    CHECK(has(svg, "Two runs"));
    CHECK_FALSE(has(svg, "nan"));
    CHECK_FALSE(has(svg, "inf"));
    CHECK(svg.size() < 250'000); // long series are thinned
    CHECK(count(svg, "<text") == count(svg, "</text>"));
    if (const char* const keep = std::getenv("TRIVIUM_KEEP_SVG"))
        put(keep, svg);
}

TEST_CASE("every change of ranks is named, without overlaps; a fresh run has no restart")
{
    const auto lines = [](int steps, const std::function<int(int)>& ranks) {
        std::string text;
        for (int step = 1; step <= steps; ++step)
            text += str("{\"step\":", step, ",\"loss\":", 5.0 / step, ",\"ranks\":", ranks(step),
                        step > 1 && ranks(step) != ranks(step - 1) ? str(",\"restarted_at\":", step - 1) : "",
                        "}\n");
        return text;
    };
    const auto curve = [](const std::string& text) {
        return loss_curve_svg(std::vector{NamedMetrics{"s", table_of(text)}});
    };
    const std::string fresh = curve(lines(50, [](int) { return 8; }));
    CHECK_FALSE(has(fresh, "restart\""));
    CHECK_FALSE(has(fresh, ">restart<"));
    CHECK_FALSE(has(fresh, "8 ranks"));
    // Close together in the middle, and at the end.
    const auto many = [](int step) {
        return step <= 500 ? 100 : step <= 510 ? 100 + step - 500 : step < 998 ? 111 : 1000 + step;
    };
    const std::string svg = curve(lines(1000, many));
    struct Label {
        double x, y, width;
    };
    std::vector<Label> labels;
    const std::string begin = "<text class=\"tick mark\" x=\"";
    for (std::size_t at = svg.find(begin); at != std::string::npos; at = svg.find(begin, at + 1)) {
        const std::size_t y = svg.find(" y=\"", at) + 4, text = svg.find('>', at) + 1;
        labels.push_back({std::stod(svg.substr(at + begin.size())), std::stod(svg.substr(y)),
                          6 * static_cast<double>(svg.find('<', text) - text)});
    }
    CHECK(labels.size() == 1 + 11 + 3);
    for (int ranks = 100; ranks <= 111; ++ranks)
        CHECK(count(svg, str(">", ranks, " ranks<")) == 1);
    for (int ranks = 1998; ranks <= 2000; ++ranks)
        CHECK(count(svg, str(">", ranks, " ranks<")) == 1);
    for (std::size_t i = 0; i < labels.size(); ++i) {
        CHECK(labels[i].x + labels[i].width < 900);
        for (std::size_t j = 0; j < i; ++j)
            CHECK((std::abs(labels[i].y - labels[j].y) > 11 || labels[i].x > labels[j].x + labels[j].width ||
                   labels[j].x > labels[i].x + labels[i].width));
    }
    if (const char* const keep = std::getenv("TRIVIUM_KEEP_SVG"))
        put(std::string(keep) + ".ranks.svg", svg);
}

TEST_CASE("the points of a line are at their values")
{
    std::string lines; // values from 0 to 10, so the axes are 0 to 10 too
    for (int step = 0; step <= 10; ++step)
        lines += str("{\"step\":", step, ",\"loss\":", step, "}\n");
    const std::string svg = loss_curve_svg(std::vector{NamedMetrics{"s", table_of(lines)}},
                                           {.smoothing = 0, .width = 164 + 20, .height = 192});
    CHECK(has(svg, "d=\"M64.0,144.0L74.0,134.0"));
    CHECK(has(svg, "L164.0,44.0\""));
}

TEST_CASE("unusual series are drawn, empty ones are refused")
{
    CHECK(says(message_of<UserError>([] { loss_curve_svg({}); }), "nothing to draw"));
    const auto curve = [](const std::string& lines, const LossCurveOptions& options = {}) {
        return loss_curve_svg(std::vector{NamedMetrics{"s", table_of(lines)}}, options);
    };
    const std::string point = "{\"step\":3,\"loss\":2.5}\n", constant = point + "{\"step\":4,\"loss\":2.5}\n";
    for (const char* lines : {"", "{\"step\":3,\"loss\":null}\n", "{\"step\":3}\n"})
        CHECK(says(message_of<UserError>([&] { curve(lines); }), "nothing to draw"));
    CHECK(count(curve(point), "<path class=\"line c0\"") == 1);
    CHECK_FALSE(has(curve(point), "nan"));
    CHECK_FALSE(has(curve(constant), "nan"));
    CHECK(says(message_of<UserError>([&] { curve(constant, {.x = "tokens"}); }), "'tokens'"));
}
