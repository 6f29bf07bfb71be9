#include "kernels/general/gather_scatter.hpp"

#include "kernels/general/dynamic_slice.hpp"
#include "support.hpp"

#include <algorithm>

using namespace trivium;
using namespace trivium::kernels;

namespace {

bool has(const DimList& list, int dim)
{
    for (int i = 0; i < list.count; ++i)
        if (list.of[i] == dim)
            return true;
    return false;
}

/// A drawn gather: the operand's dimensions are batch, collapsed or of the window, some are indexed. The
/// operand is a shard, and so is the window.
struct DrawnGather {
    GatherShape shape;
    Index extent, indices, out; ///< local extents; out: of the result, or of the updates

    DrawnGather(Draw& draw, int round)
    {
        GatherShape& s = shape;
        s.rank = static_cast<int>(draw(1, 4));
        const i64 free_index_dims = draw(0, 2);
        std::vector<int> batch_extents;
        Index index_extents;
        for (int d = 0; d < s.rank; ++d) {
            const bool last = d + 1 == s.rank;
            s.whole[d] = last && round % 2 == 0 ? draw(20, 50) : draw(1, 7);
            const i64 kind = draw(0, 3); // 0: batch, 1: collapsed, otherwise of the window
            s.sizes[d] = kind < 2 ? 1 : draw(0, 3) == 0 ? s.whole[d] : draw(1, s.whole[d]);
            s.begin[d] = round % 3 == 0 ? draw(0, s.whole[d] - 1) : 0;
            s.extent[d] = round % 3 == 0 ? draw(1, s.whole[d] - s.begin[d]) : s.whole[d];
            s.slice_begin[d] = kind >= 2 && round % 4 == 0 ? draw(0, s.sizes[d] - 1) : 0;
            s.slice_extent[d] = kind < 2         ? 1
                                : round % 4 == 0 ? draw(1, s.sizes[d] - s.slice_begin[d])
                                                 : s.sizes[d];
            if (kind == 0) {
                s.batch_dims.of[s.batch_dims.count++] = d;
                batch_extents.push_back(static_cast<int>(s.extent[d]));
            } else {
                if (kind == 1)
                    s.collapsed_dims.of[s.collapsed_dims.count++] = d;
                if (kind == 1 || draw(0, 1) == 0)
                    s.index_map.of[s.index_map.count++] = d;
            }
            extent.push_back(s.extent[d]);
        }
        std::reverse(s.index_map.of, s.index_map.of + s.index_map.count); // any order is allowed
        // The indices: batch dimensions and free ones, in turn.
        for (int b = 0; b < s.batch_dims.count; ++b) {
            if (b < free_index_dims)
                index_extents.push_back(draw(1, 6));
            s.index_batch_dims.of[s.index_batch_dims.count++] = static_cast<int>(index_extents.size());
            index_extents.push_back(batch_extents[size(b)]);
        }
        while (static_cast<i64>(index_extents.size()) < free_index_dims + s.batch_dims.count)
            index_extents.push_back(round % 9 == 0 ? 0 : draw(1, 6));
        indices = index_extents;
        s.index_dim = static_cast<int>(draw(0, static_cast<i64>(indices.size())));
        if (s.index_map.count != 1 || draw(0, 1) == 0) { // otherwise: an index is one number
            indices.insert(indices.begin() + s.index_dim, s.index_map.count);
            for (int b = 0; b < s.index_batch_dims.count; ++b)
                s.index_batch_dims.of[b] += s.index_batch_dims.of[b] >= s.index_dim ? 1 : 0;
        } else {
            s.index_dim = static_cast<int>(indices.size());
        }
        s.index_rank = static_cast<int>(indices.size());
        assign(s.indices, indices);
        // The result: window dimensions at drawn places.
        const i64 windows = s.rank - s.batch_dims.count - s.collapsed_dims.count;
        const i64 rank = windows + static_cast<i64>(index_extents.size());
        std::vector<bool> of_window(size(rank), false);
        for (i64 left = windows; left > 0;) {
            const i64 d = draw(0, 2) == 0 ? draw(0, rank - 1) : rank - left;
            if (!of_window[size(d)]) {
                of_window[size(d)] = true;
                --left;
            }
        }
        int index_dim = 0, window_dim = 0;
        for (int d = 0; d < rank; ++d)
            if (of_window[size(d)]) {
                s.offset_dims.of[s.offset_dims.count++] = d;
                while (has(s.batch_dims, window_dim) || has(s.collapsed_dims, window_dim))
                    ++window_dim;
                out.push_back(s.slice_extent[window_dim++]);
            } else {
                out.push_back(index_extents[size(index_dim++)]);
            }
    }

