#pragma once
// The unigram model of SentencePiece (Kudo, 2018): the division of a text into pieces with the highest sum of
// scores.
#include "io/tokens/tokenizer/byte_trie.hpp"

#include <algorithm>
#include <limits>

namespace trivium {

class Unigram {
public:
    /// What ids of pieces and of text without a piece become.
    static constexpr std::int32_t unknown = -1;

    struct Part {
        std::size_t begin, end;
        std::int32_t id; ///< or `unknown`: adjacent ones are joined
    };
    /// Memory of encode(), which grows with the longest text.
    struct Scratch {
        struct Best {
            double score;
            std::size_t begin;
            std::int32_t id;
        };
        std::vector<Best> ends;
        std::vector<Part> parts;
    };

    void add(std::string_view piece, std::int32_t id, double score);
    /// The lowest score of the vocabulary, also of pieces that no text yields.
    void note_score(double score) { lowest_ = std::min(lowest_, score); }

    /// The parts of `text`, in order; valid until the next call. Of equal sums, the one that is found first.
    /// \pre `text` is valid UTF-8
    const std::vector<Part>& encode(std::string_view text, Scratch& scratch) const;

private:
    ByteTrie trie_;
    std::vector<double> scores_; ///< by id
    double lowest_ = std::numeric_limits<double>::infinity();
};

} // namespace trivium
