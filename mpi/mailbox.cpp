#include "mpi/mailbox.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace trivium {

ThreadsFailed::ThreadsFailed() : Error("another rank has failed", 1) {}

void Mailbox::post(const Address& address, Move& move)
{
    std::unique_lock lock(mutex_);
    if (failure_)
        throw ThreadsFailed();
    Line& line = lines_[address];
    move.line = &line;
    auto &own = move.source ? line.sends : line.receives, &other = move.source ? line.receives : line.sends;
    if (other.empty()) {
        own.push_back(&move);
        return;
    }
    Move& partner = *other.front();
    TRV_CHECK(partner.bytes == move.bytes, "ranks ", address[1], " and ", address[2], " transfer ",
              move.bytes, " and ", partner.bytes, " bytes");
    other.pop_front();
    move.state = partner.state = State::copying;
    const Move &send = move.source ? move : partner, &receive = move.source ? partner : move;
    lock.unlock();
    if (move.bytes > 0)
        std::memmove(receive.target, send.source, static_cast<std::size_t>(move.bytes));
    lock.lock();
    move.state = partner.state = State::over;
    if (!partner.awaited || --owner(partner).awaited > 0)
        return;
    std::condition_variable& wake = owner(partner).wake;
    lock.unlock(); // the thread that wakes needs it
    wake.notify_all();
}

bool Mailbox::test(const Move& move)
{
    const std::scoped_lock lock(mutex_);
    if (is_lost(move))
        give_up(move);
    return move.state == State::over;
}

void Mailbox::wait(std::span<Move> moves)
{
    std::unique_lock lock(mutex_);
    Thread* thread = nullptr;
    for (Move& move : moves) {
        if (move.state == State::over)
            continue;
        TRV_CHECK(threads_.size() > 1, "a single rank waits for a message that it did not send");
        thread = &owner(move);
        move.awaited = true;
        ++thread->awaited;
    }
    if (!thread)
        return;
    const auto lost = [&] {
        return std::find_if(moves.begin(), moves.end(), [&](const Move& move) { return is_lost(move); });
    };
    thread->wake.wait(lock, [&] { return thread->awaited == 0 || lost() != moves.end(); });
    if (thread->awaited == 0)
        return;
    thread->awaited = 0;
    for (Move& move : moves)
        move.awaited = false;
    give_up(*lost());
}

void Mailbox::give_up(const Move& move) const
{
    if (failure_)
        throw ThreadsFailed();
    TRV_CHECK(false, "rank ", move.owner, " waits for rank ", move.peer, ", which has ended");
    std::abort();
}

void Mailbox::withdraw(Move& move)
{
    std::unique_lock lock(mutex_);
    if (move.state == State::copying) {
        move.awaited = true;
        ++owner(move).awaited;
        owner(move).wake.wait(lock, [&] { return move.state == State::over; });
    }
    if (move.line && move.state == State::waiting) {
        std::erase(move.line->sends, &move);
        std::erase(move.line->receives, &move);
    }
}

void Mailbox::fail(std::exception_ptr error)
{
    const std::scoped_lock lock(mutex_);
    if (!failure_)
        failure_ = std::move(error);
    for (Thread& thread : threads_)
        thread.wake.notify_all();
}

void Mailbox::end(int thread)
{
    const std::scoped_lock lock(mutex_);
    threads_[static_cast<std::size_t>(thread)].has_ended = true;
    for (Thread& each : threads_)
        each.wake.notify_all();
}

int Mailbox::group(int parent, int call, int lowest_member)
{
    const std::scoped_lock lock(mutex_);
    return groups_.try_emplace({parent, call, lowest_member}, static_cast<int>(groups_.size()) + 1)
        .first->second;
}

} // namespace trivium
