#pragma once
// Text cut into pieces by a regular expression, as the pre-tokenizers of tokenizer.json do it.
#include "base/units.hpp"

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace trivium {

/// What becomes of a match: a piece of its own, nothing, a part of the piece before or behind, or of the
/// matches beside it.
enum class SplitBehavior { isolated, removed, merged_with_previous, merged_with_next, contiguous };

struct SplitRule {
    std::string pattern;  ///< in Oniguruma's own syntax (its doc/RE)
    bool literal = false; ///< the pattern is plain text
    SplitBehavior behavior = SplitBehavior::isolated;
    bool invert = false; ///< what matches and what does not change places
};

/// Retries of the matcher that may still be spent, more of them on a deep stack: it stops a pattern that
/// backtracks without end.
struct MatchEffort {
    u64 left = 0;
    /// More than the pattern of any known model takes for so much text.
    static MatchEffort for_text(std::size_t bytes) { return {(u64{1} << 26) + u64{256} * bytes}; }
};

/// Not for several threads at once.
class TextSplit {
public:
    /// UserError about `place` if Oniguruma does not accept the pattern.
    TextSplit(const SplitRule& rule, const std::string& place);
    TextSplit(TextSplit&&) noexcept;
    ~TextSplit();

    using Emit = std::function<void(std::string_view)>;
    /// Calls `emit` with the pieces of valid UTF-8, none of them empty, in order; they are views into `text`.
    /// UserError where the pattern takes more than `effort` has left.
    void split(std::string_view text, MatchEffort& effort, const Emit& emit) const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace trivium
