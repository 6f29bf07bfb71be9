#pragma once
// The normalization rules of SentencePiece as a tokenizer.json contains them: a "precompiled_charsmap".
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trivium {

/// Replacements of sequences of characters.
class Charsmap {
public:
    /// The size of a double-array trie in bytes, the trie (of the library Darts-clone), and its values, which
    /// end with zero bytes; numbers have four bytes, little-endian, and all is in base 64. Null, with
    /// `problem` set, if it is damaged.
    static std::shared_ptr<const Charsmap> parse(std::string_view base64, std::string& problem);

    /// Replaces as the package `tokenizers` does: a grapheme cluster of less than 6 bytes if the map has a
    /// prefix of it, otherwise each of its characters that the map has. Of several prefixes the shortest
    /// counts. (SentencePiece itself replaces the longest sequence at each place.) \pre `text` is valid
    /// UTF-8
    std::string apply(std::string_view text) const;

    /// What replaces a text of which the map has a prefix.
    std::optional<std::string_view> find(std::string_view text) const;

private:
    std::string why_damaged() const;

    std::vector<std::uint32_t> units_;
    std::string values_;
};

} // namespace trivium
