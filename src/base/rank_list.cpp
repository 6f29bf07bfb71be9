#include "base/rank_list.hpp"

#include "base/check.hpp"

#include <algorithm>

namespace trivium {

std::string print_ranks(std::vector<int> ranks)
{
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    std::string text;
    for (std::size_t i = 0; i < ranks.size();) {
        std::size_t end = i + 1;
        while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1)
            ++end;
        text += str(text.empty() ? "" : ", ", ranks[i],
                    end - i > 1 ? str(end - i > 2 ? "-" : ", ", ranks[end - 1]) : "");
        i = end;
    }
    return str(ranks.size() == 1 ? "rank " : "ranks ", text);
}

} // namespace trivium
