#include "mpi/collective_rounds.hpp"

#include "mpi/combiners.hpp"

namespace trivium {

namespace {

constexpr Bytes alignment = 64, least_slot = 4096;
constexpr int most_direct = 32;    ///< ranks that always exchange directly
constexpr int most_messages = 256; ///< of a direct exchange of larger shards
constexpr Bytes small_shard = 2048;

int phases_of(int radix, int ranks)
{
    int phases = 1;
    for (i64 reached = radix; reached < ranks; reached *= radix)
        ++phases;
    return phases;
}

int radix_of(const CollectiveShape& shape, const CollectiveLayout& layout)
{
    return shape.radix > 0 ? std::max(2, std::min(shape.radix, layout.ranks()))
                           : collective_radix(layout.ranks(), layout.elements(0) * size_of(shape.type));
}

/// Windows in the scratch: those to send that are not contiguous in their tensors, and received ones that
/// must be added or scattered.
int slots_of(const CollectiveLayout& layout, CollectiveKind kind, int radix)
{
    const int peers = layout.ranks() - 1;
    if (peers == 0)
        return 0;
    if (radix < layout.ranks()) // held, to send, received
        return layout.ranks() + 2 * peers;
    if (kind == CollectiveKind::all_gather)
        return layout.dense() ? 0 : 1 + peers;
    return layout.dense() ? peers : 2 * peers;
}

} // namespace

int collective_radix(int ranks, Bytes shard)
{
    if (ranks <= most_direct)
        return std::max(ranks, 2);
    if (shard <= small_shard)
        return 2;
    if (ranks <= most_messages)
        return ranks;
    int root = 2;
    while (root * root < ranks)
        ++root;
    return root;
}

CollectiveScratch collective_scratch(const CollectiveShape& shape, int ranks)
{
    const CollectiveLayout layout(shape, ranks);
    const Bytes longest = layout.elements(0) * size_of(shape.type);
    const int radix = radix_of(shape, layout);
    const i64 slots = slots_of(layout, shape.kind, radix);
    const Bytes least = radix < ranks ? alignment : least_slot;
    return {slots * round_up(std::min(longest, least), alignment), slots * round_up(longest, alignment)};
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
      element_(size_of(shape_.type)), packed_(scratch.data), received_(scratch.data),
      radix_(radix_of(shape_, layout_)), phases_(phases_of(radix_, ranks))
{
    TRV_CHECK(gathers_only() || combiners::combines(shape_.type, shape_.combine), "no reduction of ",
              name_of(shape_.type), " by ", name_of(shape_.combine));
    const Bytes least = collective_scratch(shape_, ranks).least;
    TRV_CHECK(scratch.bytes >= least, "a collective with ", scratch.bytes, " bytes of scratch; it needs ",
              least);
    window_ = layout_.elements(0);
    if (const int slots = slots_of(layout_, shape_.kind, radix_); slots > 0 && window_ > 0) {
        TRV_CHECK(reinterpret_cast<std::uintptr_t>(scratch.data) % alignment == 0,
                  "the scratch is not aligned");
        slot_ = std::min(scratch.bytes / slots, window_ * element_ + alignment - 1) / alignment * alignment;
        window_ = ceil_div(window_, ceil_div(window_, slot_ / element_)); // rounds of equal size
        received_ = packed_ + slot_ * (slots - (ranks - 1));
        held_ = packed_ + slot_ * (ranks - 1); // between the two, if there are several phases
    }
    rewind();
}

void CollectiveRounds::rewind()
{
    begin_ = 0;
    phase_ = 0;
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
    if (phases_ == 1)
        gathering_ ? gather(round) : scatter(round);
    else {
        gathering_ ? gather_phase(round) : scatter_phase(round);
        if (++phase_ <= phases_)
            return true;
        phase_ = 0;
    }
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
        send.data = slot_of(packed_, peer);
        pack_for(peer, slot_of(packed_, peer), round.pack);
    }
    combine_received(round, received_);
}

void CollectiveRounds::pack_for(int peer, std::byte* to, std::vector<CopyBlock>& copies) const
{
    layout_.for_each_block(peer, begin_, end(peer), [&](const Block& b) {
        copies.push_back({to + b.at * element_, in(b, b.whole), b.row * element_, b.rows, b.row * element_,
                          b.stride * element_});
    });
}

void CollectiveRounds::pack_own(std::byte* to, std::vector<CopyBlock>& copies) const
{
    layout_.for_each_block(
        rank_, begin_, end(rank_), [&](const Block& b) { // rows are consecutive in the shard
            copies.push_back({to + b.at * element_, gathers_only() ? in(b, b.part) : out(b, b.whole),
                              b.row * element_, b.rows, b.row * element_,
                              (gathers_only() ? b.row : b.stride) * element_});
        });
}

void CollectiveRounds::combine_received(Round& round, const std::byte* slots) const
{
    Combination& all = round.combination;
    all.type = shape_.type;
    all.combine = shape_.combine;
    all.ranks = ranks_;
    all.rank = rank_;
    all.slots = slots;
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
            pack_own(packed_, round.pack);
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
        spread_of(peer, receive.data, round.spread);
    }
    keep_own(round);
}

