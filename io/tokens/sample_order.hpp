#pragma once
// Maps sample i of the run to a window of the data: a function of (i, seed) alone, so that a restart or
// another grid trains on the same samples.
#include "base/units.hpp"

namespace trivium {

/// Number of windows of seq + 1 tokens (inputs and targets) in `tokens` tokens: window w is tokens
/// [w * seq, w * seq + seq + 1). 0 if none fits.
constexpr i64 window_count(i64 tokens, i64 seq) { return tokens > seq ? (tokens - 1) / seq : 0; }

/// Each epoch visits every window once, in its own random order: a Feistel permutation (Luby and Rackoff,
/// 1988) with cycle walking (Black and Rogaway, 2002).
class SampleOrder {
public:
    /// \pre samples > 0
    SampleOrder(i64 samples, u64 seed);

    /// The window of the run's sample `index`; the epoch is index / samples. \pre index >= 0
    i64 at(i64 index) const;

private:
    i64 samples_;
    u64 seed_;
    int half_bits_;
};

} // namespace trivium