    /// The local index in the operand of an element of out, as the specification of StableHLO computes it.
    Index place(const Tokens& starts, const Index& index, bool clamp) const
    {
        const GatherShape& s = shape;
        Index batch, offset;
        for (int d = 0; d < static_cast<int>(index.size()); ++d)
            (has(s.offset_dims, d) ? offset : batch).push_back(index[size(d)]);
        Index whole(size(s.rank), 0); // in the whole operand
        for (int k = 0; k < s.index_map.count; ++k) {
            Index at_start = batch;
            if (s.index_dim < s.index_rank)
                at_start.insert(at_start.begin() + s.index_dim, k);
            const int d = s.index_map.of[k];
            i64 start = starts[at(indices, at_start)];
            if (clamp)
                start = std::max<i64>(0, std::min(start, s.whole[d] - s.sizes[d]));
            whole[size(d)] += start;
        }
        for (int b = 0; b < s.batch_dims.count; ++b) {
            const int dim = s.index_batch_dims.of[b];
            whole[size(s.batch_dims.of[b])] = batch[size(dim - (dim > s.index_dim ? 1 : 0))];
        }
        std::size_t next = 0;
        for (int d = 0; d < s.rank; ++d)
            if (!has(s.batch_dims, d) && !has(s.collapsed_dims, d))
                whole[size(d)] += s.slice_begin[d] + offset[next++];
        for (int d = 0; d < s.rank; ++d)
            if (!has(s.batch_dims, d))
                whole[size(d)] -= s.begin[d];
        return whole;
    }
};

double joined(Combine how, double a, double b)
{
    switch (how) {
    case Combine::sum: return a + b;
    case Combine::product: return a * b;
    case Combine::max: return std::max(a, b);
    case Combine::min: return std::min(a, b);
    case Combine::set: return b;
    }
    return 0;
}

} // namespace

TEMPLATE_TEST_CASE("gather follows StableHLO", "", TRV_TENSOR_TYPES)
{
    using T = TestType;
    Draw draw("gather");
    for (int round = 1; round <= 60; ++round) {
        const DrawnGather drawn(draw, round);
        const auto x = draw.tensor<T>(volume(drawn.extent), -99, 99);
        const auto starts = draw.tensor<std::int32_t>(volume(drawn.indices), -3, 12);
        std::vector<T> want;
        each_index(drawn.out, [&](const Index& index) {
            const Index from = drawn.place(starts, index, true);
            want.push_back(inside(drawn.extent, from) ? x[at(drawn.extent, from)] : T(Acc<T>(0)));
        });
        const auto y = std::get<0>(stable([&](const Exec& exec) {
            std::vector<T> result(want.size());
            gather<T>(exec, drawn.shape, lend(x), lend(starts), lend(result));
            return std::tuple(result);
        }));
        INFO("round " << round);
        require_equal(y, want);
    }
}

