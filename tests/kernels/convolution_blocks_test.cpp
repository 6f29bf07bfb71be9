// Blocks of convolutions, each computed by the plain kernel, against the plain kernel on the whole.
#include "kernels/host/convolution_blocks.hpp"

#include "general/support.hpp"

using namespace trivium;
using namespace trivium::kernels;

namespace {

Index extents_of(i64 samples, i64 channels, const i64* extents, int spatial)
{
    Index all{samples, channels};
    all.insert(all.end(), extents, extents + spatial);
    return all;
}

/// f(place in the box, place in the whole) for each element of a box.
template <class F>
void each_place(const Index& box, const Index& whole, i64 sample, const i64* begin, F f)
{
    each_index(box, [&](const Index& local) {
        Index global = local;
        global[0] += sample;
        for (std::size_t d = 2; d < global.size(); ++d)
            global[d] += begin[d - 2];
        f(at(box, local), at(whole, global));
    });
}

std::vector<float> box_of(const std::vector<float>& from, const Index& box, const Index& whole, i64 sample,
                          const i64* begin)
{
    std::vector<float> result(size(volume(box)));
    each_place(box, whole, sample, begin, [&](std::size_t i, std::size_t j) { result[i] = from[j]; });
    return result;
}

std::vector<float> plain(ConvKind kind, const ConvShape& shape, const std::vector<float>& first,
                         const std::vector<float>& second, i64 n)
{
    std::vector<float> result(size(n));
    plain_convolution({}, kind, shape, DType::f32, lend(first), lend(second), lend(result));
    return result;
}

ConvShape drawn_shape(Draw& draw)
{
    ConvShape shape;
    shape.spatial = static_cast<int>(draw(1, 3));
    shape.b = draw(1, 6);
    shape.c = draw(1, 2);
    shape.o = draw(1, 2);
    for (int d = 0; d < shape.spatial; ++d) {
        shape.k[d] = draw(1, 3);
        shape.stride[d] = draw(1, 3);
        shape.dilation[d] = draw(1, 2);
        const i64 span = (shape.k[d] - 1) * shape.dilation[d] + 1;
        shape.low[d] = draw(0, span - 1);
        shape.out[d] = draw(1, shape.spatial == 1 ? 600 : shape.spatial == 2 ? 20 : 7);
        const i64 after = draw(1 - shape.stride[d], span - 1);
        shape.in[d] = (shape.out[d] - 1) * shape.stride[d] + span - shape.low[d] - after;
    }
    return shape;
}

} // namespace

TEST_CASE("blocks of a convolution compute what the whole does")
{
    start_runtime();
    Draw draw("blocks");
    std::size_t most = 0;
    for (int round = 0; round < 60; ++round) {
        const ConvShape shape = drawn_shape(draw);
        if (!supported_by_library(shape))
            continue;
        const Index x_extents = extents_of(shape.b, shape.c, shape.in, shape.spatial),
                    w_extents = extents_of(shape.o, shape.c, shape.k, shape.spatial),
                    y_extents = extents_of(shape.b, shape.o, shape.out, shape.spatial);
        const auto x = draw.tensor<float>(volume(x_extents), -2, 2),
                   w = draw.tensor<float>(volume(w_extents), -2, 2),
                   dy = draw.tensor<float>(volume(y_extents), -2, 2);
        const ConvBlockLimits limits{
            .count = draw(1, 12), .boxes = draw(1, 40), .usual = 64 << draw(0, 8), .most = 64 << draw(0, 8)};
        for (const ConvKind kind : {ConvKind::forward, ConvKind::grad_x, ConvKind::grad_w}) {
            const bool forward = kind == ConvKind::forward, grad_w = kind == ConvKind::grad_w;
            const Index& extents = forward ? y_extents : grad_w ? w_extents : x_extents;
            const auto want = plain(kind, shape, forward ? x : dy, grad_w ? x : w, volume(extents));
            std::vector<float> got(want.size(), grad_w ? 0.0f : 99.0f);
            const std::vector<ConvBlock> blocks = blocks_of(kind, shape, limits);
            most = std::max(most, blocks.size());
            for (const ConvBlock& block : blocks) {
                REQUIRE(supported_by_library(block.shape));
                const Index x_box = extents_of(block.shape.b, shape.c, block.shape.in, shape.spatial),
                            y_box = extents_of(block.shape.b, shape.o, block.shape.out, shape.spatial);
                const auto x_part = box_of(x, x_box, x_extents, block.sample, block.x_begin),
                           dy_part = box_of(dy, y_box, y_extents, block.sample, block.y_begin);
                const Index& box = forward ? y_box : grad_w ? w_extents : x_box;
                const auto part =
                    plain(kind, block.shape, forward ? x_part : dy_part, grad_w ? x_part : w, volume(box));
                if (grad_w)
                    for (std::size_t i = 0; i < got.size(); ++i)
                        got[i] += part[i];
                else
                    each_place(box, extents, block.sample, forward ? block.y_begin : block.x_begin,
                               [&](std::size_t i, std::size_t j) { got[j] = part[i]; });
            }
            INFO("round " << round << ", kind " << static_cast<int>(kind) << ", " << blocks.size()
                          << " blocks");
            require_equal(got, want);
        }
    }
    CHECK(most > 20);
}

TEST_CASE("a convolution of an operand with gaps is the gradient of a convolution with strides")
{
    ConvShape shape{
        .spatial = 1, .b = 2, .c = 3, .o = 4, .in = {5}, .k = {3}, .out = {11}, .low = {2}, .base = {2}};
    const ConvShape other = turned(shape);
    CHECK(other.c == 4);
    CHECK(other.o == 3);
    CHECK(other.in[0] == 11);
    CHECK(other.out[0] == 5);
    CHECK(other.stride[0] == 2);
    CHECK(other.base[0] == 1);
    CHECK(other.low[0] == 0);
    CHECK(turned(other) == shape);
}
