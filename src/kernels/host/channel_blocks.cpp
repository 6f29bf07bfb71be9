#include "channel_blocks.hpp"

#include "transpose_tile.hpp"

#include <algorithm>

namespace trivium::kernels {

namespace {

constexpr i64 lanes = 16;

/// f(row of the plain tensor, row of a block, channels of the block) for all rows.
template <class F>
void for_rows_of_blocks(const ChannelBlocks& s, F f)
{
    const i64 row = s.extents[2] * lanes;
    i64 block = 0;
    for (i64 n = 0; n < s.samples; ++n)
        for (i64 c = 0; c < s.channels; c += lanes)
            for (i64 i = 0; i < s.extents[0]; ++i)
                for (i64 j = 0; j < s.extents[1]; ++j, block += row)
                    f(n * s.sample + c * s.channel + i * s.apart[0] + j * s.apart[1], block,
                      std::min(lanes, s.channels - c));
}

} // namespace

void copy_into_blocks(const ChannelBlocks& s, const float* plain, float* blocked)
{
    for_rows_of_blocks(s, [&](i64 from, i64 to, i64 channels) {
        float* const row = blocked + to;
        if (channels < lanes)
            std::fill_n(row, s.extents[2] * lanes, 0.0F);
        pack_transposed(plain + from, s.channel, s.extents[2], channels, row, lanes);
    });
}

void copy_from_blocks(const ChannelBlocks& s, const float* blocked, float* plain)
{
    // Four channels at a time: rows of 16 may be apart by a multiple of the cache's ways.
    constexpr i64 together = 4;
    for_rows_of_blocks(s, [&](i64 to, i64 from, i64 channels) {
        for (i64 c = 0; c < channels; c += together)
            pack_transposed(blocked + from + c, lanes, std::min(together, channels - c), s.extents[2],
                            plain + to + c * s.channel, s.channel);
    });
}

} // namespace trivium::kernels
