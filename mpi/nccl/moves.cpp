#include "mpi/nccl/moves.hpp"

#include "base/check.hpp"
#include "kernels/device/kokkos/team.hpp"
#include "mpi/nccl/tiles.hpp"

namespace trivium {

namespace {

using kernels::Team;

struct CopyTiles {
    tiles::Batch<tiles::DeviceCopy> all;
    i64 teams;

    KOKKOS_FUNCTION void operator()(const Team& team, i64 index) const
    {
        team.each_lane([&](int lane) { tiles::copy_thread(all, {index, teams, lane}); });
    }
};

template <class T, class Op>
struct CombineTiles {
    tiles::Batch<tiles::DeviceCombine> all;
    tiles::Slots slots;
    i64 teams;

    KOKKOS_FUNCTION void operator()(const Team& team, i64 index) const
    {
        team.each_lane([&](int lane) { tiles::combine_thread<T, Op>(all, slots, {index, teams, lane}); });
    }
};

} // namespace

void copy_on_device(std::span<const CopyBlock> blocks, const kernels::Exec& exec)
{
    tiles::copy(blocks, [&](const tiles::Batch<tiles::DeviceCopy>& all, i64 teams) {
        kernels::launch_teams(exec, "collective_copy", teams, tiles::threads, CopyTiles{all, teams});
    });
}

void combine_on_device(const Combination& combination, const kernels::Exec& exec)
{
    tiles::with_combination(combination, [&](auto element, auto op) {
        using T = decltype(element);
        tiles::combine<T>(combination, [&](const tiles::Batch<tiles::DeviceCombine>& all,
                                           const tiles::Slots& slots, i64 teams) {
            kernels::launch_teams(exec, "collective_combine", teams, tiles::threads,
                                  CombineTiles<T, decltype(op)>{all, slots, teams});
        });
    });
}

} // namespace trivium
