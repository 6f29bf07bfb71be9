#pragma once
// Loss curves of runs as one self-contained SVG file.
#include "io/metrics/metrics_export.hpp"

#include <span>
#include <string>

namespace trivium {

struct LossCurveOptions {
    std::string title = "Training loss";
    std::string x = "step";        ///< "step", or a metric: "tokens"
    std::string y = "loss";        ///< the metric drawn as a line; `valid_` + y gives the points
    double smoothing = 0.02;       ///< width of the moving average, as a part of the steps; 0 = none
    int width = 900, height = 500; ///< pixels
};

/// Raw values faint, their centred moving average as a line, validation as points, restarts as vertical marks
/// with the number of ranks from there on, where it is known. UserError where no run has a finite value.
std::string loss_curve_svg(std::span<const NamedMetrics> runs, const LossCurveOptions& options = {});

} // namespace trivium
