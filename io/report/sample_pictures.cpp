#include "io/report/sample_pictures.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "io/report/heat_palette.hpp"
#include "io/report/markup.hpp"
#include "io/report/png.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace trivium {

namespace {

/// Of the finite values; low > high: there are none.
struct Range {
    double low = std::numeric_limits<double>::infinity(), high = -low;
};

Range range_of(const std::vector<float>& values)
{
    Range range;
    for (const float value : values)
        if (std::isfinite(value))
            range = {std::min<double>(range.low, value), std::max<double>(range.high, value)};
    return range;
}

/// From 0 to 1 where `value` is in the range; NaN stays NaN.
double place_in(const Range& range, double value)
{
    return std::isnan(value)         ? value
           : range.high <= range.low ? 0.5
                                     : std::clamp((value - range.low) / (range.high - range.low), 0.0, 1.0);
}

std::string picture(const ShownSample& shown, const Range& range, const std::string& label)
{
    std::vector<std::uint8_t> pixels;
    for (const float value : shown.values)
        pixels.push_back(std::isfinite(value)
                             ? static_cast<std::uint8_t>(1 + std::lround(254 * place_in(range, value)))
                             : 0);
    return str("<img alt=\"", label, "\" src=\"",
               png_uri(png_of(static_cast<int>(shown.shape[1]), pixels, heat_palette())), "\"/>");
}

/// A line, interrupted where values are not finite.
std::string curve(const ShownSample& shown, const Range& range, const std::string& label)
{
    std::string path;
    bool drawn = false;
    for (std::size_t i = 0; i < shown.values.size(); ++i) {
        const double value = shown.values[i];
        if (std::isfinite(value))
            path += str(drawn ? "L" : "M",
                        fixed(200.0 * static_cast<double>(i) /
                                  static_cast<double>(std::max<std::size_t>(1, shown.values.size() - 1)),
                              1),
                        ",", fixed(98 - 96 * place_in(range, value), 1));
        drawn = std::isfinite(value);
    }
    return str("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 200 100\" role=\"img\" aria-label=\"",
               label, "\"><path fill=\"none\" stroke=\"currentColor\" d=\"", path, "\"/></svg>");
}

std::string figure(const RunFiles& run, const ShownSample& shown)
{
    const Range own = range_of(shown.values);
    Range range = own;
    for (const ShownSample& other : run.samples)
        if (!shown.scale.empty() && other.step < 0 && other.name == shown.scale &&
            other.sample == shown.sample)
            range = range_of(other.values);
    std::string title = shown.name;
    if (shown.step >= 0)
        title += str(", step ", format_count(shown.step));
    const std::string values =
        own.high < own.low ? "no finite value" : str(short_number(own.low), " to ", short_number(own.high));
    const std::string label = markup_text(str(title, " of sample ", shown.sample, ": ", values));
    return str("<figure>",
               shown.shape.size() == 2 ? picture(shown, range, label) : curve(shown, range, label),
               "<figcaption>", markup_text(title), "<br/><span class=\"note\">", values,
               "</span></figcaption></figure>\n");
}

} // namespace

std::string sample_pictures(const RunFiles& run)
{
    std::set<i64> samples, steps;
    for (const ShownSample& shown : run.samples) {
        samples.insert(shown.sample);
        if (shown.step >= 0)
            steps.insert(shown.step);
    }
    if (samples.empty())
        return "";
    const MetricsValues losses = run.metrics.values("valid_loss");
    std::string losses_text;
    for (const i64 step : steps)
        for (std::size_t i = 0; i < run.metrics.size(); ++i)
            if (run.metrics.steps[i] == step && std::isfinite(losses[i]))
                losses_text += str(losses_text.empty() ? "Validation loss: " : ", ", fixed(losses[i], 4),
                                   " at step ", format_count(step));
    std::string text =
        str("<h2>Samples of the validation data</h2>\n<p class=\"faint\">Slices, from the least value (blue) "
            "to the greatest (yellow). An output has the colours of the input of its shape. ",
            losses_text, losses_text.empty() ? "" : ".", "</p>\n");
    for (const i64 sample : samples) {
        text += str("<div class=\"samples\" id=\"sample-", sample, "\">\n");
        for (const ShownSample& shown : run.samples)
            if (shown.sample == sample && shown.step < 0)
                text += figure(run, shown);
        for (const i64 step : steps)
            for (const ShownSample& shown : run.samples)
                if (shown.sample == sample && shown.step == step)
                    text += figure(run, shown);
        text += "</div>\n";
    }
    return text;
}

} // namespace trivium
