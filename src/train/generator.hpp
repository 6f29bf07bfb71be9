#pragma once
// Runs the prefill and decode programs around one KV cache.
#include "train/engine.hpp"

#include <span>

namespace trivium {

/// Generates one sequence (batch 1), with its KV cache.
class Generator {
public:
    /// Uses the programs `prefill` and `decode`. \pre the engine's arena contains the parameters
    explicit Generator(Engine& engine);

    /// Starts a new sequence with an empty cache.
    void reset() { length_ = 0; }
    /// Appends tokens and returns the logits of the next token, valid until the next call. \pre tokens is not
    /// empty; length() + tokens.size() <= capacity()
    std::span<const float> append(std::span<const std::int32_t> tokens);

    i64 length() const { return length_; }
    i64 capacity() const { return capacity_; }

private:
    void run(std::size_t program, std::span<const std::int32_t> tokens);

    Engine& engine_;
    i64 chunk_ = 0, capacity_ = 0, length_ = 0;
    i64 positions_ = 0; ///< maximum number of positions of the model
    std::vector<float> logits_;
};

} // namespace trivium
