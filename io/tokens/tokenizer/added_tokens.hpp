#pragma once
// Finds the added tokens of a tokenizer.json in text: exact matches, whatever surrounds them.
#include "io/tokens/tokenizer/byte_trie.hpp"

#include <array>

namespace trivium {

class AddedTokens {
public:
    /// `value`: any number but ByteTrie::none. \pre `text` is not empty
    void add(std::string_view text, std::int32_t value)
    {
        trie_.add(text, value);
        begins_[static_cast<unsigned char>(text[0])] = true;
    }

    struct Found {
        std::size_t begin, length; ///< length 0: no match
        std::int32_t value;
    };
    /// The leftmost match at or after `from`; the longest one at that place.
    Found find(std::string_view text, std::size_t from) const;

private:
    ByteTrie trie_;
    std::array<bool, 256> begins_{}; ///< bytes with which tokens begin
};

} // namespace trivium
