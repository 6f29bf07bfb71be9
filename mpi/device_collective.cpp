#include "mpi/device_collective.hpp"

namespace trivium {

namespace {

constexpr Bytes largest_gather = Bytes{1}
                                 << 19; ///< of all ranks' contributions; below this, latency dominates

/// The operands for the back-end's own collective; empty if it cannot take them.
std::vector<DenseMove> native_moves(const CollectiveShape& shape, int ranks, bool deterministic)
{
    const bool gathers = shape.kind == CollectiveKind::all_gather;
    if (!gathers && (deterministic || shape.combine != Combine::sum || !is_floating(shape.type)))
        return {};
    std::vector<DenseMove> moves;
    for (const Operand& operand : shape.operands) {
        const i64 elements = operand.outer * operand.extent * operand.inner;
        if (elements == 0)
            continue;
        if (shape.kind == CollectiveKind::all_reduce) {
            moves.push_back({operand.in, operand.out, elements});
            continue;
        }
        if (operand.outer != 1 || operand.extent % ranks != 0)
            return {};
        moves.push_back({operand.in, operand.out, elements / ranks});
    }
    return moves;
}

} // namespace

DeviceCollective::DeviceCollective(DeviceComm& comm, CollectiveShape shape, Piece scratch, bool deterministic)
    : comm_(comm), rounds_(std::move(shape), comm.size(), comm.rank(), scratch)
{
    const CollectiveShape& own = rounds_.shape();
    if (comm.size() == 1) {
        round_.keep = copies_of_whole(own);
        return;
    }
    moves_ = native_moves(own, comm.size(), deterministic);
    if (!moves_.empty())
        way_ = Way::native;
    else if (own.kind == CollectiveKind::all_reduce)
        plan_gather(scratch);
    comm.plan(way_ == Way::native   ? use_of(own.kind)
              : way_ == Way::gather ? use_of(CollectiveKind::all_gather)
                                    : use_exchange);
}

void DeviceCollective::plan_gather(Piece scratch)
{
    const CollectiveShape& shape = rounds_.shape();
    Combination all{.type = shape.type,
                    .combine = shape.combine,
                    .ranks = comm_.size(),
                    .rank = comm_.rank(),
                    .slots = scratch.data,
                    .own_slot = true,
                    .blocks = {}};
    i64 count = 0;
    for (const Operand& operand : shape.operands)
        if (const i64 elements = operand.outer * operand.extent * operand.inner; elements > 0) {
            all.blocks.push_back({static_cast<std::byte*>(operand.out),
                                  static_cast<const std::byte*>(operand.in), elements, count, 1, elements});
            count += elements;
        }
    const Bytes element = size_of(shape.type);
    all.slot = round_up(count * element, Bytes{16});
    if (count == 0 || all.slot * comm_.size() > std::min(scratch.bytes, largest_gather))
        return;
    way_ = Way::gather;
    std::byte* own = scratch.data + all.slot * comm_.rank();
    for (const CombineBlock& block : all.blocks)
        round_.pack.push_back({own + block.at * element, block.own, block.row * element});
    round_.combination = std::move(all);
    moves_ = {{own, scratch.data, round_.combination.slot / element}};
}

void DeviceCollective::enqueue(void* stream)
{
    const CollectiveShape& shape = rounds_.shape();
    if (comm_.size() == 1) {
        comm_.copy(round_.keep, stream);
        return;
    }
    switch (way_) {
    case Way::native: comm_.collective(shape.kind, shape.type, moves_, stream); return;
    case Way::gather:
        comm_.copy(round_.pack, stream);
        comm_.collective(CollectiveKind::all_gather, shape.type, moves_, stream);
        comm_.combine(round_.combination, stream);
        return;
    case Way::rounds:
        rounds_.rewind();
        while (rounds_.next(round_)) {
            comm_.copy(round_.pack, stream);
            comm_.copy(round_.keep, stream);
            comm_.exchange(round_.sends, round_.receives, stream);
            comm_.combine(round_.combination, stream);
            comm_.copy(round_.spread, stream);
        }
    }
}

DeviceBoxExchange::DeviceBoxExchange(DeviceComm& comm, const BoxExchangeShape& shape, const void* in,
                                     void* out, Piece scratch)
    : comm_(comm), round_(box_round(shape, comm.size(), comm.rank(), in, out, scratch))
{
    if (comm.size() > 1)
        comm.plan(use_exchange);
}

void DeviceBoxExchange::enqueue(void* stream)
{
    comm_.copy(round_.pack, stream);
    if (comm_.size() > 1)
        comm_.exchange(round_.sends, round_.receives, stream);
    comm_.copy(round_.keep, stream);
    comm_.copy(round_.spread, stream);
}

} // namespace trivium
