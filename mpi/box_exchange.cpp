#include "mpi/box_exchange.hpp"

#include "mpi/combine.hpp"

#include <algorithm>

namespace trivium {

namespace {

void check_shape(const BoxExchangeShape& shape)
{
    TRV_CHECK(size_of(shape.type) > 1, "boxes of ", name_of(shape.type));
    TRV_CHECK(!shape.owned.empty() && shape.owned.size() == shape.needed.size(), shape.owned.size(),
              " owned boxes and ", shape.needed.size(), " needed ones");
    const std::size_t dims = shape.owned.front().shape.size();
    for (const auto* boxes : {&shape.owned, &shape.needed})
        for (const Box& box : *boxes)
            TRV_CHECK(box.shape.size() == dims && box.offset.size() == dims &&
                          std::all_of(box.shape.begin(), box.shape.end(), [](i64 size) { return size >= 0; }),
                      "box ", text_of(box), " of a tensor of ", dims, " dimensions");
}

/// Every needed cell has one owner. \pre check_shape()
void check_owners(const BoxExchangeShape& shape)
{
    for (std::size_t r = 0; r < shape.owned.size(); ++r) {
        for (std::size_t other = 0; other < r; ++other)
            TRV_CHECK(!common_part(shape.owned[r], shape.owned[other]), "ranks ", other, " and ", r,
                      " own boxes ", text_of(shape.owned[other]), " and ", text_of(shape.owned[r]),
                      ", which overlap");
        i64 found = 0;
        for (const Box& owned : shape.owned)
            if (const auto both = common_part(owned, shape.needed[r]))
                found += element_count(both->shape);
        TRV_CHECK(found == element_count(shape.needed[r].shape), "rank ", r, " needs box ",
                  text_of(shape.needed[r]), ", but only ", found, " of its ",
                  element_count(shape.needed[r].shape), " cells have an owner");
    }
}

/// Where a part of a box is in the dense box: the index of its first element, and the strides.
struct View {
    i64 first = 0;
    Shape strides;
};
View view_of(const Box& part, const Box& box)
{
    View view{0, Shape(box.shape.size())};
    i64 stride = 1;
    for (std::size_t d = box.shape.size(); d-- > 0; stride *= box.shape[d]) {
        view.strides[d] = stride;
        view.first += (part.offset[d] - box.offset[d]) * stride;
    }
    return view;
}

/// A dimension of a copy: elements, and elements between them on both sides.
struct CopyDim {
    i64 size, to, from;
};

/// The dimensions of a copy without those of size one. Neighbours that are one dimension on both sides are
/// joined.
std::vector<CopyDim> copy_dims(const Shape& shape, const View& to, const View& from)
{
    std::vector<CopyDim> dims;
    for (std::size_t d = 0; d < shape.size(); ++d) {
        if (shape[d] == 1)
            continue;
        const CopyDim next{shape[d], to.strides[d], from.strides[d]};
        if (!dims.empty() && dims.back().to == next.size * next.to &&
            dims.back().from == next.size * next.from)
            dims.back() = {dims.back().size * next.size, next.to, next.from};
        else
            dims.push_back(next);
    }
    return dims;
}

/// Appends the copy of `part`, from `from`, which holds box `source` densely, to `to`, which holds `target`.
void add_copy(std::vector<CopyBlock>& copies, const Box& part, std::byte* to, const Box& target,
              const std::byte* from, const Box& source, Bytes element)
{
    const View there = view_of(part, target), here = view_of(part, source);
    std::vector<CopyDim> dims = copy_dims(part.shape, there, here);
    CopyBlock block{to + there.first * element, from + here.first * element, element};
    if (!dims.empty() && dims.back().to == 1 && dims.back().from == 1) {
        block.row = dims.back().size * element;
        dims.pop_back();
    }
    if (!dims.empty()) { // the longest dimension makes the rows of a block: the fewest blocks
        const auto rows = std::max_element(
            dims.begin(), dims.end(), [](const CopyDim& a, const CopyDim& b) { return a.size < b.size; });
        block.rows = rows->size;
        block.to_stride = rows->to * element;
        block.from_stride = rows->from * element;
        dims.erase(rows);
    }
    i64 blocks = 1;
    for (const CopyDim& dim : dims)
        blocks *= dim.size;
    for (i64 i = 0; i < blocks; ++i) {
        CopyBlock each = block;
        i64 rest = i;
        for (std::size_t d = dims.size(); d-- > 0; rest /= dims[d].size) {
            each.to += rest % dims[d].size * dims[d].to * element;
            each.from += rest % dims[d].size * dims[d].from * element;
        }
        copies.push_back(each);
    }
}

} // namespace

Round box_round(const BoxExchangeShape& shape, int ranks, int rank, const void* in, void* out, Piece scratch)
{
    TRV_CHECK(shape.owned.size() == static_cast<std::size_t>(ranks), shape.owned.size(), " owned boxes for ",
              ranks, " ranks");
    check_shape(shape);
    const Bytes least = box_exchange_scratch(shape, rank);
    check_owners(shape);
    TRV_CHECK(scratch.bytes >= least, "an exchange of boxes with ", scratch.bytes,
              " bytes of scratch; it needs ", least);
    TRV_CHECK(least == 0 || reinterpret_cast<std::uintptr_t>(scratch.data) % box_alignment == 0,
              "the scratch is not aligned");
    const Bytes element = size_of(shape.type);
    const auto* from = static_cast<const std::byte*>(in);
    auto* to = static_cast<std::byte*>(out);
    std::byte* free = scratch.data;
    const auto take = [&](Bytes bytes) {
        std::byte* taken = free;
        free += round_up(bytes, box_alignment);
        return taken;
    };
    Round round;
    round.sends.resize(shape.owned.size());
    round.receives.resize(shape.owned.size());
    for_each_part(
        shape, rank,
        [&](std::size_t peer, const Box& part, const Box& box) {
            ConstPiece& send = round.sends[peer];
            send.bytes = element_count(part.shape) * element;
            if (is_contiguous(part, box)) {
                send.data = from + view_of(part, box).first * element;
                return;
            }
            std::byte* packed = take(send.bytes);
            add_copy(round.pack, part, packed, part, from, box, element);
            send.data = packed;
        },
        [&](std::size_t peer, const Box& part, const Box& box) {
            Piece& receive = round.receives[peer];
            receive.bytes = element_count(part.shape) * element;
            if (is_contiguous(part, box)) {
                receive.data = to + view_of(part, box).first * element;
                return;
            }
            receive.data = take(receive.bytes);
            add_copy(round.spread, part, to, box, receive.data, part, element);
        });
    const auto own = static_cast<std::size_t>(rank);
    if (const auto part = common_part(shape.owned[own], shape.needed[own]))
        add_copy(round.keep, *part, to, shape.needed[own], from, shape.owned[own], element);
    return round;
}

BoxExchange::BoxExchange(Comm& comm, const BoxExchangeShape& shape, const void* in, void* out, Piece scratch)
    : comm_(&comm), round_(box_round(shape, comm.size(), comm.rank(), in, out, scratch))
{
}

void BoxExchange::start()
{
    TRV_CHECK(!pending_, "an exchange of boxes is started that is still running");
    copy_blocks(round_.pack);
    if (comm_->size() > 1)
        pending_ = comm_->exchange(round_.sends, round_.receives, comm_->take_tag());
    copy_blocks(round_.keep);
}

bool BoxExchange::progress()
{
    if (pending_ && pending_->test())
        unpack();
    return !pending_;
}

std::vector<int> BoxExchange::waits_for() const
{
    return pending_ ? pending_->waits_for() : std::vector<int>{};
}

void BoxExchange::finish()
{
    if (!pending_)
        return;
    pending_->wait();
    unpack();
}

void BoxExchange::unpack()
{
    pending_.reset();
    copy_blocks(round_.spread);
}

} // namespace trivium