void CollectiveRounds::spread_of(int peer, const std::byte* from, std::vector<CopyBlock>& copies) const
{
    layout_.for_each_block(peer, begin_, end(peer), [&](const Block& b) {
        copies.push_back({out(b, b.whole), from + b.at * element_, b.row * element_, b.rows,
                          b.stride * element_, b.row * element_});
    });
}

void CollectiveRounds::keep_own(Round& round) const
{
    if (gathers_only())
        layout_.for_each_block(rank_, begin_, end(rank_), [&](const Block& b) {
            round.keep.push_back({out(b, b.whole), in(b, b.part), b.row * element_, b.rows,
                                  b.stride * element_, b.row * element_});
        });
}

// ---- in phases

i64 CollectiveRounds::weight(int phase) const
{
    i64 weight = 1;
    for (int p = 0; p < phase; ++p)
        weight *= radix_;
    return weight;
}

void CollectiveRounds::scatter_phase(Round& round) const
{
    if (phase_ == phases_) { // block d is of the rank d before this one
        for (int d = 1; d < ranks_; ++d)
            if (const Bytes bytes = window_bytes(rank_); bytes > 0)
                round.pack.push_back({slot_of(received_, rank_at(-d)), held(d), bytes});
        combine_received(round, received_);
        return;
    }
    const i64 w = weight(phase_);
    std::byte *send = packed_, *receive = received_;
    for (i64 j = 1; j < radix_ && j * w < ranks_; ++j) {
        const auto to = static_cast<std::size_t>(rank_at(j * w)),
                   from = static_cast<std::size_t>(rank_at(-j * w));
        round.sends[to].data = send;
        round.receives[from].data = receive;
        for (i64 d = j * w; d < ranks_; ++d) {
            if (d / w % radix_ != j)
                continue;
            const int target = rank_at(d - d % w), next = rank_at(d - d % (w * radix_));
            if (phase_ == 0)
                pack_for(target, send, round.pack);
            else if (window_bytes(target) > 0)
                round.pack.push_back({send, held(d), window_bytes(target)});
            if (window_bytes(next) > 0)
                round.spread.push_back({held(d), receive, window_bytes(next)});
            send += window_bytes(target);
            receive += window_bytes(next);
        }
        round.sends[to].bytes = send - round.sends[to].data;
        round.receives[from].bytes = receive - round.receives[from].data;
    }
    for (i64 d = radix_; phase_ == 0 && d < ranks_; d += radix_) // those that move later
        pack_for(rank_at(d), held(d), round.pack);
}

void CollectiveRounds::gather_phase(Round& round) const
{
    if (phase_ == phases_) {
        for (int d = 1; d < ranks_; ++d)
            spread_of(rank_at(-d), held(d), round.spread);
        return;
    }
    const i64 w = weight(phase_);
    std::byte *send = packed_, *receive = received_;
    if (phase_ == 0) {
        pack_own(held(0), round.pack);
        keep_own(round);
    }
    // What a phase sends to each rank is the same, or the first blocks of it.
    for (i64 d = 0; d < w; ++d) {
        const Bytes bytes = window_bytes(rank_at(-d));
        if (phase_ == 0)
            pack_own(send, round.pack);
        else if (bytes > 0)
            round.pack.push_back({send, held(d), bytes});
        send += bytes;
    }
    for (i64 j = 1; j < radix_ && j * w < ranks_; ++j) {
        const auto to = static_cast<std::size_t>(rank_at(j * w)),
                   from = static_cast<std::size_t>(rank_at(-j * w));
        ConstPiece& sent = round.sends[to];
        Piece& got = round.receives[from];
        sent.data = packed_;
        got.data = receive;
        for (i64 d = 0; d < std::min(w, ranks_ - j * w); ++d) {
            const Bytes bytes = window_bytes(rank_at(-(j * w + d)));
            sent.bytes += window_bytes(rank_at(-d));
            if (bytes > 0)
                round.spread.push_back({held(j * w + d), receive, bytes});
            receive += bytes;
        }
        got.bytes = receive - got.data;
    }
}

} // namespace trivium
