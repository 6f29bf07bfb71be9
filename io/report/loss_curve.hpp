#pragma once
// Loss curves of runs as one self-contained SVG file.
#include "io/metrics/metrics_export.hpp"

#include <span>
#include <string>
#include <vector>

namespace trivium {

struct LossCurveOptions {
    std::string title = "Training loss";
    std::vector<std::string> subtitles{}; ///< lines below the title
    std::string x = "step";               ///< "step", or a metric such as "tokens"
    std::string y = "loss";               ///< metric of the line; the points show `valid_` + y
    double smoothing = 0.02;       ///< width of the moving average, as a fraction of the steps; 0 = none
    int width = 900, height = 500; ///< pixels
};

/// Faint raw values, their centred moving average as a line, validation as points, and restarts as vertical
/// marks, with the number of ranks where it changes. UserError if no run has a finite value.
std::string loss_curve_svg(std::span<const NamedMetrics> runs, const LossCurveOptions& options = {});

} // namespace trivium
