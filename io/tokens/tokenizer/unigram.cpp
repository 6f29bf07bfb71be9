#include "io/tokens/tokenizer/unigram.hpp"

#include "io/tokens/tokenizer/character.hpp"

#include <algorithm>

namespace trivium {

namespace {

constexpr double unknown_penalty = 10;
constexpr std::size_t not_reached = ~std::size_t{0};

} // namespace

void Unigram::add(std::string_view piece, std::int32_t id, double score)
{
    trie_.add(piece, id);
    if (static_cast<std::size_t>(id) >= scores_.size())
        scores_.resize(static_cast<std::size_t>(id) + 1);
    scores_[static_cast<std::size_t>(id)] = score;
}

const std::vector<Unigram::Part>& Unigram::encode(std::string_view text, Scratch& scratch) const
{
    auto& ends = scratch.ends;
    auto& parts = scratch.parts;
    ends.assign(text.size() + 1, {0, not_reached, unknown});
    parts.clear();
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t length = character_length(text[begin]);
        const double so_far = ends[begin].score;
        const auto offer = [&](std::size_t end, double score, std::int32_t id) {
            if (ends[end].begin == not_reached || so_far + score > ends[end].score)
                ends[end] = {so_far + score, begin, id};
        };
        bool has_single = false;
        ByteTrie::Node node = ByteTrie::root;
        for (std::size_t at = begin; at < text.size();) {
            node = trie_.child(node, text[at++]);
            if (node == ByteTrie::no_node)
                break;
            if (const std::int32_t id = trie_.value(node); id != ByteTrie::none) {
                offer(at, scores_[static_cast<std::size_t>(id)], id);
                has_single = has_single || at - begin == length;
            }
        }
        if (!has_single)
            offer(begin + length, lowest_ - unknown_penalty, unknown);
        begin += length;
    }
    for (std::size_t end = text.size(); end > 0; end = ends[end].begin) {
        const std::int32_t id = ends[end].id;
        if (id == unknown && !parts.empty() && parts.back().id == unknown)
            parts.back().begin = ends[end].begin;
        else
            parts.push_back({ends[end].begin, end, id});
    }
    std::ranges::reverse(parts);
    return parts;
}

} // namespace trivium
