#pragma once
// Texts as paths of bytes, for the search of all that begin at a place.
#include "base/units.hpp"

#include <bit>
#include <cstdint>
#include <string_view>
#include <vector>

namespace trivium {

class ByteTrie {
public:
    using Node = std::uint32_t;
    static constexpr Node root = 0, no_node = ~Node{0};
    static constexpr std::int32_t none = INT32_MIN;

    /// A text that is added twice keeps the later value. \pre value is not `none`
    void add(std::string_view text, std::int32_t value)
    {
        Node node = root;
        for (const char byte : text)
            node = make_child(node, byte);
        values_[node] = value;
    }

    /// no_node if no text continues with this byte.
    Node child(Node node, char byte) const
    {
        return edges_.empty() ? no_node : edges_[place_of(key_of(node, byte))].child;
    }
    /// The value of the text that ends here, or `none`.
    std::int32_t value(Node node) const { return values_[node]; }

private:
    struct Edge {
        u64 key = ~u64{0};
        Node child = no_node;
    };

    static u64 key_of(Node node, char byte) { return u64{node} << 8 | static_cast<unsigned char>(byte); }

    /// Open addressing; at most half full.
    std::size_t place_of(u64 key) const
    {
        std::size_t at = key * 0x9e3779b97f4a7c15u >> (64 - std::countr_zero(edges_.size()));
        while (edges_[at].key != key && edges_[at].key != ~u64{0})
            at = (at + 1) & (edges_.size() - 1);
        return at;
    }

    Node make_child(Node node, char byte)
    {
        if (2 * values_.size() >= edges_.size()) {
            const std::vector<Edge> old = std::move(edges_);
            edges_.assign(old.empty() ? 64 : 2 * old.size(), {});
            for (const Edge& edge : old)
                if (edge.child != no_node)
                    edges_[place_of(edge.key)] = edge;
        }
        const u64 key = key_of(node, byte);
        Edge& edge = edges_[place_of(key)];
        if (edge.child == no_node) {
            edge = {key, static_cast<Node>(values_.size())};
            values_.push_back(none);
        }
        return edge.child;
    }

    std::vector<Edge> edges_;
    std::vector<std::int32_t> values_{none}; ///< by node
};

} // namespace trivium
