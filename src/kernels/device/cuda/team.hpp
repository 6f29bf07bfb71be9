#pragma once
// A team on a GPU: the threads of one block, launched through Kokkos. tests/kernels/team/team.hpp has the same names for
// a host that plays the threads one after the other.
#include "base/check.hpp"
#include "kernels/exec.hpp"

#include <Kokkos_Core.hpp>
#include <cstdlib>
#include <limits>

#ifdef __CUDA_ARCH__
#define TRV_UNROLL _Pragma("unroll")
#else
#define TRV_UNROLL
#endif

namespace trivium::kernels {
inline namespace on_teams {

using Space = Kokkos::DefaultExecutionSpace;

inline Space space_of(const Exec& exec)
{
    return exec.stream ? *static_cast<const Space*>(exec.stream) : Space();
}

/// One thread's view of its team; there is none on the host. What says "all" is called by all threads of the team.
class Team {
public:
    using Member = Kokkos::TeamPolicy<Space>::member_type;
    static constexpr int most = 512; ///< threads; their number is a power of two, at least `warp`
    static constexpr int warp = 32;

    KOKKOS_FUNCTION explicit Team(const Member& member) : member_(member) {}

    KOKKOS_FUNCTION int rank() const { return member_.team_rank(); }
    KOKKOS_FUNCTION int size() const { return member_.team_size(); }

    /// All: what any thread wrote before is seen by all after.
    KOKKOS_FUNCTION void sync() const { member_.team_barrier(); }
    /// All threads of a warp: the value of the thread whose rank differs by the bits of `mask` < warp.
    template <class A>
    KOKKOS_FUNCTION A across([[maybe_unused]] A value, [[maybe_unused]] int mask) const
    {
        KOKKOS_IF_ON_DEVICE((return __shfl_xor_sync(~0u, value, mask);))
        KOKKOS_IF_ON_HOST((std::abort();))
    }
    /// All threads of a warp: bit i says what thread i of it holds.
    KOKKOS_FUNCTION std::uint32_t votes([[maybe_unused]] bool vote) const
    {
        KOKKOS_IF_ON_DEVICE((return __ballot_sync(~0u, vote);))
        KOKKOS_IF_ON_HOST((std::abort();))
    }
    KOKKOS_FUNCTION static int bits([[maybe_unused]] std::uint32_t votes)
    {
        KOKKOS_IF_ON_DEVICE((return __popc(votes);))
        KOKKOS_IF_ON_HOST((std::abort();))
    }
    /// All: whether any thread says so. A sync.
    KOKKOS_FUNCTION bool any([[maybe_unused]] bool vote) const
    {
        KOKKOS_IF_ON_DEVICE((return __syncthreads_or(vote) != 0;))
        KOKKOS_IF_ON_HOST((std::abort();))
    }
    /// n numbers that the team shares, other ones for each Purpose.
    template <class Purpose, class A, int n>
    KOKKOS_FUNCTION A* shared() const
    {
        KOKKOS_IF_ON_DEVICE((__shared__ A numbers[n]; return numbers;))
        KOKKOS_IF_ON_HOST((std::abort();))
    }

private:
    const Member& member_;
};

/// f(team, index) for index in [0, teams), each by a team of `threads` threads. What f captures travels as an argument
/// of the launch: less than 4 KB.
template <class F>
void launch_teams(const Exec& exec, const char* label, i64 teams, int threads, const F& f)
{
    if (teams == 0)
        return;
    TRV_CHECK(teams <= std::numeric_limits<int>::max(), label, ": ", teams, " teams");
    using Policy = Kokkos::TeamPolicy<Space, Kokkos::LaunchBounds<Team::most, 2>>;
    // Two teams of the most threads fit beside each other, where a thread has no more than 64 registers.
    // Kokkos would send what is larger than 512 B another way, for which the host waits.
    const auto policy = Kokkos::Experimental::require(Policy(space_of(exec), static_cast<int>(teams), threads, 1),
                                                      Kokkos::Experimental::WorkItemProperty::HintLightWeight);
    Kokkos::parallel_for(label, policy, KOKKOS_LAMBDA(const Team::Member& member) {
        f(Team(member), static_cast<i64>(member.league_rank()));
    });
}

} // namespace on_teams
} // namespace trivium::kernels
