#include "io/tokens/added_tokens.hpp"

namespace trivium {

namespace {

u64 key_of(std::uint32_t node, char byte) { return u64{node} << 8 | static_cast<unsigned char>(byte); }

} // namespace

void AddedTokens::add(std::string_view text, std::int32_t id)
{
    std::uint32_t node = 0;
    for (const char byte : text) {
        const auto [child, is_new] =
            children_.emplace(key_of(node, byte), static_cast<std::uint32_t>(ids_.size()));
        if (is_new)
            ids_.push_back(none);
        node = child->second;
    }
    ids_[node] = id;
}

AddedTokens::Found AddedTokens::find(std::string_view text, std::size_t from) const
{
    for (std::size_t begin = from; begin < text.size(); ++begin) {
        Found longest{begin, 0, 0};
        std::uint32_t node = 0;
        for (std::size_t at = begin; at < text.size(); ++at) {
            const auto child = children_.find(key_of(node, text[at]));
            if (child == children_.end())
                break;
            node = child->second;
            if (ids_[node] != none)
                longest = {begin, at + 1 - begin, ids_[node]};
        }
        if (longest.length > 0)
            return longest;
    }
    return {text.size(), 0, 0};
}

} // namespace trivium
