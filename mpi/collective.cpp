#include "mpi/collective.hpp"

#include "mpi/collective_rounds.hpp"
#include "mpi/combine.hpp"

namespace trivium {

namespace {

/// Shards of at least this many bytes travel from and to their tensors; smaller ones are packed together.
constexpr Bytes direct_bytes = 16384;

/// The same collective as several that run at once: one for each tensor whose shards are contiguous and
/// large, which need not be packed, and one for all others. Only one if the scratch is too small for that.
std::vector<CollectiveShape> split(const CollectiveShape& shape, int ranks, Bytes scratch)
{
    std::vector<CollectiveShape> parts;
    CollectiveShape packed = shape;
    packed.operands.clear();
    for (const Operand& operand : shape.operands) {
        CollectiveShape alone = packed;
        alone.operands = {operand};
        const CollectiveLayout layout(alone, ranks);
        if (layout.dense() && layout.elements(ranks - 1) * size_of(shape.type) >= direct_bytes)
            parts.push_back(std::move(alone));
        else
            packed.operands.push_back(operand);
    }
    Bytes least = collective_scratch(packed, ranks).least;
    for (const CollectiveShape& part : parts)
        least += collective_scratch(part, ranks).least;
    if (parts.empty() || least > scratch)
        return {shape};
    if (!packed.operands.empty())
        parts.push_back(std::move(packed));
    return parts;
}

/// Divides the scratch among collectives that run at once: each gets its minimum, and of the rest in
/// proportion to what it would need for a single round.
std::vector<Piece> divide(Piece scratch, const std::vector<CollectiveShape>& shapes, int ranks)
{
    if (shapes.size() == 1)
        return {scratch};
    std::vector<CollectiveScratch> needs;
    CollectiveScratch all;
    for (const CollectiveShape& shape : shapes) {
        needs.push_back(collective_scratch(shape, ranks));
        all.least += needs.back().least;
        all.best += needs.back().best;
    }
    const double share = all.best > all.least ? std::min(1.0, static_cast<double>(scratch.bytes - all.least) /
                                                                  static_cast<double>(all.best - all.least))
                                              : 0;
    std::vector<Piece> pieces;
    for (const CollectiveScratch& need : needs) {
        const auto more = static_cast<Bytes>(share * static_cast<double>(need.best - need.least));
        pieces.push_back({scratch.data, need.least + more / 64 * 64});
        scratch.data += pieces.back().bytes;
    }
    return pieces;
}

} // namespace

struct Collective::Impl {
    struct Part {
        CollectiveRounds rounds;
        Round round{};
        std::unique_ptr<Request> pending{}; ///< null: done
        int tag = 0;
    };
    Comm& comm;
    CollectiveShape shape;
    std::vector<Part> parts;

    Impl(Comm& on, CollectiveShape whole, Piece scratch) : comm(on), shape(std::move(whole))
    {
        std::vector<CollectiveShape> shapes = split(shape, comm.size(), scratch.bytes);
        const std::vector<Piece> pieces = divide(scratch, shapes, comm.size());
        for (std::size_t i = 0; i < shapes.size(); ++i)
            parts.push_back({CollectiveRounds(std::move(shapes[i]), comm.size(), comm.rank(), pieces[i])});
    }

    void begin_round(Part& part)
    {
        if (!part.rounds.next(part.round)) {
            part.pending.reset();
            return;
        }
        copy_blocks(part.round.pack);
        part.pending = comm.exchange(part.round.sends, part.round.receives, part.tag);
        copy_blocks(part.round.keep);
    }

    /// Processes the received pieces and starts the next exchange.
    void next_round(Part& part)
    {
        combine_blocks(part.round.combination);
        copy_blocks(part.round.spread);
        begin_round(part);
    }
};

Collective::Collective(Comm& comm, CollectiveShape shape, Piece scratch)
    : impl_(std::make_unique<Impl>(comm, std::move(shape), scratch))
{
}
Collective::~Collective() = default;
Collective::Collective(Collective&&) noexcept = default;

void Collective::start()
{
    Impl& impl = *impl_;
    for (const Impl::Part& part : impl.parts)
        TRV_CHECK(!part.pending, "a collective is started that is still running");
    if (impl.comm.size() == 1) {
        copy_blocks(copies_of_whole(impl.shape));
        return;
    }
    for (Impl::Part& part : impl.parts) {
        part.tag = impl.comm.take_tag();
        part.rounds.rewind();
        impl.begin_round(part);
    }
}

bool Collective::progress()
{
    bool done = true;
    for (Impl::Part& part : impl_->parts) {
        while (part.pending && part.pending->test())
            impl_->next_round(part);
        done = done && !part.pending;
    }
    return done;
}

std::vector<int> Collective::waits_for() const
{
    for (const Impl::Part& part : impl_->parts)
        if (part.pending)
            return part.pending->waits_for();
    return {};
}

void Collective::finish()
{
    for (Impl::Part& part : impl_->parts)
        while (part.pending) {
            part.pending->wait();
            impl_->next_round(part);
        }
}

} // namespace trivium
