#include "io/report/layer_map.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "io/report/heat_palette.hpp"
#include "io/report/markup.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace trivium {

namespace {

constexpr std::size_t most_columns = 300;

} // namespace

std::string layer_map(const RunFiles& run)
{
    std::vector<std::string> parts;
    std::map<std::string, std::size_t> rows;
    std::vector<i64> steps;
    for (const LayerNorms& norms : run.layers) {
        if (rows.try_emplace(norms.part, parts.size()).second)
            parts.push_back(norms.part);
        steps.push_back(norms.step);
    }
    std::ranges::sort(steps);
    steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
    if (steps.empty())
        return "";
    std::vector<i64> shown; // at equal distances
    const std::size_t columns = std::min(steps.size(), most_columns);
    for (std::size_t i = 0; i < columns; ++i)
        shown.push_back(steps[columns == 1 ? 0 : i * (steps.size() - 1) / (columns - 1)]);

    static constexpr const char* titles[] = {"Gradients", "Weights", "Updates"};
    std::string text =
        str("<h2>Norms of layers</h2>\n<p class=\"faint\">Logarithms, from the least (blue) to the "
            "greatest (yellow); grey is 0 or not finite. A column is a step, from ",
            format_count(shown.front()), " to ", format_count(shown.back()), ". The rows, from the top: ");
    for (std::size_t i = 0; i < parts.size(); ++i)
        text += (i > 0 ? ", " : "") + markup_text(parts[i]);
    text += ".</p>\n<div class=\"samples\" id=\"layer-norms\">\n";
    for (std::size_t key = 0; key < layer_norm_keys.size(); ++key) {
        double low = std::numeric_limits<double>::infinity(), high = 0;
        for (const LayerNorms& norms : run.layers)
            if (const double x = norms.norms[key]; std::isfinite(x) && x > 0) {
                low = std::min(low, x);
                high = std::max(high, x);
            }
        std::vector<std::uint8_t> pixels(parts.size() * columns, 0);
        for (const LayerNorms& norms : run.layers) {
            const auto column = std::ranges::lower_bound(shown, norms.step);
            const double x = norms.norms[key];
            if (column == shown.end() || *column != norms.step || !std::isfinite(x) || x <= 0)
                continue;
            const double place = high > low ? std::log(x / low) / std::log(high / low) : 0.5;
            pixels[rows.at(norms.part) * columns + static_cast<std::size_t>(column - shown.begin())] =
                static_cast<std::uint8_t>(1 + std::lround(254 * std::clamp(place, 0.0, 1.0)));
        }
        const std::string values =
            high > 0 ? str(short_number(low), " to ", short_number(high)) : "no number above 0";
        text += str("<figure><img alt=\"", titles[key], ": ", values, "\" src=\"",
                    png_uri(png_of(static_cast<int>(columns), pixels, heat_palette())), "\"/><figcaption>",
                    titles[key], "<br/><span class=\"note\">", values, "</span></figcaption></figure>\n");
    }
    return text + "</div>\n";
}

} // namespace trivium
