#pragma once
// Runs the prefill and decode programs around one KV cache.
#include "compile/compile.hpp"
#include "runtime/executor.hpp"

#include <span>

namespace trivium {

/// One sequence (batch 1) with its cache.
class Generator {
public:
    /// \pre the arena holds the parameters
    Generator(const Compiled& compiled, Arena& arena, const ExecutorConfig& config);

    /// Forgets the sequence.
    void reset() { length_ = 0; }
    /// Appends tokens and returns the logits of the one that follows, valid until the next call.
    /// \pre not empty; length() + size <= capacity()
    std::span<const float> append(std::span<const std::int32_t> tokens);

    i64 length() const { return length_; }
    i64 capacity() const { return capacity_; }
    /// Bytes of the arena that were used.
    Bytes used() const { return std::max(prefill_.used(), decode_.used()); }

private:
    void run(Executor& executor, const Program& program, std::span<const std::int32_t> tokens);

    const Compiled& compiled_;
    Executor prefill_, decode_;
    i64 chunk_ = 0, capacity_ = 0, length_ = 0;
    i64 positions_ = 0; ///< that the model knows
    std::vector<float> logits_;
};

} // namespace trivium
