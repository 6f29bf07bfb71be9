#include "mpi/collective.hpp"

#include "mpi/collective_layout.hpp"
#include "mpi/combine.hpp"

#include <cstring>

namespace trivium {

namespace {

constexpr Bytes alignment = 64, least_slot = 4096;

/// Windows that wait in the scratch: those to be sent that are not contiguous in their tensors, and those received that
/// are to be added up or spread out.
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

struct Collective::Impl {
    using Run = CollectiveLayout::Run;

    Comm& comm;
    CollectiveShape shape;
    CollectiveLayout layout;
    Bytes element;             ///< size of one
    i64 window = 0;            ///< elements of each stream that move in a round
    Bytes slot = 0;            ///< bytes of a window in the scratch
    std::byte *packed, *received; ///< slots, by peer
    std::vector<ConstPiece> sends;
    std::vector<Piece> receives;
    std::vector<const std::byte*> parts;

    std::unique_ptr<Request> pending; ///< none: it is over
    i64 begin = 0;                    ///< of the round's windows
    bool gathering = false;           ///< else it scatters
    int lane = 0;

    Impl(Comm& on, CollectiveShape of, Piece scratch)
        : comm(on), shape(std::move(of)), layout(shape, comm.size()), element(size_of(shape.type)), packed(scratch.data),
          received(scratch.data)
    {
        TRV_CHECK(shape.kind == CollectiveKind::all_gather || shape.type != DType::i32, "no reduction of i32");
        const Bytes least = collective_scratch(shape, comm.size()).least;
        TRV_CHECK(scratch.bytes >= least, "a collective with ", scratch.bytes, " bytes of scratch, which needs ", least);
        const auto ranks = static_cast<std::size_t>(comm.size());
        sends.resize(ranks);
        receives.resize(ranks);
        parts.resize(ranks);
        window = layout.elements(0);
        if (const int slots = slots_of(layout, shape.kind); slots > 0 && window > 0) {
            TRV_CHECK(reinterpret_cast<std::uintptr_t>(scratch.data) % alignment == 0, "a scratch that is not aligned");
            slot = std::min(scratch.bytes / slots, window * element + alignment - 1) / alignment * alignment;
            window = ceil_div(window, ceil_div(window, slot / element)); // rounds alike
            received = packed + slot * (slots - (comm.size() - 1));
        }
    }

    bool gathers_only() const { return shape.kind == CollectiveKind::all_gather; }
    i64 end(int rank) const { return std::min(begin + window, layout.elements(rank)); }
    Bytes window_bytes(int rank) const { return std::max<i64>(end(rank) - begin, 0) * element; }
    std::byte* slot_of(std::byte* slots, int peer) const { return slots + slot * (peer < comm.rank() ? peer : peer - 1); }

    const std::byte* in(const Run& run, i64 index) const { return static_cast<const std::byte*>(run.operand->in) + index * element; }
    std::byte* out(const Run& run, i64 index) const { return static_cast<std::byte*>(run.operand->out) + index * element; }
    /// Where this rank's own stream lies that the others are to have.
    const std::byte* own(const Run& run) const { return gathers_only() ? in(run, run.part) : out(run, run.whole); }

    void copy(std::byte* to, const std::byte* from, i64 count) const
    {
        if (to != from && count > 0)
            std::memmove(to, from, static_cast<std::size_t>(count * element));
    }

    void post_scatter()
    {
        for (int peer = 0; peer < comm.size(); ++peer) {
            ConstPiece& send = sends[static_cast<std::size_t>(peer)] = {};
            Piece& receive = receives[static_cast<std::size_t>(peer)] = {};
            if (peer == comm.rank())
                continue;
            receive = {slot_of(received, peer), window_bytes(comm.rank())};
            send.bytes = window_bytes(peer);
            if (send.bytes == 0)
                continue;
            if (const auto run = layout.one_run(peer, begin, end(peer), false)) {
                send.data = in(*run, run->whole);
                continue;
            }
            std::byte* to = slot_of(packed, peer);
            layout.for_each_run(peer, begin, end(peer), [&](const Run& run) {
                copy(to + run.at * element, in(run, run.whole), run.count);
            });
            send.data = to;
        }
        pending = comm.exchange(sends, receives, lane);
    }