TEMPLATE_TEST_CASE("scatter follows StableHLO, in the order of the updates", "", TRV_TENSOR_TYPES)
{
    using T = TestType;
    Draw draw("scatter");
    for (int round = 1; round <= 60; ++round) {
        const DrawnGather drawn(draw, round);
        const auto how = static_cast<Combine>(round % 5);
        const bool from_operand = draw(0, 1) == 1;
        const i64 most = how == Combine::product ? 1 : 3;
        const auto x = draw.tensor<T>(volume(drawn.extent), -most, most);
        const auto updates = draw.tensor<T>(volume(drawn.out), -most, most);
        const auto starts = draw.tensor<std::int32_t>(volume(drawn.indices), -2, 7);
        const double inf = std::is_integral_v<T> ? 2147483647.0 : std::numeric_limits<double>::infinity();
        const double low = std::is_integral_v<T> ? -2147483648.0 : -inf;
        const double none = how == Combine::product ? 1
                            : how == Combine::max   ? low
                            : how == Combine::min   ? inf
                                                    : 0;
        Doubles want = from_operand ? wide(x) : Doubles(x.size(), none);
        each_index(drawn.out, [&](const Index& index) {
            const Index to = drawn.place(starts, index, false);
            if (inside(drawn.extent, to)) {
                double& value = want[at(drawn.extent, to)];
                value = joined(how, value, number(updates[at(drawn.out, index)]));
            }
        });
        const auto y = std::get<0>(stable([&](const Exec& exec) {
            std::vector<T> result(want.size());
            scatter<T>(exec, drawn.shape, how, from_operand, lend(x), lend(starts), lend(updates),
                       lend(result));
            return std::tuple(result);
        }));
        INFO("round " << round);
        require_equal(y, narrow<T>(want));
    }
}

TEMPLATE_TEST_CASE("dynamic slices of shards, and updates", "", TRV_TENSOR_TYPES)
{
    using T = TestType;
    Draw draw("dynamic");
    for (int round = 1; round <= 36; ++round) {
        DynamicSliceShape s;
        s.rank = static_cast<int>(draw(0, 4));
        Index extent, out;
        Tokens starts;
        Index clamped;
        for (int d = 0; d < s.rank; ++d) {
            s.whole[d] = d + 1 == s.rank && round % 2 == 0 ? draw(20, 600) : draw(1, 6);
            s.size[d] = draw(0, 1) == 0 ? s.whole[d] : draw(round % 8 == 0 ? 0 : 1, s.whole[d]);
            const bool shard = round % 3 == 0;
            s.begin[d] = shard ? draw(0, s.whole[d] - 1) : 0;
            s.extent[d] = shard ? draw(0, s.whole[d] - s.begin[d]) : s.whole[d];
            s.slice_begin[d] = shard ? draw(0, s.size[d]) : 0;
            s.slice_extent[d] = shard ? draw(0, s.size[d] - s.slice_begin[d]) : s.size[d];
            extent.push_back(s.extent[d]);
            out.push_back(s.slice_extent[d]);
            starts.push_back(static_cast<std::int32_t>(draw(-3, s.whole[d] + 2)));
            clamped.push_back(std::max<i64>(0, std::min<i64>(starts.back(), s.whole[d] - s.size[d])));
        }
        const auto place = [&](const Index& index) {
            Index from;
            for (std::size_t d = 0; d < index.size(); ++d)
                from.push_back(clamped[d] + s.slice_begin[d] + index[d] - s.begin[d]);
            return from;
        };
        const auto x = draw.tensor<T>(volume(extent), -99, 99), update = draw.tensor<T>(volume(out), -99, 99);
        std::vector<T> want, updated = x;
        each_index(out, [&](const Index& index) {
            const Index from = place(index);
            const bool here = inside(extent, from);
            want.push_back(here ? x[at(extent, from)] : T(Acc<T>(0)));
            if (here)
                updated[at(extent, from)] = update[at(out, index)];
        });
        const auto [slice, result, in_place] = stable([&](const Exec& exec) {
            std::vector<T> y(want.size()), z(x.size()), same = x;
            const auto lent = lend(starts); // its copy on a device lives as long
            DynamicStarts begins;
            for (int d = 0; d < s.rank; ++d)
                begins.of[d] = lent + d;
            dynamic_slice<T>(exec, s, lend(x), begins, lend(y));
            dynamic_update_slice<T>(exec, s, lend(x), lend(update), begins, lend(z));
            dynamic_update_slice<T>(exec, s, lend(same), lend(update), begins, lend(same));
            return std::tuple(y, z, same);
        });
        INFO("round " << round);
        require_equal(slice, want);
        require_equal(result, updated);
        require_equal(in_place, updated);
    }
}
