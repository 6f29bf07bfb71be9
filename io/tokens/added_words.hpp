#pragma once
// Words that are found in text as they stand, whatever is around them.
#include "base/units.hpp"

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace trivium {

class AddedWords {
public:
    void add(std::string_view word, std::int32_t id);
    bool empty() const { return ids_.size() == 1; }

    struct Found {
        std::size_t begin, length; ///< length 0: there is none
        std::int32_t id;
    };
    /// The first from `from` on; of those that begin there, the longest.
    Found find(std::string_view text, std::size_t from) const;

private:
    std::unordered_map<u64, std::uint32_t> children_; ///< of a trie: by node and byte
    std::vector<std::int32_t> ids_{none};             ///< by node
    static constexpr std::int32_t none = INT32_MIN;
};

} // namespace trivium
