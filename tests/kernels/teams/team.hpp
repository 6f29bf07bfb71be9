#pragma once
// A team of as many threads as lanes on a host, for tests: the names of src/kernels/device/kokkos/team.hpp,
// threads that take turns. Which one runs first depends on Exec::threads, so that a result with a missing
// barrier differs with it.
#include "base/check.hpp"
#include "kernels/exec.hpp"
#include "player.hpp"

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <cstring>
#include <new>

namespace trivium::kernels {
inline namespace on_teams {

/// One thread's view of its team, in which every thread is a lane.
class Team {
public:
    static constexpr int most = Player::most, fewest = 32;
    static constexpr int at_tasks = 64; // every switch costs time

    Team(int rank, int size, char* shared) : rank_(rank), size_(size), shared_(shared) {}

    int rank() const { return rank_; }
    int size() const { return size_; }
    int lanes() const { return size_; }
    char* shared() const { return shared_; }
    void sync() const { Player::get().wait_for_team(); }

    template <class F>
    void each_lane(F f) const
    {
        f(rank_);
    }
    template <class A, class F, class Join>
    A join(A none, F of, Join joined) const
    {
        const A* const parts = exchanged<A>(of);
        A all = none;
        for (int lane = 0; lane < size_; ++lane)
            all = joined(all, parts[lane]);
        return all;
    }
    template <class F>
    bool any(F of) const
    {
        return join(
                   0, [&](int lane) { return of(lane) ? 1 : 0; }, [](int a, int b) { return a | b; }) != 0;
    }
    template <class Count, class F>
    int number(Count count, F f) const
    {
        const int* const counts = exchanged<int>(count);
        int before = 0, all = 0;
        for (int lane = 0; lane < size_; ++lane) {
            before += lane < rank_ ? counts[lane] : 0;
            all += counts[lane];
        }
        f(rank_, before);
        return all;
    }

private:
    /// Two arrays in turn, because other threads may still read the previous one.
    template <class A, class F>
    const A* exchanged(F of) const
    {
        alignas(16) static std::byte places[2][most][16];
        static_assert(sizeof(A) <= sizeof places[0][0]);
        turn_ ^= 1;
        A* const parts = reinterpret_cast<A*>(places[turn_]);
        parts[rank_] = of(rank_);
        sync();
        return parts;
    }

    int rank_, size_;
    char* shared_;
    mutable int turn_ = 0;
};

template <class F>
void launch_teams(const Exec& exec, const char* label, i64 teams, int lanes, const F& f, Bytes shared = 0)
{
    static_assert(sizeof(F) < 3712, "the arguments of a launch");
    TRV_CHECK(lanes >= Team::fewest && lanes <= Team::most && (lanes & (lanes - 1)) == 0, label, ": ", lanes,
              " lanes");
    // Of this size exactly, so that an address sanitizer detects accesses beyond it.
    const auto size = static_cast<std::size_t>(shared);
    char* const memory = static_cast<char*>(::operator new(size, std::align_val_t(16)));
    for (i64 index = 0; index < teams; ++index) {
        std::memset(memory, 0xff, size); // NaN
        Player::get().play(lanes, exec.threads, [&](int rank) { f(Team(rank, lanes, memory), index); });
    }
    ::operator delete(memory, std::align_val_t(16));
}

template <class F>
void launch_range(const Exec& exec, const char* label, i64 n, const F& f)
{
    static_assert(sizeof(F) < 3712, "the arguments of a launch");
    (void)label;
    for (i64 i = 0; i < n; ++i)
        f(exec.threads == 1 ? i : n - 1 - i);
}

} // namespace on_teams
} // namespace trivium::kernels
