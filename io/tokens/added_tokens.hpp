#pragma once
// Finds the added tokens of a tokenizer.json in text: exact matches, whatever surrounds them.
#include "base/units.hpp"

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace trivium {

class AddedTokens {
public:
    void add(std::string_view text, std::int32_t id);
    bool empty() const { return ids_.size() == 1; }

    struct Found {
        std::size_t begin, length; ///< length 0: no match
        std::int32_t id;
    };
    /// The leftmost match at or after `from`; the longest one at that place.
    Found find(std::string_view text, std::size_t from) const;

private:
    std::unordered_map<u64, std::uint32_t> children_; ///< edges of a trie, by node and byte
    std::vector<std::int32_t> ids_{none};             ///< by node
    static constexpr std::int32_t none = INT32_MIN;
};

} // namespace trivium
