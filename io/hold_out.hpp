#pragma once
// Which text is kept from training, for the validation loss.
#include "base/units.hpp"

#include <functional>
#include <string_view>

namespace trivium {

/// Spreads a fraction of the text evenly over the corpus: by documents where they are small, by blocks of a
/// document where it is long. A function of the corpus alone: the same each time.
class HoldOut {
public:
    using Take = std::function<void(bool valid, std::string_view part)>;

    /// `fraction` in [0, 1); `total`: about how much text there will be. 0 holds nothing out.
    HoldOut(double fraction, Bytes total);

    /// Hands the document on, whole or in parts that make it up in order, none of them empty.
    void split(std::string_view document, const Take& take);

private:
    bool choose(Bytes bytes);

    double fraction_;
    Bytes block_, seen_ = 0, valid_ = 0;
};

} // namespace trivium
