#pragma once
// Internal: parts of a convolution that are convolutions themselves, for threads and for caches. They follow
// from the shape alone, so that no sum depends on the number of threads.
#include "kernels/general/convolution.hpp"

#include <vector>

namespace trivium::kernels {

/// Some samples, and a box of positions: of x for grad_x, otherwise of y. `shape` has the part of the other
/// tensor that meets it.
struct ConvBlock {
    ConvShape shape;
    i64 sample = 0;                       ///< the first one
    i64 x_begin[3] = {}, y_begin[3] = {}; ///< first positions
};

/// How far a convolution is divided. Samples are divided first: the library copies whole ones faster to its
/// own layout than boxes of them.
struct ConvBlockLimits {
    i64 count = 16;               ///< of blocks that are wanted, if there are as many samples
    i64 boxes = 16;               ///< of blocks that are wanted otherwise
    Bytes usual = Bytes{2} << 20; ///< of x and y in f32, unless neighbours would read more than half twice
    Bytes most = Bytes{4} << 20;  ///< of x and y in f32
};

/// The blocks of a convolution, in row-major order of samples and positions.
/// \pre supported_by_library(shape)
std::vector<ConvBlock> blocks_of(ConvKind kind, const ConvShape& shape, const ConvBlockLimits& limits);

/// From the first tap of a window to its last.
inline i64 extent_of_window(const ConvShape& s, int d) { return (s.k[d] - 1) * s.dilation[d] + 1; }

/// The padding after x in dimension d; below 0 where the last windows end before x does.
inline i64 padding_after(const ConvShape& s, int d)
{
    return (s.out[d] - 1) * s.stride[d] + extent_of_window(s, d) - s.in[d] - s.low[d];
}

/// Whether oneDNN has convolutions of this form.
bool supported_by_library(const ConvShape& shape);

/// The convolution of which this one is the gradient with respect to x, for weights whose taps are reversed
/// and whose channels change places: it has `base` as strides. For convolutions without strides.
ConvShape turned(const ConvShape& shape);

/// Up to so many channels the library reads x as it is.
inline constexpr i64 colours = 3;

/// The largest divisor of n that is at most `most`, and at least 1.
i64 divisor_of(i64 n, i64 most);

} // namespace trivium::kernels
