#pragma once
// Exchanges of boxes: every rank of a group owns a box of a tensor and needs a box, as all_to_all, permute
// and halo state it. mpi/box_exchange.hpp moves the data.
#include "ir/graph.hpp"

#include <optional>

namespace trivium {

struct BoxExchangeShape {
    DType type = DType::f32; ///< only its size matters: 2, 4 or 8 bytes
    /// By rank, in the coordinates of one tensor, which may begin anywhere. Owned boxes are disjoint. Needed
    /// boxes may overlap, and be larger or smaller than what the rank owns. Both may be empty.
    std::vector<Box> owned, needed;
};

/// What two boxes have in common, if that is not empty.
std::optional<Box> common_part(const Box& a, const Box& b);
/// Whether `part` of `box` is one run of its elements, which are row-major and dense.
bool is_contiguous(const Box& part, const Box& box);
/// "[0:4,8:16]"
std::string text_of(const Box& box);

/// Visits the parts that a rank sends to and receives from each peer: send(peer, part, box) with the box that
/// it owns, receive(peer, part, box) with the one that it needs.
template <class Send, class Receive>
void for_each_part(const BoxExchangeShape& shape, int rank, Send&& send, Receive&& receive)
{
    const auto own = static_cast<std::size_t>(rank);
    for (std::size_t peer = 0; peer < shape.owned.size(); ++peer)
        if (peer != own) {
            if (const auto part = common_part(shape.owned[own], shape.needed[peer]))
                send(peer, *part, shape.owned[own]);
            if (const auto part = common_part(shape.owned[peer], shape.needed[own]))
                receive(peer, *part, shape.needed[own]);
        }
}

/// Parts in the scratch begin at multiples of it.
inline constexpr Bytes box_alignment = 64;
/// Scratch of a rank: what it packs, and what it receives and must unpack.
Bytes box_exchange_scratch(const BoxExchangeShape& shape, int rank);
/// Bytes that a rank sends to its peers.
Bytes box_exchange_sent(const BoxExchangeShape& shape, int rank);
/// Their average over the ranks.
double mean_box_exchange_sent(const BoxExchangeShape& shape);

// Of an op whose row has the flag `exchanges`.

/// Its boxes. \pre check_exchange()
BoxExchangeShape exchange_of(const Graph& graph, const Op& op);
/// This rank's number in its group along the op's axis, as in the lists of boxes.
int exchange_rank(const Graph& graph, const Op& op);
/// Throws UserError if the boxes do not fit the group, the operand and the result, or if this rank's boxes do
/// not fit those of the others: what it owns belongs to nobody else, and what it needs has owners.
void check_exchange(const Graph& graph, const Op& op);

} // namespace trivium
