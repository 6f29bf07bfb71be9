#pragma once
// Lines of a graph's text that are written once and read several times.
#include "ir/text/sizes.hpp"

#include <functional>
#include <string>
#include <string_view>

namespace trivium {

/// Calls `read(line, number)` for each line of `text`, in order; those between `repeat NAME COUNT {` and `}`
/// COUNT times, where $NAME is 0 to COUNT - 1. ${EXPRESSION} is a number, outside of them one of sizes alone.
/// `sizes` are those that `read` has met so far. Throws UserError for a region that is not closed and for
/// more lines than limits.hpp allows.
void each_line(std::string_view text, const std::string& file, const NamedSizes& sizes,
               const std::function<void(std::string_view line, int number)>& read);

} // namespace trivium
