#include "kernels/general/pooling.hpp"

#include "support.hpp"

using namespace trivium;
using namespace trivium::kernels;

namespace {

/// A drawn pool; `out` follows from drawn padding.
struct DrawnPool {
    PoolShape shape;
    Index in, out, window;

    DrawnPool(Draw& draw, int round)
    {
        shape.rank = static_cast<int>(draw(1, 4));
        for (int d = 0; d < shape.rank; ++d) {
            const bool plain = draw(0, 2) == 0; // a dimension that is not pooled
            in.push_back(draw(1, 7));
            window.push_back(plain ? 1 : draw(1, 3));
            shape.stride[d] = plain ? 1 : draw(1, 3);
            shape.low[d] = plain ? 0 : draw(-1, 2);
            shape.dilation[d] = plain ? 1 : draw(1, 2);
            shape.base[d] = plain || round % 3 != 0 ? 1 : draw(1, 2);
            const i64 high = plain ? 0 : draw(0, 2);
            const i64 space = (in.back() - 1) * shape.base[d] + 1 + shape.low[d] + high;
            const i64 span = (window.back() - 1) * shape.dilation[d] + 1;
            out.push_back(space < span ? 0 : (space - span) / shape.stride[d] + 1);
        }
        assign(shape.in, in);
        assign(shape.out, out);
        assign(shape.window, window);
    }

    /// f(index in x) for the elements of window o that are inside, in row-major order.
    template <class F>
    void each_element(const Index& o, F f) const
    {
        each_index(window, [&](const Index& t) {
            Index from;
            for (std::size_t d = 0; d < o.size(); ++d) {
                const i64 place = o[d] * shape.stride[d] - shape.low[d] + t[d] * shape.dilation[d];
                from.push_back(place >= 0 && place % shape.base[d] == 0 ? place / shape.base[d] : -1);
            }
            if (inside(in, from))
                f(from);
        });
    }
};

} // namespace

TEMPLATE_TEST_CASE("pool", "", TRV_TENSOR_TYPES)
{
    using T = TestType;
    Draw draw("pool");
    for (int round = 1; round <= 20; ++round) {
        const DrawnPool drawn(draw, round);
        const auto x = draw.tensor<T>(volume(drawn.in), -2, 2);
        for (const Combine how : {Combine::sum, Combine::max, Combine::min, Combine::product}) {
            const double inf = std::is_integral_v<T> ? 2147483647.0 : std::numeric_limits<double>::infinity();
            const double low = std::is_integral_v<T> ? -2147483648.0 : -inf;
            Doubles want;
            each_index(drawn.out, [&](const Index& o) {
                double all = how == Combine::sum       ? 0
                             : how == Combine::product ? 1
                             : how == Combine::max     ? low
                                                       : inf;
                drawn.each_element(o, [&](const Index& from) {
                    const double value = number(x[at(drawn.in, from)]);
                    all = how == Combine::sum       ? all + value
                          : how == Combine::product ? all * value
                          : how == Combine::max     ? std::max(all, value)
                                                    : std::min(all, value);
                    if (std::is_integral_v<T> && how == Combine::product) // wraps around
                        all = static_cast<double>(static_cast<std::int32_t>(static_cast<i64>(all)));
                });
                want.push_back(all);
            });
            const auto y = std::get<0>(stable([&](const Exec& exec) {
                std::vector<T> result(want.size());
                pool<T>(exec, drawn.shape, how, lend(x), lend(result));
                return std::tuple(result);
            }));
            INFO("round " << round << ", combine " << static_cast<int>(how));
            require_equal(y, narrow<T>(want));
        }
    }
}

TEMPLATE_TEST_CASE("the gradient of a pool with max or min, for boxes", "", TRV_TENSOR_TYPES)
{
    using T = TestType;
    Draw draw("pool_grad");
    for (int round = 1; round <= 30; ++round) {
        const DrawnPool drawn(draw, round);
        PoolGradShape shape;
        shape.windows = drawn.shape;
        const std::size_t rank = drawn.in.size();
        // Whole tensors, or boxes of dy and dx, and the box of x that their windows need.
        const bool boxes = round % 2 == 0;
        Index dy_extent, dx_extent, x_extent;
        for (std::size_t d = 0; d < rank; ++d) {
            shape.dy_begin[d] = boxes && drawn.out[d] > 0 ? draw(0, drawn.out[d] - 1) : 0;
            dy_extent.push_back(boxes && drawn.out[d] > 0 ? draw(1, drawn.out[d] - shape.dy_begin[d])
                                                          : drawn.out[d]);
            shape.dx_begin[d] = boxes ? draw(0, drawn.in[d] - 1) : 0;
            dx_extent.push_back(boxes ? draw(1, drawn.in[d] - shape.dx_begin[d]) : drawn.in[d]);
            i64 begin = shape.dx_begin[d], end = begin + dx_extent[d];
            for (i64 o = shape.dy_begin[d]; o < shape.dy_begin[d] + dy_extent[d]; ++o)
                for (i64 t = 0; t < drawn.window[d]; ++t) {
                    const i64 place =
                        o * drawn.shape.stride[d] - drawn.shape.low[d] + t * drawn.shape.dilation[d];
                    const i64 i = place / drawn.shape.base[d];
                    if (place >= 0 && place % drawn.shape.base[d] == 0 && i < drawn.in[d]) {
                        begin = std::min(begin, i);
                        end = std::max(end, i + 1);
                    }
                }
            shape.x_begin[d] = begin;
            x_extent.push_back(end - begin);
        }
        assign(shape.dy_extent, dy_extent);
        assign(shape.dx_extent, dx_extent);
        assign(shape.x_extent, x_extent);
        const auto whole = draw.tensor<T>(volume(drawn.in), -2, 2),
                   dy = draw.tensor<T>(volume(dy_extent), -3, 3);
        std::vector<T> x;
        each_index(x_extent, [&](const Index& index) {
            Index from = index;
            for (std::size_t d = 0; d < rank; ++d)
                from[d] += shape.x_begin[d];
            x.push_back(whole[at(drawn.in, from)]);
        });
        for (const Combine extremum : {Combine::max, Combine::min}) {
            Doubles want(static_cast<std::size_t>(volume(dx_extent)), 0);
            each_index(dy_extent, [&](const Index& local) {
                Index o = local, best;
                for (std::size_t d = 0; d < rank; ++d)
                    o[d] += shape.dy_begin[d];
                drawn.each_element(o, [&](const Index& from) {
                    if (best.empty()) {
                        best = from;
                        return;
                    }
                    const double value = number(whole[at(drawn.in, from)]),
                                 top = number(whole[at(drawn.in, best)]);
                    if (extremum == Combine::max ? value > top : value < top)
                        best = from;
                });
                if (best.empty())
                    return;
                for (std::size_t d = 0; d < rank; ++d)
                    best[d] -= shape.dx_begin[d];
                if (inside(dx_extent, best))
                    want[at(dx_extent, best)] += number(dy[at(dy_extent, local)]);
            });
            const auto dx = std::get<0>(stable([&](const Exec& exec) {
                std::vector<T> result(want.size());
                std::vector<std::int32_t> places(dy.size());
                pool_extremum_grad<T>(exec, shape, extremum, lend(dy), lend(x), lend(places), lend(result));
                return std::tuple(result);
            }));
            INFO("round " << round);
            require_equal(dx, narrow<T>(want));
        }
    }
}
