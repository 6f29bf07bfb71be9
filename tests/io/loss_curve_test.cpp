#include "base/check.hpp"
#include "catch.hpp"
#include "io/loss_curve.hpp"
#include "io/temporary_folder.hpp"

#include <algorithm>
#include <cmath>

using namespace trivium;

namespace {

LossSeries series(const std::string& name, int steps, double end)
{
    LossSeries s{name, {}};
    for (int step = 1; step <= steps; ++step) {
        MetricsRecord record;
        record.step = step;
        record.set("loss", step == 7 ? NAN : end + (5.5 - end) * std::exp(-step / (0.2 * steps)) + 0.1 * std::sin(step * 12.9898));
        if (step % (steps / 5) == 0)
            record.set("valid_loss", end + 0.1 + (5.5 - end) * std::exp(-step / (0.2 * steps)));
        if (step == steps / 2)
            record.set("restarted_at", step - 1);
        s.records.push_back(record);
    }
    return s;
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
    const std::vector<LossSeries> runs{series("tensor = 2 <&>", 500, 2.0), series("one rank", 5000, 1.4)};
    const std::string svg = loss_curve_svg(runs, {.title = "Two runs"});
    CHECK(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
    CHECK(svg.ends_with("</svg>\n"));
    CHECK(count(svg, "<path class=\"raw\"") == 2);
    CHECK(count(svg, "<path class=\"line\"") == 2);
    CHECK(count(svg, "<circle class=\"valid\"") == 10 + 1); // and one in the legend
    CHECK(count(svg, "<line class=\"restart\"") == 2 + 1);
    CHECK(has(svg, "tensor = 2 &lt;&amp;&gt;"));
    CHECK(has(svg, "Two runs"));
    CHECK_FALSE(has(svg, "nan"));
    CHECK_FALSE(has(svg, "inf"));
    CHECK(svg.size() < 250'000); // long series are thinned
    CHECK(count(svg, "<text") == count(svg, "</text>"));
    if (const char* const keep = std::getenv("TRIVIUM_KEEP_SVG"))
        put(keep, svg);
}

TEST_CASE("a line goes where the values are")
{
    LossSeries s{"s", {}};
    for (int step = 0; step <= 10; ++step) {
        MetricsRecord record;
        record.step = step;
        record.set("loss", step); // from 0 to 10: the axes are 0 to 10 too
        s.records.push_back(record);
    }
    const std::string svg = loss_curve_svg(std::vector{s}, {.smoothing = 0, .width = 164 + 20, .height = 192});
    CHECK(has(svg, "d=\"M64.00,144.00L74.00,134.00"));
    CHECK(has(svg, "L164.00,44.00\""));
}

TEST_CASE("odd series draw, empty ones are refused")
{
    CHECK(says(message_of<UserError>([] { loss_curve_svg({}); }), "nothing to draw"));
    LossSeries s{"s", {}};
    CHECK(says(message_of<UserError>([&] { loss_curve_svg(std::vector{s}); }), "nothing to draw"));
    MetricsRecord record;
    record.step = 3;
    record.set("loss", NAN);
    s.records = {record};
    CHECK(says(message_of<UserError>([&] { loss_curve_svg(std::vector{s}); }), "nothing to draw"));
    record.set("loss", 2.5); // a single point
    s.records = {record};
    CHECK_FALSE(has(loss_curve_svg(std::vector{s}), "nan"));
    record.step = 4;
    s.records.push_back(record); // a constant
    CHECK_FALSE(has(loss_curve_svg(std::vector{s}), "nan"));
    CHECK(says(message_of<UserError>([&] { loss_curve_svg(std::vector{s}, {.x = "tokens"}); }), "'tokens'"));
}
