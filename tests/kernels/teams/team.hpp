#pragma once
// A team on a host, for tests: the names of src/kernels/device/cuda/team.hpp, threads that take turns. Which
// thread runs first depends on Exec::threads, so that a result with a missing barrier differs with it.
#include "base/check.hpp"
#include "kernels/exec.hpp"
#include "player.hpp"

#include <Kokkos_Core.hpp>
#include <cstring>

#define TRV_UNROLL
#define TRV_ROLLED

namespace trivium::kernels {
inline namespace on_teams {

/// One thread's view of its team.
class Team {
public:
    static constexpr int most = Player::most, warp = Player::warp;
    static constexpr int at_tasks = 2 * warp; // every switch costs time

    Team(int rank, int size) : rank_(rank), size_(size) {}

    int rank() const { return rank_; }
    int size() const { return size_; }

    void sync() const { Player::get().wait_for_team(); }
    template <class A>
    A across(A value, int mask) const
    {
        Slot* const slots = by_turns<Team, Slot>();
        std::memcpy(&slots[rank_], &value, sizeof value);
        Player::get().wait_for_warp(rank_);
        std::memcpy(&value, &slots[rank_ ^ mask], sizeof value);
        return value;
    }
    std::uint32_t votes(bool vote) const
    {
        std::uint32_t all = static_cast<std::uint32_t>(vote) << rank_ % warp;
        for (int mask = 1; mask < warp; mask *= 2)
            all |= across(all, mask);
        return all;
    }
    static int bits(std::uint32_t votes) { return __builtin_popcount(votes); }
    bool any(bool vote) const
    {
        bool* const votes = by_turns<bool, bool>();
        votes[rank_] = vote;
        sync();
        bool some = false;
        for (int i = 0; i < size_; ++i)
            some |= votes[i];
        return some;
    }
    template <class Purpose, class A, int n>
    A* shared() const
    {
        alignas(16) static A numbers[n];
        return numbers;
    }

private:
    struct Slot {
        char bytes[8];
    };
    /// Storage for each thread, alternating, because other threads may still read the previous one.
    template <class Purpose, class A>
    A* by_turns() const
    {
        turn_ ^= 1;
        return shared<Purpose, A, 2 * most>() + turn_ * most;
    }

    int rank_, size_;
    mutable int turn_ = 0;
};

template <class F>
void launch_teams(const Exec& exec, const char* label, i64 teams, int threads, const F& f)
{
    static_assert(sizeof(F) < 3840, "the arguments of a launch");
    TRV_CHECK(threads >= Team::warp && threads <= Team::most && (threads & (threads - 1)) == 0, label, ": ",
              threads, " threads");
    for (i64 index = 0; index < teams; ++index)
        Player::get().play(threads, exec.threads, [&](int rank) { f(Team(rank, threads), index); });
}

} // namespace on_teams
} // namespace trivium::kernels
