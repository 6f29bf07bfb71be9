#pragma once
// A matcher for the patterns of the usual pre-tokenizers (GPT-2, cl100k, o200k, Llama 3, Qwen, DeepSeek):
// alternatives of sequences of character classes, such as ` ?\p{L}+|\p{N}{1,3}|\s+(?!\S)|\s+`. Each character
// is looked up once in a table of the classes that contain it. The classes are Oniguruma's own tables, so the
// matches are Oniguruma's.
#include "base/units.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace trivium {

class ClassPattern {
public:
    /// Null unless this matcher knows all of the pattern's syntax (a subset of Oniguruma's), and no
    /// alternative matches the empty text.
    static std::shared_ptr<const ClassPattern> parse(std::string_view pattern);

    /// The end of the match that begins at `at`; npos if there is none. Each step back is charged to `steps`;
    /// with none left, there is no match. \pre `text` is valid UTF-8, at < text.size()
    std::size_t match(std::string_view text, std::size_t at, u64& steps) const;

    /// Whether a match always ends between an ASCII letter and a space before an ASCII letter, and another
    /// one begins there: "a b" is split into "…a" and " b…", whatever surrounds it.
    bool cuts_before_words() const { return cuts_before_words_; }
    /// Whether no match contains an ASCII letter or a space.
    bool ignores_words() const { return ignores_words_; }

private:
    using Mask = std::uint32_t; ///< a bit per class

    struct Item {
        enum class Kind : std::uint8_t { repeat, one_of, not_before } kind = Kind::repeat;
        bool possessive = false;
        bool gives_back = true;                 ///< a shorter repetition may let the rest match
        Mask bit = 0;                           ///< of the class; of one_of: 0
        std::uint32_t min = 1, max = 1;         ///< one_of: min 0 if it is optional
        std::vector<std::vector<Mask>> words{}; ///< one_of: sequences of classes
    };
    using Sequence = std::vector<Item>;
    struct Reader;

    Mask classes_at(const char* at, const char* end, std::size_t& length) const;
    const char* match(const Item* item, const Item* last, const char* at, const char* end, u64& steps) const;
    void prepare();

    std::vector<Sequence> alternatives_;                ///< at most 32
    std::vector<Mask> first_;                           ///< classes with which each alternative may begin
    std::array<Mask, 128> ascii_{};                     ///< classes of each character
    std::array<std::uint32_t, 128> ascii_candidates_{}; ///< alternatives that may begin with it
    std::vector<std::uint16_t> block_of_;               ///< by code point / 256
    std::vector<std::array<Mask, 256>> blocks_;
    bool cuts_before_words_ = false, ignores_words_ = false;
};

} // namespace trivium
