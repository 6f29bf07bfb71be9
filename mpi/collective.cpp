#include "mpi/collective.hpp"

#include "mpi/collective_rounds.hpp"
#include "mpi/combine.hpp"

namespace trivium {

struct Collective::Impl {
    Comm& comm;
    CollectiveRounds rounds;
    Round round;
    std::unique_ptr<Request> pending; ///< null: done
    int tag = 0;

    Impl(Comm& on, CollectiveShape shape, Piece scratch)
        : comm(on), rounds(std::move(shape), comm.size(), comm.rank(), scratch)
    {
    }

    void begin_round()
    {
        if (!rounds.next(round)) {
            pending.reset();
            return;
        }
        copy_blocks(round.pack);
        pending = comm.exchange(round.sends, round.receives, tag);
        copy_blocks(round.keep);
    }

    /// Processes the received pieces and starts the next exchange.
    void go_on()
    {
        combine_blocks(round.combination);
        copy_blocks(round.spread);
        begin_round();
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
    TRV_CHECK(!impl.pending, "a collective is started that is still running");
    if (impl.comm.size() == 1) {
        copy_blocks(copies_of_whole(impl.rounds.shape()));
        return;
    }
    impl.tag = impl.comm.take_tag();
    impl.rounds.rewind();
    impl.begin_round();
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

std::vector<int> Collective::waits_for() const
{
    return impl_->pending ? impl_->pending->waits_for() : std::vector<int>{};
}

void Collective::finish()
{
    while (impl_->pending) {
        impl_->pending->wait();
        impl_->go_on();
    }
}

} // namespace trivium
