#pragma once
// Splits text into pre-tokens by a regular expression, as the pre-tokenizers of tokenizer.json do.
#include "base/units.hpp"

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace trivium {

/// What to do with a match: make it a separate pre-token, drop it, join it to the text before or after it, or
/// join adjacent matches.
enum class SplitBehavior { isolated, removed, merged_with_previous, merged_with_next, contiguous };

struct SplitRule {
    std::string pattern;  ///< in Oniguruma's own syntax (its doc/RE)
    bool literal = false; ///< the pattern is plain text
    SplitBehavior behavior = SplitBehavior::isolated;
    bool invert = false; ///< swaps matches with the text between them
};

/// The number of retries left to the matcher. On a deep stack a retry counts several times. The limit stops
/// catastrophic backtracking, but not patterns that are slow without it (nested lookaheads on a long text).
struct MatchEffort {
    u64 left = 0;
    /// More than the pattern of any known model needs for this much text.
    static MatchEffort for_text(std::size_t bytes) { return {(u64{1} << 22) + u64{64} * bytes}; }
};

/// Not thread-safe.
class TextSplit {
public:
    /// UserError about `place` if Oniguruma does not accept the pattern.
    TextSplit(const SplitRule& rule, const std::string& place);
    TextSplit(TextSplit&&) noexcept;
    ~TextSplit();

    using Emit = std::function<void(std::string_view)>;
    /// Calls `emit` with the pre-tokens of `text`, none of them empty, in order; they are views into `text`.
    /// Subtracts the retries from `effort`. UserError if the pattern needs more than `effort` has left. \pre
    /// `text` is valid UTF-8
    void split(std::string_view text, MatchEffort& effort, const Emit& emit) const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace trivium
