#pragma once
// Transfers between threads of one process: a send and a receive at the same address match in order, and the
// thread that posts second copies.
#include "mpi/comm.hpp"

#include <array>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <span>
#include <vector>

namespace trivium {

class Mailbox {
public:
    /// Group, ranks of sender and receiver in it, and tag (negative for exchanges).
    using Address = std::array<int, 4>;
    enum class State { waiting, copying, over };
    struct Move;
    /// Unmatched moves of an address.
    struct Line {
        std::deque<Move*> sends, receives;
    };
    /// One side of a copy. Its owner keeps it at its address until the copy is over or the move is withdrawn.
    struct Move {
        const std::byte* source = nullptr; ///< of a send
        std::byte* target = nullptr;       ///< of a receive
        Bytes bytes = 0;
        int owner = 0, peer = 0; ///< the thread that may wait for it, and the thread that must match it
        Line* line = nullptr;
        State state = State::waiting;
        bool awaited = false; ///< its owner is blocked in wait()
    };

    explicit Mailbox(int threads) : threads_(static_cast<std::size_t>(threads)) {}

    void post(const Address& address, Move& move); ///< a send if the move has a source
    /// Whether the copy is over. While the move is unmatched, test() and wait() throw ThreadsFailed after
    /// fail(), and InternalError if the peer has ended.
    bool test(const Move& move);
    /// Returns when all copies are over. \pre all moves have the same owner
    void wait(std::span<Move> moves);
    /// No other thread uses the move afterwards; waits for a copy that has begun.
    void withdraw(Move& move);

    /// Records the first failure and wakes all waiting threads.
    void fail(std::exception_ptr error);
    /// This thread posts nothing more: threads that wait for it get an error.
    void end(int thread);
    std::exception_ptr failure() const { return failure_; }

    /// The number of a new group, the same for all its members: the members of subgroup() call `call` of
    /// `parent` whose lowest member is this.
    int group(int parent, int call, int lowest_member);

private:
    /// Whether no thread will ever match the move. Called with the mutex held.
    bool is_lost(const Move& move) const
    {
        return move.state == State::waiting &&
               (failure_ || threads_[static_cast<std::size_t>(move.peer)].has_ended);
    }
    [[noreturn]] void give_up(const Move& move) const;

    struct Thread {
        std::condition_variable wake;
        int awaited = 0; ///< moves until it wakes
        bool has_ended = false;
    };
    Thread& owner(const Move& move) { return threads_[static_cast<std::size_t>(move.owner)]; }

    std::mutex mutex_;
    std::vector<Thread> threads_;
    std::map<Address, Line> lines_;
    std::map<std::array<int, 3>, int> groups_;
    std::exception_ptr failure_;
};

/// The communicator of member `rank` of group `group`, whose members are the mailbox's threads `threads`.
std::unique_ptr<Comm> make_thread_comm(std::shared_ptr<Mailbox> mailbox, int group, int rank,
                                       std::vector<int> threads, std::vector<int> world_ranks);

} // namespace trivium
