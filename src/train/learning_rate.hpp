#pragma once
#include "config/run_config.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trivium {

/// Learning rate of step `step` (counted from 1): linear warm-up, then cosine decay to min_lr (I. Loshchilov
/// and F. Hutter, "SGDR", arXiv:1608.03983, section 3, without restarts).
inline double learning_rate(const TrainConfig& config, i64 step)
{
    if (step <= config.warmup)
        return config.lr * static_cast<double>(step) / static_cast<double>(config.warmup);
    const double span = static_cast<double>(std::max<i64>(1, config.steps - config.warmup));
    const double done = std::min(1.0, static_cast<double>(step - config.warmup) / span);
    return config.min_lr + 0.5 * (config.lr - config.min_lr) * (1 + std::cos(std::numbers::pi * done));
}

} // namespace trivium
