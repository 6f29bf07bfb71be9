#pragma once
// English-like text, deterministic.
#include "base/rng.hpp"

#include <string>

namespace trivium {

inline std::string sample_text(int words, unsigned seed = 0)
{
    static const char* const stems[] = {"the",   "of",    "and",     "light",  "water", "moving",     "house",
                                        "great", "said",  "people",  "king",   "shall", "under",      "river",
                                        "stone", "night", "morning", "walked", "three", "caf\xc3\xa9"};
    static const char* const ends[] = {" ",  " ",  " ",   " ",     "s ", "ing ",
                                       ", ", ". ", ".\n", ".\n\n", "  ", " 1984 "};
    const RandomStream draw(seed, "sample text");
    std::string text;
    for (int i = 0; i < words; ++i) {
        const auto bits = draw.bits_at(static_cast<std::uint64_t>(i));
        text += stems[bits % 20];
        text += ends[(bits >> 32) % 12];
    }
    return text;
}

} // namespace trivium
