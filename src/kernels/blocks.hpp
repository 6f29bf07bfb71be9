#pragma once
// Internal: several arrays in one launch, whose blocks form one sequence.
#include "kernels/exec.hpp"

#include <algorithm>
#include <span>

namespace trivium::kernels {

/// Elements of a block; the last one of an array may have fewer.
inline constexpr i64 block_size = 16384;

TRV_HOST_DEVICE inline i64 blocks_in(i64 n) { return (n + block_size - 1) / block_size; }

/// A chunk of a list, passed to a kernel by value: the arguments of a launch must stay below 4 KB.
template <class Item, int most>
struct Listed {
    Item item[most];
    int count = 0;
};

/// The blocks of several arrays as one sequence. An Item has the number `n` of elements of its array.
template <class Item, int most>
struct Blocks : Listed<Item, most> {
    /// Array, offset and size of a block.
    struct Place {
        int array;
        i64 begin, size;
    };

    int before[most + 1]; ///< number of blocks in the previous arrays

    i64 blocks() const { return before[this->count]; }
    TRV_HOST_DEVICE Place place(i64 block) const
    {
        int k = 0; // every thread of a block searches: bisection, because lists are long
        for (int end = this->count; end - k > 1;) {
            const int middle = (k + end) / 2;
            (before[middle] <= block ? k : end) = middle;
        }
        const i64 begin = (block - before[k]) * block_size, rest = this->item[k].n - begin;
        return {k, begin, rest < block_size ? rest : block_size};
    }
};

/// Calls share(part) for consecutive chunks of `items`, each as long as a Part can hold.
template <class Part, class Item, class F>
void in_parts(std::span<const Item> items, F share)
{
    constexpr std::size_t most = sizeof(Part::item) / sizeof(Item);
    for (std::size_t at = 0; at < items.size(); at += most) {
        Part part;
        part.count = static_cast<int>(std::min(most, items.size() - at));
        std::copy_n(items.data() + at, part.count, part.item);
        if constexpr (requires { part.before; }) {
            part.before[0] = 0;
            for (int k = 0; k < part.count; ++k)
                part.before[k + 1] = part.before[k] + static_cast<int>(blocks_in(part.item[k].n));
        }
        share(part);
    }
}

} // namespace trivium::kernels