    void combine()
    {
        layout.for_each_run(comm.rank(), begin, end(comm.rank()), [&](const Run& run) {
            for (int r = 0; r < comm.size(); ++r)
                parts[static_cast<std::size_t>(r)] =
                    r == comm.rank() ? in(run, run.whole) : slot_of(received, r) + run.at * element;
            const bool whole = shape.kind == CollectiveKind::all_reduce;
            combine_parts(shape.type, shape.combine, parts, out(run, whole ? run.whole : run.part), run.count);
        });
    }

    void post_gather()
    {
        const int rank = comm.rank();
        ConstPiece send{nullptr, window_bytes(rank)};
        if (send.bytes > 0 && comm.size() > 1) {
            if (const auto run = layout.one_run(rank, begin, end(rank), gathers_only()))
                send.data = own(*run);
            else {
                layout.for_each_run(rank, begin, end(rank), [&](const Run& each) {
                    copy(packed + each.at * element, own(each), each.count);
                });
                send.data = packed;
            }
        }
        for (int peer = 0; peer < comm.size(); ++peer) {
            Piece receive{nullptr, window_bytes(peer)};
            if (receive.bytes > 0 && peer != rank) {
                const auto run = layout.one_run(peer, begin, end(peer), false);
                receive.data = run ? out(*run, run->whole) : slot_of(received, peer);
            }
            sends[static_cast<std::size_t>(peer)] = peer == rank ? ConstPiece{} : send;
            receives[static_cast<std::size_t>(peer)] = peer == rank ? Piece{} : receive;
        }
        pending = comm.exchange(sends, receives, lane);
        if (gathers_only())
            layout.for_each_run(rank, begin, end(rank), [&](const Run& run) { copy(out(run, run.whole), own(run), run.count); });
    }

    void spread()
    {
        for (int peer = 0; peer < comm.size(); ++peer) {
            if (peer == comm.rank() || window_bytes(peer) == 0 || layout.one_run(peer, begin, end(peer), false))
                continue;
            const std::byte* from = slot_of(received, peer);
            layout.for_each_run(peer, begin, end(peer), [&](const Run& run) {
                copy(out(run, run.whole), from + run.at * element, run.count);
            });
        }
    }

    void post()
    {
        if (gathering)
            post_gather();
        else
            post_scatter();
    }

    /// After an exchange: what came is put to use, and the next exchange begins.
    void go_on()
    {
        if (gathering)
            spread();
        else
            combine();
        if (shape.kind == CollectiveKind::all_reduce)
            gathering = !gathering;
        if (shape.kind != CollectiveKind::all_reduce || !gathering)
            begin += window;
        if (begin < layout.elements(0))
            post();
        else
            pending.reset();
    }
};

CollectiveScratch collective_scratch(const CollectiveShape& shape, int ranks)
{
    const CollectiveLayout layout(shape, ranks);
    const Bytes longest = layout.elements(0) * size_of(shape.type);
    const i64 slots = slots_of(layout, shape.kind);
    return {slots * round_up(std::min(longest, least_slot), alignment), slots * round_up(longest, alignment)};
}

Collective::Collective(Comm& comm, CollectiveShape shape, Piece scratch)
    : impl_(std::make_unique<Impl>(comm, std::move(shape), scratch))
{
}
Collective::~Collective() = default;
Collective::Collective(Collective&&) noexcept = default;

void Collective::start()
{
    Impl& impl = *impl_;
    TRV_CHECK(!impl.pending, "a collective is started that is under way");
    if (impl.comm.size() == 1) {
        for (const Operand& operand : impl.shape.operands)
            impl.copy(static_cast<std::byte*>(operand.out), static_cast<const std::byte*>(operand.in),
                      operand.outer * operand.extent * operand.inner);
        return;
    }
    impl.lane = impl.comm.take_lane();
    impl.begin = 0;
    impl.gathering = impl.gathers_only();
    if (impl.layout.elements(0) > 0)
        impl.post();
}

bool Collective::progress()
{
    while (impl_->pending) {
        if (!impl_->pending->test())
            return false;
        impl_->go_on();
    }
    return true;
}

void Collective::finish()
{
    while (impl_->pending) {
        impl_->pending->wait();
        impl_->go_on();
    }
}

} // namespace trivium
