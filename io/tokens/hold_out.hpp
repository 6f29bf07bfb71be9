#pragma once
// Selects the text that is held out from training, for the validation loss.
#include "base/units.hpp"

#include <functional>
#include <string_view>
#include <vector>

namespace trivium {

/// Holds out a fraction of the text: whole documents, at least one on each side, with the lengths of the
/// corpus (stratified sampling). Documents, ordered by length and then by position, form groups of
/// 1/`fraction`; in each group, the document that keeps the mean length nearest to that of the corpus is held
/// out. A single document is divided into blocks that end with lines. The result depends on the corpus alone.
/// It takes two passes: survey() with the sizes of all documents, then split() with their text. Memory: about
/// 20 bytes per document.
class HoldOut {
public:
    using Take = std::function<void(bool valid, std::string_view part)>;

    /// `fraction` in [0, 1). 0 holds out nothing and needs no survey.
    explicit HoldOut(double fraction);

    /// First pass: the size of each document, in order. \pre neither split() nor share() has been called yet
    void survey(Bytes document);
    /// Second pass: calls `take` with the whole document; with consecutive non-empty ranges of it if it is
    /// the only one. UserError if there are more documents than were surveyed.
    void split(std::string_view document, const Take& take);

    i64 documents() const { return static_cast<i64>(sizes_.size()); }
    /// The fraction of the surveyed bytes that is held out; `fraction` if there is a single document.
    double share();

private:
    /// Chooses the documents to hold out, when all are known.
    void choose();
    /// For so few documents that none would be sampled: in the order of the corpus, holds out each document
    /// of which at least half fits into the fraction of the text so far; at least the smallest one, never
    /// all.
    void choose_of_few(std::size_t smallest);
    void split_one(std::string_view document, const Take& take) const;

    double fraction_;
    std::vector<Bytes> sizes_;
    std::vector<bool> valid_;
    std::size_t at_ = 0; ///< the next document of the second pass
    Bytes bytes_ = 0, valid_bytes_ = 0;
};

} // namespace trivium
