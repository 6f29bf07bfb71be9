#pragma once
// Internal: oneDNN's layout for convolutions, in which 16 channels of a position are neighbours. Its own
// copies take two to three times as long.
#include "kernels/exec.hpp"

namespace trivium::kernels {

/// A tensor [samples, channels, extents...] with dense rows; strides in elements.
struct ChannelBlocks {
    i64 samples = 1, channels = 1;
    i64 extents[3] = {1, 1, 1};
    i64 sample = 0, channel = 0; ///< elements between samples, between channels
    i64 apart[2] = {0, 0};       ///< between the indices of the first two extents
};

/// To [samples, blocks, extents..., 16]; channels that the last block lacks become 0. On one thread.
void copy_into_blocks(const ChannelBlocks& shape, const float* plain, float* blocked);
/// The way back.
void copy_from_blocks(const ChannelBlocks& shape, const float* blocked, float* plain);

} // namespace trivium::kernels
