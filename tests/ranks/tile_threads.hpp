#pragma once
// The kernels of mpi/nccl/tiles.hpp on the host, which runs their threads one after another.
#include "mpi/nccl/tiles.hpp"

template <class Run>
void each_thread(trivium::i64 thread_blocks, Run&& run)
{
    for (trivium::i64 block = 0; block < thread_blocks; ++block)
        for (int thread = 0; thread < trivium::tiles::threads; ++thread)
            run(trivium::tiles::Thread{block, thread_blocks, thread});
}

inline void copy_by_threads(std::span<const trivium::CopyBlock> blocks)
{
    namespace tiles = trivium::tiles;
    tiles::copy(blocks, [](const auto& all, trivium::i64 grid) {
        each_thread(grid, [&](tiles::Thread me) { tiles::copy_thread(all, me); });
    });
}

inline void combine_by_threads(const trivium::Combination& combination)
{
    namespace tiles = trivium::tiles;
    tiles::with_combination(combination, [&](auto element, auto op) {
        using T = decltype(element);
        using Op = decltype(op);
        tiles::combine<T>(combination, [](const auto& all, const tiles::Slots& slots, trivium::i64 grid) {
            each_thread(grid, [&](tiles::Thread me) { tiles::combine_thread<T, Op>(all, slots, me); });
        });
    });
}
