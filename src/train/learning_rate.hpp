#pragma once
#include "config/run_config.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace trivium {

/// The last step before the decay of schedule "wsd".
inline i64 decay_begin(const TrainConfig& config)
{
    const i64 steps = config.decay_steps > 0 ? config.decay_steps : (config.steps + 9) / 10;
    return std::max(config.warmup, config.steps - steps);
}

/// What is left of the way from train.lr to train.min_lr when a part `done` of a decay is over.
inline double left_of_decay(DecayShape shape, double done)
{
    return shape == DecayShape::linear   ? 1 - done
           : shape == DecayShape::cosine ? 0.5 * (1 + std::cos(std::numbers::pi * done))
                                         : 1 - std::sqrt(done);
}

/// Learning rate of step `step` (counted from 1): linear warm-up, then train.schedule. Cosine: I. Loshchilov
/// and F. Hutter, "SGDR", arXiv:1608.03983, section 3, without restarts. Warmup-stable-decay: S. Hu et al.,
/// "MiniCPM", arXiv:2404.06395, section 4; 1 - sqrt: A. Hägele et al., arXiv:2405.18392. Inverse square root:
/// A. Vaswani et al., arXiv:1706.03762, section 5.3.
inline double learning_rate(const TrainConfig& config, i64 step)
{
    if (step <= config.warmup)
        return config.lr * static_cast<double>(step) / static_cast<double>(config.warmup);
    const auto decayed = [&](DecayShape shape, i64 begin) {
        const double span = static_cast<double>(std::max<i64>(1, config.steps - begin));
        const double done = std::clamp(static_cast<double>(step - begin) / span, 0.0, 1.0);
        return config.min_lr + (config.lr - config.min_lr) * left_of_decay(shape, done);
    };
    switch (config.schedule) {
    case RateSchedule::constant: break;
    case RateSchedule::linear: return decayed(DecayShape::linear, config.warmup);
    case RateSchedule::cosine: return decayed(DecayShape::cosine, config.warmup);
    case RateSchedule::wsd: return decayed(config.decay_shape, decay_begin(config));
    case RateSchedule::inverse_sqrt:
        return std::max(config.min_lr,
                        config.lr * std::sqrt(static_cast<double>(std::max<i64>(1, config.warmup)) /
                                              static_cast<double>(step)));
    }
    return config.lr;
}

} // namespace trivium
