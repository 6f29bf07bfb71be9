#pragma once
// The model of a tokenizer.json: from pre-tokens to ids.
#include "io/tokens/tokenizer/tokenizer_json.hpp"
#include "io/tokens/tokenizer/unigram.hpp"
#include "io/tokens/tokenizer/word_cache.hpp"

#include <array>
#include <bitset>
#include <unordered_map>
#include <unordered_set>

namespace trivium {

class PieceEncoder {
public:
    /// Takes what it needs from `json`. `place` names the file in messages.
    PieceEncoder(TokenizerJson& json, const std::string& place);

    /// Memory of one thread.
    struct Scratch {
        WordCache cache;
        std::vector<i32> symbols;
        Unigram::Scratch unigram;
    };
    /// Appends the ids of a pre-token. UserError if it has a byte, or a character, for which there is no
    /// token. \pre valid UTF-8, not empty
    void encode(std::string_view piece, Scratch& scratch, std::vector<i32>& ids) const;
    /// The id of a byte that is not part of a character. UserError if there is none.
    i32 id_of_byte(char byte) const;

    /// Where the text of `id`, a token that encode() has put at byte `at` of a piece, ends. Moves `at` over
    /// characters that have no token.
    std::size_t end_of(std::string_view piece, std::size_t& at, i32 id) const;

    /// Whether encode() treats both sides of a place in a piece independently if `left` ends it there and
    /// `right` continues it, both single characters.
    bool divides(std::string_view left, std::string_view right) const;

private:
    void encode_word(std::string_view word, Scratch& scratch, std::vector<i32>& ids) const;
    void compute(std::string_view word, Scratch& scratch, std::vector<i32>& ids) const;
    void add_characters(std::string_view word, std::vector<i32>& symbols) const;
    void add_unknown(std::string_view character, std::vector<i32>& symbols, bool& after_unknown) const;
    void note_neighbours(std::string_view piece);
    i32 id_of_character(std::uint32_t code) const;
    bool joins(std::uint32_t left, std::uint32_t right) const;

    std::string place_;
    bool byte_level_, byte_fallback_, fuse_unknown_, is_unigram_;
    i32 unknown_;
    std::array<i32, 256> bytes_;
    BpeMerges merges_;
    Unigram unigram_;
    ByteTrie whole_; ///< pieces that are one token without any merge (ignore_merges)
    bool ignore_merges_;
    std::vector<std::uint32_t> lengths_; ///< by id: of the text of a piece
    std::array<i32, 128> ascii_{};       ///< ids of characters; -1: none
    std::unordered_map<std::uint32_t, i32> characters_;
    /// BPE of characters: a word ends where no token has these two characters in a row, so that words are
    /// short.
    bool has_words_ = false;
    static constexpr std::uint32_t common = 0x80; ///< characters below, and `mark_`, are looked up in a table
    std::uint32_t mark_ = 0x2581;
    std::bitset<(common + 1) * (common + 1)> common_neighbours_;
    std::unordered_set<u64> neighbours_;
};

} // namespace trivium
