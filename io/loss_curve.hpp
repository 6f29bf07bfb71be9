#pragma once
// Loss curves as one self-contained SVG file.
#include "io/metrics.hpp"

#include <span>
#include <string>
#include <vector>

namespace trivium {

struct LossSeries {
    std::string name; ///< for the legend
    std::vector<MetricsRecord> records;
};

struct LossCurveOptions {
    std::string title = "Training loss";
    std::string x = "step";    ///< "step", or a metric: "tokens"
    std::string y = "loss";    ///< the metric drawn as a line; `valid_` + y gives the points
    double smoothing = 0.02;   ///< width of the moving average, as a part of the steps; 0 = none
    int width = 900, height = 500; ///< pixels
};

/// Raw values faint, their centred moving average as a line, validation as points, restarts as vertical marks with the number of
/// ranks from there on, where it is known.
/// UserError where no series has a finite value.
std::string loss_curve_svg(std::span<const LossSeries> series, const LossCurveOptions& options = {});

} // namespace trivium
