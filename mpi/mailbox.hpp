#pragma once
// Where the threads of one process meet to move bytes: a send and a receive of one line match in order, and
// whichever comes second copies.
#include "mpi/comm.hpp"

#include <array>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>

namespace trivium {

class Mailbox {
public:
    /// Group, sender, receiver, and channel or (negative) lane.
    using Address = std::array<int, 4>;
    enum class State { waiting, copying, over };
    struct Move;
    struct Line {
        std::deque<Move*> sends, receives;
    };
    /// One side of a copy; its owner keeps it in place until it is over or withdrawn.
    struct Move {
        const std::byte* source = nullptr; ///< of a send
        std::byte* target = nullptr;       ///< of a receive
        Bytes bytes = 0;
        int owner = 0, peer = 0; ///< the thread that may wait for it, and the one that is to match it
        Line* line = nullptr;
        State state = State::waiting;
    };

    explicit Mailbox(int threads)
        : wake_(static_cast<std::size_t>(threads)), ended_(static_cast<std::size_t>(threads))
    {
    }

    void post_send(const Address& address, Move& move) { post(address, move, &Line::sends, &Line::receives); }
    void post_receive(const Address& address, Move& move)
    {
        post(address, move, &Line::receives, &Line::sends);
    }
    bool test(const Move& move);
    void wait(const Move& move);
    /// Nobody touches the move afterwards.
    void withdraw(Move& move);

    /// Records the first failure, and wakes all who wait.
    void fail(std::exception_ptr error);
    /// This thread posts nothing any more: who waits for it in vain is told so.
    void end(int thread);
    std::exception_ptr failure() const { return failure_; }

    /// The number of a new group: the same for all its members, who are told apart from other groups by the
    /// lowest.
    int group(int parent, int call, int lowest_member);

private:
    /// Nobody will match it. Called with the mutex held.
    bool in_vain(const Move& move) const
    {
        return move.state == State::waiting && (failure_ || ended_[static_cast<std::size_t>(move.peer)]);
    }
    [[noreturn]] void give_up(const Move& move) const;

    using Side = std::deque<Move*> Line::*;
    void post(const Address& address, Move& move, Side own, Side other);
    std::condition_variable& wake(const Move& move) { return wake_[static_cast<std::size_t>(move.owner)]; }

    std::mutex mutex_;
    std::vector<std::condition_variable> wake_; ///< a thread each
    std::vector<bool> ended_;
    std::map<Address, Line> lines_;
    std::map<std::array<int, 3>, int> groups_;
    std::exception_ptr failure_;
};

/// The communicator of member `rank` of group `group`, whose members are the mailbox's threads `threads`.
std::unique_ptr<Comm> make_thread_comm(std::shared_ptr<Mailbox> mailbox, int group, int rank,
                                       std::vector<int> threads, std::vector<int> world_ranks);

} // namespace trivium
