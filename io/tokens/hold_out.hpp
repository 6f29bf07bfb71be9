#pragma once
// Which text is kept from training, for the validation loss.
#include "base/units.hpp"

#include <functional>
#include <string_view>

namespace trivium {

/// Spreads a fraction of the text evenly over the corpus: by whole documents, at least one of them on each
/// side; a single document by blocks, which end where lines do. A function of the corpus alone: the same each
/// time. It sees the corpus twice: first the sizes of all documents, then the documents.
class HoldOut {
public:
    using Take = std::function<void(bool valid, std::string_view part)>;

    /// `fraction` in [0, 1). 0 holds nothing out, and needs no survey.
    explicit HoldOut(double fraction);

    /// Each document, in order. \pre no document is split yet
    void survey(Bytes document);
    /// Hands the document on, whole, or the single one in parts that make it up in order, none of them empty.
    /// UserError if it was not surveyed.
    void split(std::string_view document, const Take& take);

    i64 documents() const { return count_; }
    /// Of the surveyed bytes, by whole documents; `fraction` where a single document is split.
    double share() const;

private:
    struct Choice {
        Bytes seen = 0, valid = 0;
        /// Whether the next document, or block, is held out: where the fraction of what was seen has room for
        /// `part` of it.
        bool next(double fraction, Bytes bytes, double part);
    };
    void split_one(std::string_view document, const Take& take) const;

    double fraction_;
    i64 count_ = 0, valid_count_ = 0, smallest_ = 0, at_ = 0;
    Bytes smallest_bytes_ = 0;
    Choice surveyed_, given_;
};

} // namespace trivium
