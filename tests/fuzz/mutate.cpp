#include "mutate.hpp"

#include <algorithm>
#include <array>

namespace trivium {

namespace {

std::size_t below(std::size_t n, std::mt19937_64& random)
{
    return n == 0 ? 0 : static_cast<std::size_t>(random() % n);
}

/// Inputs on which parsers fail.
constexpr std::array<const char*, 18> nasty{"-1",
                                            "0",
                                            "9223372036854775807",
                                            "9223372036854775808",
                                            "1e999",
                                            "nan",
                                            "{",
                                            "}",
                                            "[",
                                            "]",
                                            "%",
                                            "->",
                                            "\"",
                                            "\\",
                                            "\n",
                                            "=",
                                            "\xff",
                                            ","};

void damage(std::string& text, std::mt19937_64& random)
{
    const std::size_t at = below(text.size() + 1, random);
    const std::size_t length = std::min(below(24, random), text.size() - at);
    switch (random() % 6) {
    case 0:
        if (at < text.size())
            text[at] = static_cast<char>(random() % 256);
        break;
    case 1: text.erase(at, length); break;
    case 2: text.insert(at, text.substr(at, length)); break;
    case 3: {
        const std::string moved = text.substr(at, length);
        text.erase(at, length);
        text.insert(below(text.size() + 1, random), moved);
        break;
    }
    case 4: text.replace(at, random() % 2 ? length : 0, nasty[below(nasty.size(), random)]); break;
    default: { // a digit becomes a problematic number
        const std::size_t digit = text.find_first_of("0123456789", at);
        if (digit != std::string::npos)
            text.replace(digit, 1, nasty[below(6, random)]);
    }
    }
}

} // namespace

std::string mutate(std::string text, std::mt19937_64& random)
{
    for (auto n = 1 + random() % 4; n > 0; --n)
        damage(text, random);
    return text;
}

} // namespace trivium
