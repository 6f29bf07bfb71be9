#include "mpi/collective_rounds.hpp"

#include "mpi/combiners.hpp"

namespace trivium {

namespace {

constexpr Bytes alignment = 64, least_slot = 4096;

/// Windows in the scratch: those to send that are not contiguous in their tensors, and received ones that
/// must be added or scattered.
int slots_of(const CollectiveLayout& layout, CollectiveKind kind)
{
    const int peers = layout.ranks() - 1;
    if (peers == 0)
        return 0;
    if (kind == CollectiveKind::all_gather)
        return layout.dense() ? 0 : 1 + peers;
    return layout.dense() ? peers : 2 * peers;
}

} // namespace

CollectiveScratch collective_scratch(const CollectiveShape& shape, int ranks)
{
    const CollectiveLayout layout(shape, ranks);
    const Bytes longest = layout.elements(0) * size_of(shape.type);
    const i64 slots = slots_of(layout, shape.kind);
    return {slots * round_up(std::min(longest, least_slot), alignment), slots * round_up(longest, alignment)};
}

std::vector<CopyBlock> copies_of_whole(const CollectiveShape& shape)
{
    std::vector<CopyBlock> copies;
    for (const Operand& operand : shape.operands)
        if (const Bytes bytes = operand.outer * operand.extent * operand.inner * size_of(shape.type);
            bytes > 0 && operand.in != operand.out)
            copies.push_back(
                {static_cast<std::byte*>(operand.out), static_cast<const std::byte*>(operand.in), bytes});
    return copies;
}

CollectiveRounds::CollectiveRounds(CollectiveShape shape, int ranks, int rank, Piece scratch)
    : shape_(std::move(shape)), ranks_(ranks), rank_(rank), layout_(shape_, ranks),
      element_(size_of(shape_.type)), packed_(scratch.data), received_(scratch.data)
{
    TRV_CHECK(gathers_only() || combiners::combines(shape_.type, shape_.combine), "no reduction of ",
              name_of(shape_.type), " by ", name_of(shape_.combine));
    const Bytes least = collective_scratch(shape_, ranks).least;
    TRV_CHECK(scratch.bytes >= least, "a collective with ", scratch.bytes, " bytes of scratch; it needs ",
              least);
    window_ = layout_.elements(0);
    if (const int slots = slots_of(layout_, shape_.kind); slots > 0 && window_ > 0) {
        TRV_CHECK(reinterpret_cast<std::uintptr_t>(scratch.data) % alignment == 0,
                  "the scratch is not aligned");
        slot_ = std::min(scratch.bytes / slots, window_ * element_ + alignment - 1) / alignment * alignment;
        window_ = ceil_div(window_, ceil_div(window_, slot_ / element_)); // rounds of equal size
        received_ = packed_ + slot_ * (slots - (ranks - 1));
    }
    rewind();
}

void CollectiveRounds::rewind()
{
    begin_ = 0;
    gathering_ = gathers_only();
}

bool CollectiveRounds::next(Round& round)
{
    if (begin_ >= layout_.elements(0))
        return false;
    round.pack.clear();
    round.keep.clear();
    round.spread.clear();
    round.combination.blocks.clear();
    round.sends.assign(static_cast<std::size_t>(ranks_), {});
    round.receives.assign(static_cast<std::size_t>(ranks_), {});
    if (gathering_)
        gather(round);
    else
        scatter(round);
    if (shape_.kind == CollectiveKind::all_reduce)
        gathering_ = !gathering_;
    if (shape_.kind != CollectiveKind::all_reduce || !gathering_)
        begin_ += window_;
    return true;
}

void CollectiveRounds::scatter(Round& round) const
{
    for (int peer = 0; peer < ranks_; ++peer) {
        if (peer == rank_)
            continue;
        ConstPiece& send = round.sends[static_cast<std::size_t>(peer)];
        round.receives[static_cast<std::size_t>(peer)] = {slot_of(received_, peer), window_bytes(rank_)};
        send.bytes = window_bytes(peer);
        if (send.bytes == 0)
            continue;
        if (const auto row = layout_.one_row(peer, begin_, end(peer), false)) {
            send.data = in(*row, row->whole);
            continue;
        }
        std::byte* to = slot_of(packed_, peer);
        layout_.for_each_block(peer, begin_, end(peer), [&](const Block& b) {
            round.pack.push_back({to + b.at * element_, in(b, b.whole), b.row * element_, b.rows,
                                  b.row * element_, b.stride * element_});
        });
        send.data = to;
    }
    Combination& all = round.combination;
    all.type = shape_.type;
    all.combine = shape_.combine;
    all.ranks = ranks_;
    all.rank = rank_;
    all.slots = received_;
    all.slot = slot_;
    const bool whole = shape_.kind == CollectiveKind::all_reduce;
    layout_.for_each_block(rank_, begin_, end(rank_), [&](const Block& b) {
        all.blocks.push_back(
            {out(b, whole ? b.whole : b.part), in(b, b.whole), b.stride, b.at, b.rows, b.row});
    });
}

void CollectiveRounds::gather(Round& round) const
{
    // Send the own shard: the input, or the result of the reduction.
    const auto own = [&](const Block& b) { return gathers_only() ? in(b, b.part) : out(b, b.whole); };
    ConstPiece send{nullptr, window_bytes(rank_)};
    if (send.bytes > 0 && ranks_ > 1) {
        if (const auto row = layout_.one_row(rank_, begin_, end(rank_), gathers_only()))
            send.data = own(*row);
        else {
            layout_.for_each_block(
                rank_, begin_, end(rank_), [&](const Block& b) { // rows are consecutive in the shard
                    const Bytes stride = (gathers_only() ? b.row : b.stride) * element_;
                    round.pack.push_back({packed_ + b.at * element_, own(b), b.row * element_, b.rows,
                                          b.row * element_, stride});
                });
            send.data = packed_;
        }
    }
    for (int peer = 0; peer < ranks_; ++peer) {
        if (peer == rank_)
            continue;
        Piece& receive = round.receives[static_cast<std::size_t>(peer)];
        receive.bytes = window_bytes(peer);
        round.sends[static_cast<std::size_t>(peer)] = send;
        if (receive.bytes == 0)
            continue;
        if (const auto row = layout_.one_row(peer, begin_, end(peer), false)) {
            receive.data = out(*row, row->whole);
            continue;
        }
        receive.data = slot_of(received_, peer);
        layout_.for_each_block(peer, begin_, end(peer), [&](const Block& b) {
            round.spread.push_back({out(b, b.whole), receive.data + b.at * element_, b.row * element_, b.rows,
                                    b.stride * element_, b.row * element_});
        });
    }
    if (gathers_only())
        layout_.for_each_block(rank_, begin_, end(rank_), [&](const Block& b) {
            round.keep.push_back({out(b, b.whole), in(b, b.part), b.row * element_, b.rows,
                                  b.stride * element_, b.row * element_});
        });
}

} // namespace trivium
