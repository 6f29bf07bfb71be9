#include "convolution_blocks.hpp"

#include <algorithm>
#include <utility>

namespace trivium::kernels {

namespace {

/// An interval of positions of the divided tensor, with what it meets in the other one.
struct Interval {
    i64 x_begin = 0, x = 0, y_begin = 0, y = 0, low = 0;
};

/// The interval of dimension d that begins at `begin` with `n` positions.
Interval interval_of(ConvKind kind, const ConvShape& s, int d, i64 begin, i64 n)
{
    const i64 stride = s.stride[d], span = (s.k[d] - 1) * s.dilation[d] + 1;
    Interval part;
    if (kind == ConvKind::grad_x) { // outputs whose windows contain one of the positions
        const i64 first = begin + s.low[d] - (span - 1);
        part.x_begin = begin;
        part.x = n;
        part.y_begin = first <= 0 ? 0 : ceil_div(first, stride);
        part.y = std::min(s.out[d], (begin + n - 1 + s.low[d]) / stride + 1) - part.y_begin;
        part.low = begin + s.low[d] - part.y_begin * stride;
    } else {
        const i64 first = begin * stride - s.low[d];
        part.y_begin = begin;
        part.y = n;
        part.x_begin = std::max<i64>(0, first);
        part.x = std::min(s.in[d], first + (n - 1) * stride + span) - part.x_begin;
        part.low = part.x_begin - first;
    }
    return part;
}

/// How many positions of each dimension a block has.
class Division {
public:
    Division(ConvKind kind, const ConvShape& shape, const ConvBlockLimits& limits)
        : kind_(kind), s_(shape), extent_(kind == ConvKind::grad_x ? shape.in : shape.out)
    {
        std::copy_n(extent_, 3, step);
        samples = divisor_of(
            s_.b, std::min(limits.usual / std::max<Bytes>(1, bytes() / s_.b), ceil_div(s_.b, limits.count)));
        while (bytes() > limits.usual || count() < std::min(limits.count, limits.boxes))
            if (!halve(true))
                break;
        while (bytes() > limits.most)
            if (!halve(false))
                break;
    }

    i64 samples = 0, step[3];

private:
    int dims() const { return std::clamp(s_.spatial, 1, 3); } // which the compiler cannot know

    i64 count() const
    {
        i64 blocks = s_.b / std::max<i64>(1, samples);
        for (int d = 0; d < dims(); ++d)
            blocks *= ceil_div(extent_[d], step[d]);
        return blocks;
    }

    /// Of x and y in f32, with channels as the library rounds them up.
    Bytes bytes() const
    {
        constexpr i64 channels = 16;
        i64 x = s_.c <= colours ? s_.c : round_up(s_.c, channels), y = round_up(s_.o, channels);
        for (int d = 0; d < dims(); ++d) {
            const Interval part = interval_of(kind_, s_, d, 0, step[d]);
            x *= part.x;
            y *= part.y;
        }
        return 4 * (x + y) * std::max<i64>(1, samples == 0 ? s_.b : samples);
    }

    /// Halves the steps of the dimension whose neighbours then have least in common. False: of none.
    bool halve(bool apart)
    {
        const int last = dims() == 1 ? 1 : dims() - 1; // the last dimension is the vectors'
        constexpr i64 least_of_vectors = 256;
        int best = -1;
        double best_size = 0;
        for (int d = 0; d < last; ++d) {
            const i64 half = half_of(d), stride = s_.stride[d],
                      common = (s_.k[d] - 1) * s_.dilation[d] + 1 - stride;
            const i64 positions = kind_ == ConvKind::grad_x ? half : half * stride; // of x
            if (half == step[d] || common < 0 || (s_.spatial == 1 && half < least_of_vectors) ||
                (apart && positions < 2 * common))
                continue;
            const double size = static_cast<double>(positions) / static_cast<double>(common + 1);
            if (size > best_size) {
                best = d;
                best_size = size;
            }
        }
        if (best >= 0)
            step[best] = half_of(best);
        return best >= 0;
    }
    i64 half_of(int d) const
    {
        const i64 unit = kind_ == ConvKind::grad_x ? s_.stride[d] : 1;
        return std::min(step[d], round_up(ceil_div(step[d], 2), unit));
    }

    ConvKind kind_;
    const ConvShape& s_;
    const i64* extent_;
};

/// f(block) for each block of the division; dimensions from d on are still to be divided.
template <class F>
void each_block(ConvKind kind, const ConvShape& s, const i64* step, ConvBlock block, int d, F f)
{
    if (d == s.spatial || d == 3)
        return f(block);
    const i64 extent = kind == ConvKind::grad_x ? s.in[d] : s.out[d];
    for (i64 begin = 0; begin < extent; begin += step[d]) {
        const Interval part = interval_of(kind, s, d, begin, std::min(step[d], extent - begin));
        block.x_begin[d] = part.x_begin;
        block.y_begin[d] = part.y_begin;
        block.shape.in[d] = part.x;
        block.shape.out[d] = part.y;
        block.shape.low[d] = part.low;
        each_block(kind, s, step, block, d + 1, f);
    }
}

std::vector<ConvBlock> blocks_with(ConvKind kind, const ConvShape& shape, i64 samples, const i64* step)
{
    std::vector<ConvBlock> blocks;
    ConvBlock block;
    block.shape = shape;
    block.shape.b = samples;
    for (; block.sample < shape.b; block.sample += samples)
        each_block(kind, shape, step, block, 0, [&](const ConvBlock& part) { blocks.push_back(part); });
    return blocks;
}

} // namespace

i64 divisor_of(i64 n, i64 most)
{
    i64 divisor = std::max<i64>(1, std::min(n, most));
    while (n % divisor != 0)
        --divisor;
    return divisor;
}

bool supported_by_library(const ConvShape& s)
{
    bool fits = s.b * s.c * s.o > 0;
    for (int d = 0; d < s.spatial; ++d) {
        const i64 span = extent_of_window(s, d), after = padding_after(s, d);
        fits = fits && s.base[d] == 1 && s.in[d] > 0 && s.k[d] > 0 && s.out[d] > 0 && s.low[d] >= 0 &&
               -after < s.stride[d] && s.low[d] < span && after < span;
    }
    return fits;
}

ConvShape turned(const ConvShape& shape)
{
    ConvShape other = shape;
    std::swap(other.c, other.o);
    for (int d = 0; d < shape.spatial; ++d) {
        std::swap(other.in[d], other.out[d]);
        std::swap(other.stride[d], other.base[d]);
        other.low[d] = (shape.k[d] - 1) * shape.dilation[d] - shape.low[d];
    }
    return other;
}

std::vector<ConvBlock> blocks_of(ConvKind kind, const ConvShape& shape, const ConvBlockLimits& limits)
{
    const Division division(kind, shape, limits);
    std::vector<ConvBlock> blocks = blocks_with(kind, shape, division.samples, division.step);
    for (const ConvBlock& block : blocks)
        if (!supported_by_library(block.shape)) // rows of x that no window reads
            return blocks_with(kind, shape, division.samples,
                               kind == ConvKind::grad_x ? shape.in : shape.out);
    return blocks;
}

} // namespace trivium::kernels
