#pragma once
// The normalizers of a tokenizer.json, which change text before it is split.
#include "io/tokens/tokenizer/charsmap.hpp"
#include "io/tokens/tokenizer/text_split.hpp"
#include "io/tokens/tokenizer/unicode_form.hpp"

#include <vector>

namespace trivium {

struct NormalizerStep {
    enum class Kind {
        form,
        lowercase,
        strip,
        prepend,
        replace,
        charsmap,
        nmt,
        strip_marks
    } kind = Kind::form;
    UnicodeForm form = UnicodeForm::nfc;
    bool left = false, right = false; ///< strip: white space
    SplitRule pattern{};              ///< replace; its behavior has no meaning
    std::string text{};               ///< prepend: what; replace: by what
    std::shared_ptr<const Charsmap> charsmap{};
};

/// Not thread-safe. A copy is independent.
class Normalizer {
public:
    /// UserError about `place` as TextSplit.
    Normalizer(const std::vector<NormalizerStep>& steps, const std::string& place);

    bool empty() const { return steps_.empty(); }
    /// `inside`: the text continues one, so nothing is put in front. Errors as TextSplit::split. \pre `text`
    /// is valid UTF-8
    std::string apply(std::string_view text, bool inside, MatchEffort& effort) const;
    /// Whether apply() keeps ASCII letters, and maps the text on both sides of a space between two of them
    /// independently of each other; the space becomes `space`.
    bool keeps_words_apart(std::string& space) const;

private:
    std::vector<NormalizerStep> steps_;
    std::vector<TextSplit> patterns_; ///< of replace steps that are not literal, in order
};

/// The length of white space at the begin or at the end of a text.
std::size_t space_at_begin(std::string_view text);
std::size_t space_at_end(std::string_view text);

} // namespace trivium
