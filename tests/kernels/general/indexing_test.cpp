#include "kernels/general/indexing.hpp"

#include "support.hpp"

#include <numeric>

using namespace trivium;
using namespace trivium::kernels;

namespace {

template <class T>
std::vector<T> mapped(const IndexMap& map, double value, const std::vector<T>& x, i64 count, i64 first = 0)
{
    return std::get<0>(stable([&](const Exec& exec) {
        std::vector<T> y(static_cast<std::size_t>(count), T(static_cast<Acc<T>>(99)));
        index_copy<T>(exec, map, value, lend(x), lend(y) + first);
        return std::tuple(y);
    }));
}

/// want(index of the result) is an index of the operand, or outside of it.
template <class T, class F>
void check(const IndexMap& map, const Index& in, const Index& out, F want)
{
    Draw draw("x");
    const std::vector<T> x = draw.tensor<T>(volume(in), -99, 99);
    const std::vector<T> y = mapped<T>(map, 5, x, volume(out));
    std::vector<T> expected;
    each_index(out, [&](const Index& index) {
        const Index from = want(index);
        expected.push_back(inside(in, from) ? x[at(in, from)] : T(static_cast<Acc<T>>(5)));
    });
    require_equal(y, expected);
}

/// Extents with a few long last dimensions, and now and then an extent of 1 or 0.
Index drawn_extents(Draw& draw, i64 rank, int round)
{
    Index extents = draw.list(rank, 1, 5);
    if (rank > 0 && round % 2 == 0)
        extents.back() = draw(15, 70);
    if (rank > 0 && round % 7 == 0)
        extents[static_cast<std::size_t>(draw(0, rank - 1))] = round % 14 == 0 ? 0 : 1;
    return extents;
}

} // namespace

TEMPLATE_TEST_CASE("transpose and broadcast", "", TRV_TENSOR_TYPES)
{
    using T = TestType;
    Draw draw("transpose");
    for (int round = 1; round <= 24; ++round) {
        const i64 rank = draw(0, 4);
        const Index in = drawn_extents(draw, rank, round);
        Index dims(static_cast<std::size_t>(rank));
        std::iota(dims.begin(), dims.end(), 0);
        for (std::size_t d = dims.size(); d-- > 1;)
            std::swap(dims[d], dims[static_cast<std::size_t>(draw(0, static_cast<i64>(d)))]);
        Index out;
        for (const i64 d : dims)
            out.push_back(in[static_cast<std::size_t>(d)]);
        check<T>(transpose_map(in, dims), in, out, [&](const Index& index) {
            Index from(index.size());
            for (std::size_t d = 0; d < index.size(); ++d)
                from[static_cast<std::size_t>(dims[d])] = index[d];
            return from;
        });

        // Broadcast: a new first and last dimension, and the operand's extents of 1 expand.
        Index small = in, to, wide = {3};
        for (std::size_t d = 0; d < in.size(); ++d) {
            if (draw(0, 2) == 0)
                small[d] = 1;
            to.push_back(static_cast<i64>(d) + 1);
            wide.push_back(in[d]);
        }
        wide.push_back(round % 3 == 0 ? 1 : 17);
        check<T>(broadcast_map(small, to, wide), small, wide, [&](const Index& index) {
            Index from;
            for (std::size_t d = 0; d < small.size(); ++d)
                from.push_back(small[d] == 1 ? 0 : index[d + 1]);
            return from;
        });
    }
}

TEMPLATE_TEST_CASE("slice, pad and reverse", "", TRV_TENSOR_TYPES)
{
    using T = TestType;
    Draw draw("slice");
    for (int round = 1; round <= 30; ++round) {
        const i64 rank = draw(1, 4);
        const Index in = drawn_extents(draw, rank, round);
        Index start, limit, stride, sliced, low, high, interior, padded, reversed;
        for (std::size_t d = 0; d < in.size(); ++d) {
            start.push_back(draw(0, in[d]));
            limit.push_back(draw(start[d], in[d]));
            stride.push_back(round % 3 == 0 ? 1 : draw(1, 3));
            sliced.push_back((limit[d] - start[d] + stride[d] - 1) / stride[d]);
            low.push_back(draw(-3, round % 5 == 0 && d + 1 == in.size() ? 300 : 3));
            high.push_back(draw(-2, d + 1 == in.size() ? 20 : 3));
            interior.push_back(round % 3 == 0 ? 0 : draw(0, 2));
            padded.push_back(
                std::max<i64>(0, low[d] + high[d] + (in[d] == 0 ? 0 : (in[d] - 1) * (interior[d] + 1) + 1)));
            if (draw(0, 1) == 0)
                reversed.push_back(static_cast<i64>(d));
        }
        check<T>(slice_map(in, start, limit, stride), in, sliced, [&](const Index& index) {
            Index from;
            for (std::size_t d = 0; d < in.size(); ++d)
                from.push_back(start[d] + index[d] * stride[d]);
            return from;
        });
        check<T>(pad_map(in, low, high, interior), in, padded, [&](const Index& index) {
            Index from;
            for (std::size_t d = 0; d < in.size(); ++d) {
                const i64 i = index[d] - low[d], period = interior[d] + 1;
                from.push_back(i >= 0 && i % period == 0 ? i / period : -1);
            }
            return from;
        });
        check<T>(reverse_map(in, reversed), in, in, [&](const Index& index) {
            Index from = index;
            for (const i64 d : reversed)
                from[static_cast<std::size_t>(d)] =
                    in[static_cast<std::size_t>(d)] - 1 - index[static_cast<std::size_t>(d)];
            return from;
        });
    }
}

TEMPLATE_TEST_CASE("concatenate", "", TRV_TENSOR_TYPES)
{
    using T = TestType;
    Draw draw("concatenate");
    for (const auto& [in, dim, whole, first] :
         {std::tuple(Index{3, 5}, 1, i64{9}, i64{2}), std::tuple(Index{3, 40}, 1, i64{70}, i64{30}),
          std::tuple(Index{2, 3, 20}, 0, i64{4}, i64{1}), std::tuple(Index{2, 3, 20}, 1, i64{7}, i64{0}),
          std::tuple(Index{2, 0, 4}, 1, i64{3}, i64{1})}) {
        Index out = in;
        out[static_cast<std::size_t>(dim)] = whole;
        i64 inner = 1;
        for (std::size_t d = static_cast<std::size_t>(dim) + 1; d < in.size(); ++d)
            inner *= in[d];
        const std::vector<T> x = draw.tensor<T>(volume(in), -9, 9);
        std::vector<T> want(static_cast<std::size_t>(volume(out)), T(static_cast<Acc<T>>(99)));
        each_index(in, [&, in = in, dim = dim, first = first](const Index& index) {
            Index to = index;
            to[static_cast<std::size_t>(dim)] += first;
            want[at(out, to)] = x[at(in, index)];
        });
        require_equal(mapped<T>(concatenate_map(in, dim, whole), 0, x, volume(out), first * inner), want);
    }
}
