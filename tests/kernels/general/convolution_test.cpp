#include "kernels/general/convolution.hpp"

#include "support.hpp"

using namespace trivium;
using namespace trivium::kernels;

namespace {

template <class T>
constexpr DType tensor_type = std::is_integral_v<T> ? DType::i32 : dtype_of<T>;

struct DrawnConvolution {
    ConvShape shape;
    Index x, w, y; ///< extents

    DrawnConvolution() = default;
    DrawnConvolution(Draw& draw, bool simple, int round)
    {
        shape.spatial = static_cast<int>(draw(1, 3));
        shape.groups = draw(0, 2) == 0 ? draw(2, 3) : 1;
        shape.b = round % 10 == 0 ? 0 : draw(1, 4);
        shape.c = shape.groups * draw(1, 5);
        shape.o = shape.groups * draw(1, 5);
        for (int d = 0; d < shape.spatial; ++d) {
            shape.in[d] = draw(1, 8);
            shape.k[d] = draw(1, 3);
            shape.stride[d] = draw(1, 3);
            shape.dilation[d] = draw(1, 2);
            shape.base[d] = simple ? 1 : draw(1, 2);
            const i64 span = (shape.k[d] - 1) * shape.dilation[d] + 1;
            shape.low[d] = simple ? draw(0, span - 1) : draw(-1, 3);
            const i64 high = simple ? draw(0, span - 1) : draw(-1, 3);
            const i64 space = (shape.in[d] - 1) * shape.base[d] + 1 + shape.low[d] + high;
            shape.out[d] = space < span ? 0 : (space - span) / shape.stride[d] + 1;
        }
        set_extents();
    }

    void set_extents()
    {
        x = {shape.b, shape.c};
        w = {shape.o, shape.c / shape.groups};
        y = {shape.b, shape.o};
        for (int d = 0; d < shape.spatial; ++d) {
            x.push_back(shape.in[d]);
            w.push_back(shape.k[d]);
            y.push_back(shape.out[d]);
        }
    }

    /// f(place in x, in w, in y) for each product of the sum.
    template <class F>
    void each_product(F f) const
    {
        const std::size_t spatial = size(shape.spatial);
        each_index(y, [&](const Index& to) {
            Index taps = {w[1]};
            taps.insert(taps.end(), w.begin() + 2, w.end());
            each_index(taps, [&](const Index& t) {
                Index from = {to[0], to[1] / (shape.o / shape.groups) * w[1] + t[0]};
                Index weight = {to[1], t[0]};
                for (std::size_t d = 0; d < spatial; ++d) {
                    const i64 at = to[d + 2] * shape.stride[d] - shape.low[d] + t[d + 1] * shape.dilation[d];
                    from.push_back(at >= 0 && at % shape.base[d] == 0 ? at / shape.base[d] : -1);
                    weight.push_back(t[d + 1]);
                }
                if (inside(x, from))
                    f(kernels::at(x, from), kernels::at(w, weight), kernels::at(y, to));
            });
        });
    }
};

constexpr ConvKind convolution_kinds[] = {ConvKind::forward, ConvKind::grad_x, ConvKind::grad_w};

} // namespace

TEMPLATE_TEST_CASE("plain convolutions and their gradients", "", TRV_TENSOR_TYPES)
{
    using T = TestType;
    Draw draw("convolution");
    for (int round = 1; round <= 30; ++round) {
        const DrawnConvolution drawn(draw, false, round);
        const auto x = draw.tensor<T>(volume(drawn.x), -2, 2), w = draw.tensor<T>(volume(drawn.w), -2, 2),
                   dy = draw.tensor<T>(volume(drawn.y), -2, 2);
        Doubles y(dy.size(), 0), dx(x.size(), 0), dw(w.size(), 0);
        drawn.each_product([&](std::size_t i, std::size_t j, std::size_t k) {
            y[k] += number(x[i]) * number(w[j]);
            dx[i] += number(dy[k]) * number(w[j]);
            dw[j] += number(dy[k]) * number(x[i]);
        });
        const auto [got_y, got_dx, got_dw] = stable([&](const Exec& exec) {
            std::vector<T> a(y.size()), b(dx.size()), c(dw.size());
            convolution<T>(exec, drawn.shape, lend(x), lend(w), lend(a));
            convolution_grad_x<T>(exec, drawn.shape, lend(dy), lend(w), lend(b));
            convolution_grad_w<T>(exec, drawn.shape, lend(dy), lend(x), lend(c));
            return std::tuple(a, b, c);
        });
        INFO("round " << round);
        require_equal(got_y, narrow<T>(y));
        require_equal(got_dx, narrow<T>(dx));
        require_equal(got_dw, narrow<T>(dw));
    }
}

