#include "io/tokens/tokenizer/added_tokens.hpp"

namespace trivium {

AddedTokens::Found AddedTokens::find(std::string_view text, std::size_t from) const
{
    for (std::size_t begin = from; begin < text.size(); ++begin) {
        if (!begins_[static_cast<unsigned char>(text[begin])])
            continue;
        Found longest{begin, 0, 0};
        ByteTrie::Node node = ByteTrie::root;
        for (std::size_t at = begin; at < text.size(); ++at) {
            node = trie_.child(node, text[at]);
            if (node == ByteTrie::no_node)
                break;
            if (trie_.value(node) != ByteTrie::none)
                longest = {begin, at + 1 - begin, trie_.value(node)};
        }
        if (longest.length > 0)
            return longest;
    }
    return {text.size(), 0, 0};
}

} // namespace trivium
