#pragma once
// Random damage to a text.
#include <random>
#include <string>

namespace trivium {

/// `text` with one to four changes: bytes flipped, removed, doubled or moved, numbers and brackets replaced.
std::string mutate(std::string text, std::mt19937_64& random);

} // namespace trivium