namespace {

/// Compares Convolution with the plain kernel; returns whether a library computed it.
template <class T>
bool check_prepared(const DrawnConvolution& drawn, ConvKind kind)
{
    const std::string name = str("convolution ", static_cast<int>(kind));
    const bool forward = kind == ConvKind::forward;
    const Index &first = forward ? drawn.x : drawn.y, &second = kind == ConvKind::grad_w ? drawn.x : drawn.w,
                &result = forward                    ? drawn.y
                          : kind == ConvKind::grad_x ? drawn.x
                                                     : drawn.w;
    const auto a = random<T>(volume(first), name + "a"), b = random<T>(volume(second), name + "b");
    std::vector<T> want(size(volume(result)));
    {
        plain_convolution({}, kind, drawn.shape, tensor_type<T>, lend(a), lend(b), lend(want));
    }
    bool library = false;
    const auto got = std::get<0>(stable([&](const Exec& exec) {
        const Convolution prepared(kind, drawn.shape, tensor_type<T>, exec.threads);
        library = prepared.by_library();
        const TestScratch scratch(prepared.scratch_bytes());
        std::vector<T> y(want.size(), T(static_cast<Acc<T>>(77)));
        prepared.run(exec, lend(a), lend(b), lend(y), scratch);
        return std::tuple(y);
    }));
    require_close(got, wide(want), tolerance<T>);
    return library;
}

DrawnConvolution image(i64 b, i64 c, i64 o, i64 side, i64 k, i64 stride, i64 groups = 1, int spatial = 2)
{
    DrawnConvolution drawn;
    ConvShape& s = drawn.shape;
    s.spatial = spatial;
    s.b = b;
    s.c = c;
    s.o = o;
    s.groups = groups;
    for (int d = 0; d < spatial; ++d) {
        s.in[d] = side;
        s.k[d] = k;
        s.stride[d] = stride;
        s.low[d] = k / 2;
        s.out[d] = (side + 2 * (k / 2) - k) / stride + 1;
    }
    drawn.set_extents();
    return drawn;
}

/// As a layer that makes a larger image: `gaps` - 1 zeros between neighbours.
DrawnConvolution larger_image(i64 b, i64 c, i64 o, i64 side, i64 k, i64 gaps, i64 groups = 1)
{
    DrawnConvolution drawn = image(b, c, o, side, k, 1, groups);
    ConvShape& s = drawn.shape;
    for (int d = 0; d < 2; ++d) {
        s.base[d] = gaps;
        s.low[d] = k - 1;
        s.out[d] = (side - 1) * gaps + k;
    }
    drawn.set_extents();
    return drawn;
}

} // namespace

TEMPLATE_TEST_CASE("a prepared convolution agrees with the plain kernel", "", TRV_TENSOR_TYPES)
{
    using T = TestType;
    Draw draw("prepared");
    int by_library = 0;
    for (int round = 1; round <= 8; ++round) {
        const DrawnConvolution drawn(draw, round % 4 != 0, round);
        for (const ConvKind kind : convolution_kinds) {
            INFO("round " << round << ", kind " << static_cast<int>(kind));
            by_library += check_prepared<T>(drawn, kind);
        }
    }
    if constexpr (!std::is_integral_v<T>)
        for (const DrawnConvolution& drawn :
             {image(3, 16, 48, 9, 3, 1), image(17, 3, 8, 8, 3, 2), image(4, 32, 32, 6, 3, 1, 32),
              image(1, 16, 20, 60, 3, 1), image(1, 12, 16, 12, 3, 1, 1, 3), // in boxes
              image(2, 48, 64, 4, 3, 1, 2), larger_image(3, 8, 12, 5, 2, 2),
              larger_image(2, 12, 18, 4, 3, 2, 3), larger_image(1, 16, 16, 6, 4, 3)})
            for (const ConvKind kind : convolution_kinds) {
                if (!Convolution(kind, drawn.shape, tensor_type<T>).by_library())
                    continue; // the plain kernel is slow
                INFO("image of " << drawn.shape.c << " channels, kind " << static_cast<int>(kind));
                by_library += check_prepared<T>(drawn, kind);
            }
    if (std::is_integral_v<T> || std::is_same_v<T, double>)
        CHECK(by_library == 0);
}

TEST_CASE("a convolution states the scratch that it needs, and takes fewer threads to need less")
{
    start_runtime();
    const DrawnConvolution drawn = image(32, 16, 16, 8, 3, 1);
    const Convolution many(ConvKind::forward, drawn.shape, DType::f32, 8),
        few(ConvKind::forward, drawn.shape, DType::f32, 8, 1);
    if (!many.by_library())
        return;
    CHECK(few.scratch_bytes() <= many.scratch_bytes());
    CHECK(few.scratch_bytes() == Convolution(ConvKind::forward, drawn.shape, DType::f32, 1).scratch_bytes());
    if (many.scratch_bytes() > 0)
        CHECK_THROWS_AS(many.run({}, nullptr, nullptr, nullptr, {nullptr, many.scratch_bytes() - 1}),
                        InternalError);
}
