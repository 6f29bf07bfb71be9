#include "mpi/delay_comm.hpp"

#include "base/clock.hpp"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>

namespace trivium {

namespace {

/// What a transfer puts on its rank's link.
struct Load {
    i64 messages = 0; ///< one after another
    Bytes out = 0, in = 0;
};

class DelayedRequest : public Request {
public:
    DelayedRequest(std::shared_ptr<SlowLink> link, Load load, std::size_t peers)
        : link_(std::move(link)), load_(load), begun_(now()), others_begun_(peers, 0)
    {
    }

    /// The members' begins travel with the data.
    Seconds& begun() { return begun_; }
    Seconds& begun(std::size_t peer) { return others_begun_[peer]; }
    void add(std::unique_ptr<Request> part) { parts_.push_back(std::move(part)); }

    bool test() override
    {
        bool all = true;
        for (const auto& part : parts_)
            all = part->test() && all;
        return all && now() >= end();
    }
    void wait() override
    {
        for (const auto& part : parts_)
            part->wait();
        // A sleep may end late by about this much.
        constexpr Seconds early = 1e-4;
        if (const Seconds left = end() - now() - early; left > 0)
            std::this_thread::sleep_for(std::chrono::duration<double>(left));
        while (now() < end())
            std::this_thread::yield();
    }
    std::vector<int> waits_for() const override { return parts_.front()->waits_for(); }

private:
    /// \pre all parts are done
    Seconds end()
    {
        if (end_ > 0)
            return end_;
        Seconds begin = begun_;
        for (const Seconds other : others_begun_)
            begin = std::max(begin, other);
        const LinkDelay& delay = link_->delay;
        const auto use = [&](Seconds& free, Bytes bytes) {
            if (bytes > 0 && delay.bytes_per_second > 0)
                free = std::max(free, begin) + static_cast<double>(bytes) / delay.bytes_per_second;
            return bytes > 0 ? std::max(free, begin) : begin;
        };
        return end_ = std::max(use(link_->out_free, load_.out), use(link_->in_free, load_.in)) +
                      static_cast<double>(load_.messages) * delay.latency;
    }

    std::shared_ptr<SlowLink> link_;
    Load load_;
    Seconds begun_, end_ = 0;
    std::vector<Seconds> others_begun_;
    std::vector<std::unique_ptr<Request>> parts_;
};

class DelayComm : public Comm {
public:
    DelayComm(std::unique_ptr<Comm> data, std::unique_ptr<Comm> clocks, std::shared_ptr<SlowLink> link)
        : Comm(data->rank(), data->world_ranks()), data_(std::move(data)), clocks_(std::move(clocks)),
          link_(std::move(link))
    {
    }

    std::unique_ptr<Request> exchange(std::span<const ConstPiece> sends, std::span<const Piece> receives,
                                      int tag) override
    {
        Load load;
        i64 sent = 0, received = 0;
        for (std::size_t r = 0; r < sends.size(); ++r)
            if (r != static_cast<std::size_t>(rank())) {
                load.out += sends[r].bytes;
                load.in += receives[r].bytes;
                sent += sends[r].bytes > 0 ? 1 : 0;
                received += receives[r].bytes > 0 ? 1 : 0;
            }
        load.messages = std::max(sent, received);
        auto request = std::make_unique<DelayedRequest>(link_, load, sends.size());
        std::vector<ConstPiece> own(sends.size(), as_piece(request->begun()));
        std::vector<Piece> others;
        for (std::size_t r = 0; r < sends.size(); ++r)
            others.push_back(as_piece(request->begun(r)));
        request->add(data_->exchange(sends, receives, tag));
        request->add(clocks_->exchange(own, others, tag));
        return request;
    }

    std::unique_ptr<Request> send(int to, int tag, ConstPiece piece) override
    {
        auto request = std::make_unique<DelayedRequest>(link_, Load{0, piece.bytes, 0}, 0);
        request->add(data_->send(to, tag, piece));
        request->add(clocks_->send(to, tag, as_piece(request->begun())));
        return request;
    }
    std::unique_ptr<Request> receive(int from, int tag, Piece piece) override
    {
        auto request = std::make_unique<DelayedRequest>(link_, Load{1, 0, piece.bytes}, 1);
        request->add(data_->receive(from, tag, piece));
        request->add(clocks_->receive(from, tag, as_piece(request->begun(0))));
        return request;
    }

    std::unique_ptr<Comm> subgroup(const std::vector<int>& members) override
    {
        return std::make_unique<DelayComm>(data_->subgroup(members), clocks_->subgroup(members), link_);
    }

private:
    std::unique_ptr<Comm> data_, clocks_;
    std::shared_ptr<SlowLink> link_;
};

} // namespace

std::unique_ptr<Comm> make_delay_comm(Comm& comm, std::shared_ptr<SlowLink> link)
{
    std::vector<int> all(static_cast<std::size_t>(comm.size()));
    std::iota(all.begin(), all.end(), 0);
    return std::make_unique<DelayComm>(comm.subgroup(all), comm.subgroup(all), std::move(link));
}

} // namespace trivium
