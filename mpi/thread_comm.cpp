// Ranks as threads of one process, for tests and tools: the same rules as between processes; sizes are
// checked.
#include "mpi/mailbox.hpp"

#include "base/check.hpp"

#include <numeric>
#include <thread>

namespace trivium {

namespace {

class ThreadRequest final : public Request {
public:
    ThreadRequest(std::shared_ptr<Mailbox> mailbox, std::size_t moves)
        : mailbox_(std::move(mailbox)), moves_(moves)
    {
    }
    ~ThreadRequest() override
    {
        for (Mailbox::Move& move : moves_)
            if (move.line)
                mailbox_->withdraw(move);
    }
    Mailbox::Move& next() { return moves_[posted_++]; }

    bool test() override
    {
        while (over_ < posted_ && mailbox_->test(moves_[over_]))
            ++over_;
        return over_ == posted_;
    }
    void wait() override
    {
        mailbox_->wait(std::span(moves_).subspan(over_, posted_ - over_));
        over_ = posted_;
    }

private:
    std::shared_ptr<Mailbox> mailbox_;
    std::vector<Mailbox::Move> moves_; ///< never grows, because others point into it
    std::size_t posted_ = 0, over_ = 0;
};

class ThreadComm final : public Comm {
public:
    ThreadComm(std::shared_ptr<Mailbox> mailbox, int group, int rank, std::vector<int> threads,
               std::vector<int> world_ranks)
        : Comm(rank, std::move(world_ranks)), mailbox_(std::move(mailbox)), group_(group),
          threads_(std::move(threads))
    {
    }

    std::unique_ptr<Request> exchange(std::span<const ConstPiece> sends, std::span<const Piece> receives,
                                      int tag) override
    {
        keep_own(sends, receives, tag);
        const auto ranks = static_cast<std::size_t>(size());
        auto request = std::make_unique<ThreadRequest>(mailbox_, 2 * ranks);
        for (int i = 1; i < size(); ++i) {
            const int to = (rank() + i) % size(), from = (rank() + size() - i) % size();
            post_send(*request, to, -1 - tag, sends[static_cast<std::size_t>(to)]);
            post_receive(*request, from, -1 - tag, receives[static_cast<std::size_t>(from)]);
        }
        return request;
    }

    std::unique_ptr<Request> send(int to, int tag, ConstPiece piece) override
    {
        check_peer(to, tag);
        auto request = std::make_unique<ThreadRequest>(mailbox_, 1);
        post_send(*request, to, tag, piece);
        return request;
    }
    std::unique_ptr<Request> receive(int from, int tag, Piece piece) override
    {
        check_peer(from, tag);
        auto request = std::make_unique<ThreadRequest>(mailbox_, 1);
        post_receive(*request, from, tag, piece);
        return request;
    }

    std::unique_ptr<Comm> subgroup(const std::vector<int>& members) override
    {
        const int place = place_among(members);
        std::vector<int> threads;
        for (const int member : members)
            threads.push_back(threads_[static_cast<std::size_t>(member)]);
        return make_thread_comm(mailbox_, mailbox_->group(group_, subgroups_++, members.front()), place,
                                std::move(threads), in_world(members));
    }

private:
    void post_send(ThreadRequest& request, int to, int line, ConstPiece piece)
    {
        static const std::byte nothing{};
        Mailbox::Move& move = next_move(request, to, piece.bytes);
        move.source = piece.data ? piece.data : &nothing;
        mailbox_->post({group_, rank(), to, line}, move);
    }
    void post_receive(ThreadRequest& request, int from, int line, Piece piece)
    {
        Mailbox::Move& move = next_move(request, from, piece.bytes);
        move.target = piece.data;
        mailbox_->post({group_, from, rank(), line}, move);
    }
    Mailbox::Move& next_move(ThreadRequest& request, int peer, Bytes bytes) const
    {
        Mailbox::Move& move = request.next();
        move.bytes = bytes;
        move.owner = threads_[static_cast<std::size_t>(rank())];
        move.peer = threads_[static_cast<std::size_t>(peer)];
        return move;
    }

    std::shared_ptr<Mailbox> mailbox_;
    int group_, subgroups_ = 0;
    std::vector<int> threads_; ///< thread index in the mailbox, by rank
};

} // namespace

std::unique_ptr<Comm> make_thread_comm(std::shared_ptr<Mailbox> mailbox, int group, int rank,
                                       std::vector<int> threads, std::vector<int> world_ranks)
{
    return std::make_unique<ThreadComm>(std::move(mailbox), group, rank, std::move(threads),
                                        std::move(world_ranks));
}

void run_on_threads(int ranks, const std::function<void(Comm&)>& body)
{
    TRV_CHECK(ranks > 0, ranks, " threads");
    auto mailbox = std::make_shared<Mailbox>(ranks);
    std::vector<int> all(static_cast<std::size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    {
        std::vector<std::jthread> threads;
        for (int rank = 0; rank < ranks; ++rank)
            threads.emplace_back([&, rank] {
                try {
                    ThreadComm comm(mailbox, 0, rank, all, all);
                    body(comm);
                } catch (...) {
                    mailbox->fail(std::current_exception());
                }
                mailbox->end(rank);
            });
    }
    if (mailbox->failure())
        std::rethrow_exception(mailbox->failure());
}

} // namespace trivium
