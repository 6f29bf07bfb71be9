#pragma once
// A team on a GPU: the threads of one block. tests/kernels/teams/team.hpp has the same names for a host that
// plays the threads one after the other.
//
// The launch is CUDA's own, on the stream of Kokkos' execution space. With each launch of a TeamPolicy
// Kokkos 4.7 allocates its scratch, also where there is none, which no stream that is being captured into a
// graph may do; and functors of more than 512 bytes it sends by a copy that the host waits for.
#include "base/check.hpp"
#include "kernels/device/cuda_check.hpp"
#include "kernels/device/stream.hpp"

#include <Kokkos_Core.hpp>
#include <cstdlib>
#include <limits>

#ifdef __CUDA_ARCH__
#define TRV_UNROLL _Pragma("unroll")
#define TRV_ROLLED                                                                                           \
    _Pragma("unroll 1") // else a loop with a stride begins with a division for how often it runs
#else
#define TRV_UNROLL
#define TRV_ROLLED
#endif

namespace trivium::kernels {
inline namespace on_teams {

/// One thread's view of its team; there is none on the host. What says "all" is called by all threads of the
/// team.
class Team {
public:
    static constexpr int most = 512; ///< threads; their number is a power of two, at least `warp`
    static constexpr int warp = 32;
    static constexpr int at_tasks = 256; ///< threads of a team that works on tasks

    KOKKOS_FUNCTION int rank() const
    {
        KOKKOS_IF_ON_DEVICE((return static_cast<int>(threadIdx.x);))
        KOKKOS_IF_ON_HOST((std::abort();))
    }
    KOKKOS_FUNCTION int size() const
    {
        KOKKOS_IF_ON_DEVICE((return static_cast<int>(blockDim.x);))
        KOKKOS_IF_ON_HOST((std::abort();))
    }
    /// All: what any thread wrote before is seen by all after.
    KOKKOS_FUNCTION void sync() const { KOKKOS_IF_ON_DEVICE((__syncthreads();)) }
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
};

} // namespace on_teams

/// Two teams of the most threads fit beside each other, where a thread has no more than 64 registers.
template <class F>
__global__ void __launch_bounds__(Team::most, 2) run_team(const __grid_constant__ F f)
{
    f(Team(), static_cast<i64>(blockIdx.x));
}

inline namespace on_teams {

/// f(team, index) for index in [0, teams), each by a team of `threads` threads. What f captures travels as an
/// argument of the launch: less than 4 KB.
template <class F>
void launch_teams(const Exec& exec, const char* label, i64 teams, int threads, const F& f)
{
    static_assert(sizeof(F) < 4096);
    if (teams == 0)
        return;
    TRV_CHECK(teams <= std::numeric_limits<int>::max(), label, ": ", teams, " teams");
    run_team<<<static_cast<unsigned>(teams), static_cast<unsigned>(threads), 0, stream_of(exec)>>>(f);
    check_cuda(cudaGetLastError(), label);
}

} // namespace on_teams
} // namespace trivium::kernels
