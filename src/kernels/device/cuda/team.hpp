#pragma once
// A team on a GPU: the threads of one block. tests/kernels/teams/team.hpp has the same names for a host that
// runs the threads one after the other.
//
// Launches directly with CUDA, on the stream of Kokkos' execution space, because with a TeamPolicy Kokkos 4.7
// allocates scratch at each launch (even if none is needed), which is not allowed during graph capture, and
// sends functors of more than 512 bytes by a synchronous copy.
#include "base/check.hpp"
#include "kernels/device/cuda_check.hpp"
#include "kernels/device/stream.hpp"

#include <Kokkos_Core.hpp>
#include <cstdlib>
#include <limits>

#ifdef __CUDA_ARCH__
#define TRV_UNROLL _Pragma("unroll")
#define TRV_ROLLED _Pragma("unroll 1") // otherwise a strided loop begins with a division for its trip count
#else
#define TRV_UNROLL
#define TRV_ROLLED
#endif

namespace trivium::kernels {
inline namespace on_teams {

/// One thread's view of its team; not available on the host. "All": all threads of the team must call it.
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
    /// All: barrier; makes earlier writes visible to all threads.
    KOKKOS_FUNCTION void sync() const { KOKKOS_IF_ON_DEVICE((__syncthreads();)) }
    /// All threads of a warp: the value of the thread whose rank differs by the bits of `mask` < warp.
    template <class A>
    KOKKOS_FUNCTION A across([[maybe_unused]] A value, [[maybe_unused]] int mask) const
    {
        KOKKOS_IF_ON_DEVICE((return __shfl_xor_sync(~0u, value, mask);))
        KOKKOS_IF_ON_HOST((std::abort();))
    }
    /// All threads of a warp: bit i is the vote of thread i.
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
    /// All: whether any thread votes true. Also a barrier.
    KOKKOS_FUNCTION bool any([[maybe_unused]] bool vote) const
    {
        KOKKOS_IF_ON_DEVICE((return __syncthreads_or(vote) != 0;))
        KOKKOS_IF_ON_HOST((std::abort();))
    }
    /// n numbers in shared memory, separate for each Purpose.
    template <class Purpose, class A, int n>
    KOKKOS_FUNCTION A* shared() const
    {
        KOKKOS_IF_ON_DEVICE((__shared__ A numbers[n]; return numbers;))
        KOKKOS_IF_ON_HOST((std::abort();))
    }
};

} // namespace on_teams

/// Two teams of maximum size fit a multiprocessor if a thread uses at most 64 registers.
template <class F>
__global__ void __launch_bounds__(Team::most, 2) run_team(const __grid_constant__ F f)
{
    f(Team(), static_cast<i64>(blockIdx.x));
}

inline namespace on_teams {

/// f(team, index) for index in [0, teams), each by a team of `threads` threads. f is a kernel argument and
/// must be smaller than 4 KB.
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
