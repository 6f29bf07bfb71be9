#pragma once
// Selects the text that is held out from training, for the validation loss.
#include "base/units.hpp"

#include <functional>
#include <string_view>

namespace trivium {

/// Holds out a fraction of the text, spread evenly over the corpus: whole documents, at least one on each
/// side. A single document is divided into blocks that end with lines. The result depends on the corpus
/// alone. It takes two passes: survey() with the sizes of all documents, then split() with their text.
class HoldOut {
public:
    using Take = std::function<void(bool valid, std::string_view part)>;

    /// `fraction` in [0, 1). 0 holds out nothing and needs no survey.
    explicit HoldOut(double fraction);

    /// First pass: the size of each document, in order. \pre split() has not been called yet
    void survey(Bytes document);
    /// Second pass: calls `take` with the whole document; a single document is passed in consecutive
    /// non-empty parts. UserError if it was not surveyed.
    void split(std::string_view document, const Take& take);

    i64 documents() const { return count_; }
    /// The fraction of the surveyed bytes that is held out; `fraction` if there is a single document.
    double share() const;

private:
    struct Choice {
        Bytes seen = 0, valid = 0;
        /// Whether the next document or block is held out: if `part` of its bytes fits into the fraction of
        /// the bytes seen so far.
        bool next(double fraction, Bytes bytes, double part);
    };
    void split_one(std::string_view document, const Take& take) const;

    double fraction_;
    i64 count_ = 0, valid_count_ = 0, smallest_ = 0, at_ = 0;
    Bytes smallest_bytes_ = 0;
    Choice surveyed_, split_; ///< in the first and in the second pass
};

} // namespace trivium
