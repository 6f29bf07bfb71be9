#pragma once
// Sets of ranks, for messages.
#include <string>
#include <vector>

namespace trivium {

/// "rank 3", "ranks 0-2, 5"; sorted, without duplicates.
std::string print_ranks(std::vector<int> ranks);

} // namespace trivium
