#pragma once
// A team: lanes that share memory and barriers. The number of lanes depends on a kernel's sizes alone, and so
// do the bits of its results. On a device every thread is a lane; a host space has fewer threads, each of
// which works for several lanes. tests/kernels/teams/team.hpp has the same names for threads that take turns.
#include "base/check.hpp"
#include "kernels/device/kokkos/space.hpp"
#include "native_lanes.hpp"

#include <algorithm>
#include <limits>

namespace trivium::kernels {
inline namespace on_teams {

/// One thread's view of its team. "All:" marks functions that all threads of the team must call.
class Team {
public:
    static constexpr int most = 512;     ///< lanes; their number is a power of two, at least `fewest`
    static constexpr int fewest = 64;    ///< lanes
    static constexpr int at_tasks = 256; ///< lanes of a team that works on tasks
    using Member = Kokkos::TeamPolicy<DeviceSpace>::member_type;

    /// Neighbouring lanes of a device that exchange values without shared memory.
    static constexpr int neighbours = 32;
    /// Shared memory of join(), and on a host of number().
    static constexpr Bytes joining_on_device = 2 * most / neighbours * 16;
    static constexpr Bytes joining_bytes = space_is_device ? joining_on_device : 2 * most * 16;
    /// Level of Kokkos' scratch. On a host both levels are the same memory, and level 0 has only 32 KiB.
    static constexpr int scratch_level = space_is_device ? 0 : 1;

    /// Alignment of shared memory. A launch asks for as many bytes more, because Kokkos' scratch is not
    /// aligned.
    static constexpr Bytes alignment = 16;

    /// Maximum bytes of a launch: the default limit of devices, less the bytes of join(), alignment and
    /// Kokkos.
    static constexpr Bytes largest_shared(int lanes)
    {
        return (Bytes{48} << 10) - joining_on_device - alignment - Bytes{8} * (lanes + 2);
    }

    KOKKOS_FUNCTION Team(const Member& member, int lanes, Bytes shared_bytes)
        : member_(member), lanes_(lanes),
          shared_(static_cast<char*>(member.team_scratch(int{scratch_level})
                                         .get_shmem_aligned(shared_bytes + joining_bytes, int{alignment})))
    {
    }

    KOKKOS_FUNCTION int rank() const { return member_.team_rank(); }
    KOKKOS_FUNCTION int size() const { return member_.team_size(); }
    KOKKOS_FUNCTION int lanes() const { return lanes_; }
    /// All: barrier; makes earlier writes visible to all threads.
    KOKKOS_FUNCTION void sync() const { member_.team_barrier(); }
    /// The shared memory of the launch, aligned to 16 bytes.
    KOKKOS_FUNCTION char* shared() const { return shared_ + joining_bytes; }

    /// Calls f(lane) for the lanes of this thread.
    template <class F>
    KOKKOS_FUNCTION void each_lane(F f) const
    {
        if constexpr (space_is_device)
            f(rank());
        else
            for (int lane = rank(); lane < lanes_; lane += size())
                f(lane);
    }

    /// All: of(lane) of every lane, joined in an order that depends on their number alone. All get the
    /// result. `none` is neutral; A has at most 16 bytes, a multiple of 4.
    template <class A, class F, class Join>
    KOKKOS_FUNCTION A join(A none, F of, Join joined) const
    {
        static_assert(sizeof(A) <= 16);
        A all = none;
        if constexpr (space_is_device) {
            A mine = of(rank());
            for (int mask = 1; mask < neighbours; mask *= 2) { // the lower lane's first, in both lanes
                const A theirs = from_lane_xor(mine, mask);
                mine = (rank() & mask) != 0 ? joined(theirs, mine) : joined(mine, theirs);
            }
            A* const parts = next_parts<A>();
            if (rank() % neighbours == 0)
                parts[rank() / neighbours] = mine;
            sync();
            for (int part = 0; part < lanes_ / neighbours; ++part)
                all = joined(all, parts[part]);
        } else {
            const A* const parts = exchanged<A>(of);
            for (int lane = 0; lane < lanes_; ++lane)
                all = joined(all, parts[lane]);
        }
        return all;
    }
    /// All: whether of(lane) holds for any lane.
    template <class F>
    KOKKOS_FUNCTION bool any(F of) const
    {
        return join(
                   0, [&](int lane) { return of(lane) ? 1 : 0; }, [](int a, int b) { return a | b; }) != 0;
    }
    /// All: an exclusive prefix sum. Calls f(lane, sum of count(l) over l < lane) for the lanes of this
    /// thread, after all threads have counted. Returns the sum over all lanes.
    template <class Count, class F>
    KOKKOS_FUNCTION int number(Count count, F f) const
    {
        int all = 0;
        if constexpr (space_is_device) {
            const int own = count(rank()), before = member_.team_scan(own);
            f(rank(), before);
            all = before + own;
            member_.team_broadcast(all, lanes_ - 1);
        } else {
            const int* const counts = exchanged<int>(count);
            for (int lane = 0; lane < lanes_; all += counts[lane++])
                if (lane % size() == rank())
                    f(lane, all);
        }
        return all;
    }

private:
    /// of_lane_xor() for a value of several words.
    template <class A>
    KOKKOS_FUNCTION static A from_lane_xor(const A& value, int mask)
    {
        static_assert(sizeof(A) % 4 == 0);
        struct Words {
            std::uint32_t of[sizeof(A) / 4];
        };
        auto words = __builtin_bit_cast(Words, value);
        for (std::uint32_t& word : words.of)
            word = of_lane_xor(word, mask);
        return __builtin_bit_cast(A, words);
    }

    /// Two arrays in turn: a fast thread may write one while a slow thread still reads the other.
    template <class A>
    KOKKOS_FUNCTION A* next_parts() const
    {
        return reinterpret_cast<A*>(shared_ + (turn_ ^= 1) * (joining_bytes / 2));
    }
    /// All: of(lane) of every lane.
    template <class A, class F>
    KOKKOS_FUNCTION const A* exchanged(F of) const
    {
        A* const parts = next_parts<A>();
        for (int lane = rank(); lane < lanes_; lane += size())
            parts[lane] = of(lane);
        sync();
        return parts;
    }

    const Member& member_;
    int lanes_;
    char* shared_;
    mutable int turn_ = 0;
};

namespace detail {

template <class F>
struct RunTeam {
    F f;
    int lanes;
    Bytes shared;

    KOKKOS_FUNCTION void operator()(const Team::Member& member) const
    {
        f(Team(member, lanes, shared), static_cast<i64>(member.league_rank()));
    }
};

} // namespace detail

/// Enqueues f(team, index) for index in [0, teams), each on a team of `lanes` lanes with `shared` bytes of
/// shared memory. \pre `lanes` is a power of two in [Team::fewest, Team::most]
template <class F>
void launch_teams(const Exec& exec, const char* label, i64 teams, int lanes, const F& f, Bytes shared = 0)
{
    // Two teams of maximum size fit a multiprocessor if a thread uses at most 64 registers.
    using Policy = Kokkos::TeamPolicy<DeviceSpace, Kokkos::LaunchBounds<Team::most, 2>>;
    using Kernel = detail::RunTeam<F>;
    static_assert(sizeof(Kernel) < largest_functor);
    if (teams == 0)
        return;
    TRV_CHECK(teams <= std::numeric_limits<int>::max(), label, ": ", teams, " teams");
    TRV_CHECK(shared <= Team::largest_shared(lanes), label, ": ", shared, " bytes of shared memory");
    const Kernel kernel{f, lanes, shared};
    const int league = static_cast<int>(teams);
    const DeviceSpace space = space_of(exec);
    int threads = lanes;
    if constexpr (!space_is_device)
        threads = std::min(
            {lanes, exec.threads, Policy(space, league, 1).team_size_max(kernel, Kokkos::ParallelForTag())});
    Policy policy(space, league, threads);
    policy.set_scratch_size(Team::scratch_level, Kokkos::PerTeam(static_cast<int>(
                                                     shared + Team::joining_bytes + Team::alignment)));
    launched(label, [&] { Kokkos::parallel_for(label, sent_with_launch(policy), kernel); });
}

/// Enqueues f(i) for i in [0, n).
template <class F>
void launch_range(const Exec& exec, const char* label, i64 n, const F& f)
{
    static_assert(sizeof(F) < largest_functor);
    using Policy = Kokkos::RangePolicy<DeviceSpace, Kokkos::IndexType<i64>>;
    if (n > 0)
        launched(label,
                 [&] { Kokkos::parallel_for(label, sent_with_launch(Policy(space_of(exec), 0, n)), f); });
}

} // namespace on_teams
} // namespace trivium::kernels
