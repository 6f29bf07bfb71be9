#pragma once
// Splits text into pre-tokens by a regular expression, as the pre-tokenizers of tokenizer.json do.
#include "base/units.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

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

class ClassPattern;

/// Which matcher to use: ClassPattern where it knows the pattern, otherwise Oniguruma; or Oniguruma always.
enum class SplitMatcher { fastest, oniguruma };

/// Not thread-safe. A copy is independent.
class TextSplit {
public:
    /// UserError about `place` if Oniguruma does not accept the pattern.
    TextSplit(const SplitRule& rule, const std::string& place, SplitMatcher matcher = SplitMatcher::fastest);
    TextSplit(const TextSplit& other);
    TextSplit(TextSplit&&) noexcept;
    ~TextSplit();

    /// Calls `emit` with the pre-tokens of `text`, none of them empty, in order; they are views into `text`.
    /// Subtracts the retries from `effort`. UserError if the pattern needs more than `effort` has left. \pre
    /// `text` is valid UTF-8
    template <class Emit>
    void split(std::string_view text, MatchEffort& effort, Emit&& emit) const
    {
        split_to(
            text, effort,
            [](void* to, std::string_view piece) {
                (*static_cast<std::remove_reference_t<Emit>*>(to))(piece);
            },
            static_cast<void*>(&emit));
    }

    /// `text` with all matches replaced. Errors as split().
    std::string replace(std::string_view text, MatchEffort& effort, std::string_view by) const;

    /// Whether ClassPattern knows the pattern, and pieces that it matches are not joined to others.
    bool is_simple() const;
    /// Whether "a b" is split before the space, whatever surrounds it; see ClassPattern.
    bool cuts_before_words() const;
    /// Whether no match has an ASCII letter or a space, and matches change nothing around them.
    bool ignores_words() const;

private:
    using EmitTo = void (*)(void* to, std::string_view piece);
    void split_to(std::string_view text, MatchEffort& effort, EmitTo emit, void* to) const;

    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace trivium
