#pragma once
// Texts of tokens, one by one, and tokens of texts that spell special ones, as servers and harnesses expect
// them.
#include "io/tokens/tokenizer.hpp"
#include "io/tokens/tokenizer/added_tokens.hpp"

#include <map>

namespace trivium {

/// Immutable: several threads may use it concurrently.
class TokenTexts {
public:
    /// `special`: ids of special tokens by their texts, none of which is empty. `first`: the token that is
    /// put in front of a text by default; -1: none. `tokenizer` must outlive it.
    TokenTexts(const Tokenizer& tokenizer, std::map<std::string, i32> special, i32 first);

    const Tokenizer& tokenizer() const { return tokenizer_; }
    /// Texts that spell special tokens become these tokens. `with_first`: puts `first` in front.
    std::vector<i32> encode(std::string_view text, bool with_first) const;
    /// Text of the ids. `with_special`: special tokens are spelled, otherwise they are "".
    std::string decode(std::span<const i32> ids, bool with_special) const;

    /// What the token adds to a text behind other tokens: bytes, maybe a part of a character; "" for special
    /// tokens. \pre 0 <= id < vocab
    const std::string& piece(i32 id) const { return pieces_[static_cast<std::size_t>(id)]; }
    /// How a list of tokens names it: its piece; "bytes:\xe2\x80" if that is not UTF-8; of a special token
    /// its spelling, otherwise "token_id:7".
    std::string label(i32 id) const;

private:
    const Tokenizer& tokenizer_;
    AddedTokens find_;
    bool has_special_;
    std::map<i32, std::string> spelled_; ///< special tokens
    i32 first_;
    std::vector<std::string> pieces_; ///< by id
};

/// Number of characters of UTF-8 text, or of bytes that are parts of it.
i64 characters_of(std::string_view text);

} // namespace trivium
