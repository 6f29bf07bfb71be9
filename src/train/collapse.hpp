#pragma once
// Detects a run that can no longer learn, for example after a learning rate that was far too high.
#include <cmath>

namespace trivium {

/// Watches the loss and the gradient norm of each step.
class CollapseWatch {
public:
    static constexpr int steps_until_reported = 5;

    /// Returns true once: when, for steps_until_reported steps in a row, the gradient vanished although the
    /// loss did not, or one of the two was not finite.
    bool collapses(double loss, double norm)
    {
        const double vanished = 1e-6,
                     learned = 0.01; // gradients also vanish if a model has memorised its data
        const bool dead = !std::isfinite(loss) || !std::isfinite(norm) || (norm < vanished && loss > learned);
        in_row_ = dead ? in_row_ + 1 : 0;
        return in_row_ == steps_until_reported && !reported_ && (reported_ = true);
    }

private:
    int in_row_ = 0;
    bool reported_ = false;
};

} // namespace trivium
