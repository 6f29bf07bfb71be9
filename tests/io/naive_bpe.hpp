#pragma once
// Byte-pair encoding with byte fallback, without any data structure: a reference.
#include "base/units.hpp"

#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trivium {

/// Repeatedly merges the adjacent pair of the lowest rank, of equal ranks the leftmost, until none has a
/// rank; what is no token then becomes the tokens of its bytes.
inline std::vector<i32>
naive_bpe(const std::string& text, const std::map<std::string, i32>& ids,
          const std::function<std::optional<double>(const std::string& left, const std::string& right)>& rank)
{
    std::vector<std::string> symbols;
    for (const char c : text)
        if ((static_cast<unsigned char>(c) & 0xc0) == 0x80)
            symbols.back() += c;
        else
            symbols.emplace_back(1, c);
    while (true) {
        std::size_t best = symbols.size();
        double best_rank = 0;
        for (std::size_t i = 0; i + 1 < symbols.size(); ++i)
            if (const auto own = rank(symbols[i], symbols[i + 1]);
                own && (best == symbols.size() || *own < best_rank)) {
                best = i;
                best_rank = *own;
            }
        if (best == symbols.size())
            break;
        symbols[best] += symbols[best + 1];
        symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
    std::vector<i32> result;
    for (const std::string& symbol : symbols)
        if (const auto at = ids.find(symbol); at != ids.end())
            result.push_back(at->second);
        else
            for (const char c : symbol) {
                char byte[8];
                std::snprintf(byte, sizeof byte, "<0x%02X>",
                              static_cast<unsigned>(static_cast<unsigned char>(c)));
                result.push_back(ids.at(byte));
            }
    return result;
}

} // namespace trivium
