#include "mpi/mailbox.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace trivium {

ThreadsFailed::ThreadsFailed() : Error("another rank has failed", 1) {}

void Mailbox::post(const Address& address, Move& move, Side own, Side other)
{
    std::unique_lock lock(mutex_);
    if (failure_)
        throw ThreadsFailed();
    Line& line = lines_[address];
    move.line = &line;
    if ((line.*other).empty()) {
        (line.*own).push_back(&move);
        return;
    }
    Move& partner = *(line.*other).front();
    TRV_CHECK(partner.bytes == move.bytes, "ranks ", address[1], " and ", address[2], " transfer ",
              move.bytes, " and ", partner.bytes, " bytes");
    (line.*other).pop_front();
    move.state = partner.state = State::copying;
    const Move &send = move.source ? move : partner, &receive = move.source ? partner : move;
    lock.unlock();
    if (move.bytes > 0)
        std::memmove(receive.target, send.source, static_cast<std::size_t>(move.bytes));
    lock.lock();
    move.state = partner.state = State::over;
    wake(partner).notify_all();
}

bool Mailbox::test(const Move& move)
{
    const std::scoped_lock lock(mutex_);
    if (in_vain(move))
        give_up(move);
    return move.state == State::over;
}

void Mailbox::wait(const Move& move)
{
    std::unique_lock lock(mutex_);
    TRV_CHECK(wake_.size() > 1 || move.state == State::over,
              "a single rank waits for a message that it did not send");
    wake(move).wait(lock, [&] { return move.state == State::over || in_vain(move); });
    if (move.state != State::over)
        give_up(move);
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
    wake(move).wait(lock, [&] { return move.state != State::copying; });
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
    for (std::condition_variable& wake : wake_)
        wake.notify_all();
}

void Mailbox::end(int thread)
{
    const std::scoped_lock lock(mutex_);
    ended_[static_cast<std::size_t>(thread)] = true;
    for (std::condition_variable& wake : wake_)
        wake.notify_all();
}

int Mailbox::group(int parent, int call, int lowest_member)
{
    const std::scoped_lock lock(mutex_);
    return groups_.try_emplace({parent, call, lowest_member}, static_cast<int>(groups_.size()) + 1)
        .first->second;
}

} // namespace trivium
