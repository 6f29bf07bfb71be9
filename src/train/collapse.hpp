#pragma once
// A run whose parameters have become such that no step changes them for the better: after a learning rate far
// too high, say.
#include <cmath>

namespace trivium {

/// Watches the loss and the gradient norm of each step.
class CollapseWatch {
public:
    static constexpr int steps_until_told = 5;

    /// True once: when for so many steps in a row gradients have vanished, though there is a loss, or were
    /// not finite.
    bool collapses(double loss, double norm)
    {
        const double vanished = 1e-6,
                     learned = 0.01; // of a model that knows its data by heart gradients vanish too
        const bool dead = !std::isfinite(loss) || !std::isfinite(norm) || (norm < vanished && loss > learned);
        in_row_ = dead ? in_row_ + 1 : 0;
        return in_row_ == steps_until_told && !told_ && (told_ = true);
    }

private:
    int in_row_ = 0;
    bool told_ = false;
};

} // namespace trivium
