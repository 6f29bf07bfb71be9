#pragma once
// Exchanges of boxes (MPI_Alltoallv): every rank of a group owns a box of a tensor and needs a box. The ops
// all_to_all, permute and halo list them. mpi/box_exchange.hpp moves the data.
#include "ir/graph.hpp"

#include <optional>

namespace trivium {

struct BoxExchangeShape {
    DType type = DType::f32; ///< only its size matters: 2, 4 or 8 bytes
    /// By rank of the group, in the coordinates of one tensor, whose origin may be anywhere. Owned boxes are
    /// disjoint. Needed boxes may overlap each other. Boxes may be empty.
    std::vector<Box> owned, needed;
};

/// The intersection of two boxes of one tensor; nothing if it is empty.
std::optional<Box> common_part(const Box& a, const Box& b);
/// Elements of the box `need` that are not in the box `have` of the same tensor.
i64 elements_lacking(const Box& have, const Box& need);
/// Whether the elements of `part` are contiguous in `box`, which is row-major and dense. \pre `part` is in
/// `box`
bool is_contiguous(const Box& part, const Box& box);
/// "[0:4,8:16]"
std::string text_of(const Box& box);

/// Visits the messages of a rank, with the part of a box that each contains: send(peer, part, box) for the
/// box that the rank owns, receive(peer, part, box) for the box that it needs.
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

/// Messages in the scratch begin at multiples of this.
inline constexpr Bytes box_alignment = 64;
/// Scratch of a rank: the messages that it packs or unpacks.
Bytes box_exchange_scratch(const BoxExchangeShape& shape, int rank);
/// Bytes that a rank sends to its peers.
Bytes box_exchange_sent(const BoxExchangeShape& shape, int rank);
/// Average of box_exchange_sent() over the ranks.
double mean_box_exchange_sent(const BoxExchangeShape& shape);

/// Of an op over rows of experts (expert_ops.inc): the rows of a group if experts are equally loaded.
i64 expected_rows(const Graph& graph, const Op& op);

// For ops with OpInfo::exchanges.

/// The boxes that the op lists. \pre check_exchange() accepts the op
BoxExchangeShape exchange_of(const Graph& graph, const Op& op);
/// The index of the graph's rank in the op's lists of boxes; 0 in a graph of all ranks.
int exchange_rank(const Graph& graph, const Op& op);
/// Throws UserError if the boxes do not fit the group, the operand or the result, if another rank owns an
/// element that this rank owns, or if no rank owns an element that this rank needs.
void check_exchange(const Graph& graph, const Op& op);

} // namespace trivium
