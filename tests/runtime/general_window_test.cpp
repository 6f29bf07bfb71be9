// General ops whose elements are in windows or at indices, whole and in parts, against their definitions.
#include "catch.hpp"
#include "general_cases.hpp"
#include "ir/text/text.hpp"
#include "kernels/general/convolution.hpp"

#include <algorithm>

using namespace trivium;
using namespace trivium::runs;

namespace {

using A = Attr;
using K = OpKind;

} // namespace

TEST_CASE("slices and pads")
{
    check_random(40, [](Random& r) -> OpCase {
        const Shape shape = random_shape(r, static_cast<std::size_t>(r.from(1, 3)), 8);
        std::vector<i64> start, limit;
        for (const i64 extent : shape) {
            start.push_back(r.from(0, extent - 1));
            limit.push_back(r.from(start.back() + 1, extent));
        }
        Attributes attrs{.lists = {{A::start, start}, {A::limit, limit}}};
        if (r.from(0, 2) > 0)
            attrs.lists.set(A::stride, r.list(shape.size(), 1, 3));
        return {"slice", K::slice, attrs, {{shape}}};
    });
    check_all({{"slice of one dimension",
                K::slice,
                {.lists = {{A::start, {0, 2, 0}}, {A::limit, {3, 5, 4}}}},
                {{{3, 6, 4}}}},
               {"slice of all", K::slice, {.lists = {{A::start, {0, 0}}, {A::limit, {3, 5}}}}, {{{3, 5}}}},
               {"slice of a scalar", K::slice, {.lists = {{A::start, {}}, {A::limit, {}}}}, {{{}}}}});
    check_random(50, [](Random& r) -> OpCase {
        const auto rank = static_cast<std::size_t>(r.from(1, 3));
        Attributes attrs{.value = static_cast<double>(r.from(-1, 1)),
                         .lists = {{A::low, r.list(rank, -3, 3)}, {A::high, r.list(rank, -3, 3)}}};
        if (r.from(0, 1) > 0)
            attrs.lists.set(A::interior, r.list(rank, 0, 2));
        return {"pad", K::pad, attrs, {{random_shape(r, rank, 6)}}};
    });
    check_random(15, [](Random& r) -> OpCase {
        OpCase c{"concatenate", K::concatenate};
        const Shape shape = random_shape(r, static_cast<std::size_t>(r.from(1, 3)));
        const auto dim = static_cast<std::size_t>(r.from(0, static_cast<i64>(shape.size()) - 1));
        c.attrs.lists.set(A::dims, {static_cast<i64>(dim)});
        for (i64 i = r.from(1, 4); i > 0; --i) {
            c.in.push_back({shape});
            c.in.back().shape[dim] = r.from(1, 5);
        }
        return c;
    });
}

TEST_CASE("slices at run time")
{
    check_random(30, [](Random& r) -> OpCase {
        const Shape shape = random_shape(r, static_cast<std::size_t>(r.from(1, 3)), 7);
        Shape sizes;
        for (const i64 extent : shape)
            sizes.push_back(r.from(0, 2) == 0 ? extent : r.from(1, extent));
        OpCase c{"dynamic_slice", K::dynamic_slice, {.lists = {{A::shape, sizes}}}, {{shape}}};
        for (std::size_t d = 0; d < shape.size(); ++d)
            c.in.push_back({{}, true, -3, 9});
        return c;
    });
    check_random(30, [](Random& r) -> OpCase {
        const Shape shape = random_shape(r, static_cast<std::size_t>(r.from(1, 3)), 7);
        Shape sizes;
        for (const i64 extent : shape)
            sizes.push_back(r.from(0, 2) == 0 ? extent : r.from(1, extent));
        OpCase c{"dynamic_update_slice", K::dynamic_update_slice, {}, {{shape}, {sizes}}};
        for (std::size_t d = 0; d < shape.size(); ++d)
            c.in.push_back({{}, true, -3, 9});
        return c;
    });
}

namespace {

/// Random dimension numbers of a gather, or of a scatter.
OpCase indexed(Random& r, bool scatters)
{
    OpCase c{scatters ? "scatter" : "gather", scatters ? K::scatter : K::gather};
    const i64 rank = r.from(1, 4), batches = std::min<i64>(rank - 1, r.from(0, 1));
    Shape operand = random_shape(r, static_cast<std::size_t>(rank), 6);
    const auto special = r.some(rank, rank);
    std::vector<i64> batch(special.begin(), special.begin() + batches), collapsed, sizes;
    for (i64 i = batches; i < rank; ++i)
        if (r.from(0, 1) == 0)
            collapsed.push_back(special[static_cast<std::size_t>(i)]);
    const auto has = [](const std::vector<i64>& all, i64 d) {
        return std::find(all.begin(), all.end(), d) != all.end();
    };
    for (i64 d = 0; d < rank; ++d) {
        const i64 extent = operand[static_cast<std::size_t>(d)];
        sizes.push_back(has(batch, d) || has(collapsed, d) ? 1
                        : r.from(0, 1) == 0                ? extent
                                                           : r.from(1, extent));
    }
    std::vector<i64> map; // of any dimensions but those of the batch
    for (i64 i = batches; i < rank; ++i)
        if (r.from(0, 3) > 0)
            map.push_back(special[static_cast<std::size_t>(i)]);
    // Indices: batch dimensions and others, with the index vector somewhere.
    Shape indices = random_shape(r, static_cast<std::size_t>(batches + r.from(0, 2)), 4);
    std::vector<i64> index_batch = r.some(static_cast<i64>(indices.size()), batches);
    for (std::size_t i = 0; i < batch.size(); ++i)
        indices[static_cast<std::size_t>(index_batch[i])] = operand[static_cast<std::size_t>(batch[i])];
    const auto loose = static_cast<i64>(indices.size());
    i64 index_dim = loose;
    if (map.size() != 1 || r.from(0, 1) == 0) {
        index_dim = r.from(0, loose);
        indices.insert(indices.begin() + index_dim, static_cast<i64>(map.size()));
        for (i64& d : index_batch)
            d += d >= index_dim ? 1 : 0;
    } else {
        index_dim = static_cast<i64>(indices.size());
    }
    const i64 windows = rank - batches - static_cast<i64>(collapsed.size());
    std::vector<i64> offset = r.some(loose + windows, windows);
    std::sort(offset.begin(), offset.end());
    std::sort(collapsed.begin(), collapsed.end());
    c.attrs.lists = {{A::offset_dims, offset}, {A::collapsed_dims, collapsed},
                     {A::batch_dims, batch},   {A::index_batch_dims, index_batch},
                     {A::index_map, map},      {A::index_dim, {index_dim}}};
    if (r.from(0, 2) == 0)
        c.attrs.lists.set(A::clamp, {r.from(0, 1)});
    c.in = {{operand}, {indices, true, -2, 7}};
    if (!scatters) {
        c.attrs.lists.set(A::slice_sizes, sizes);
        return c;
    }
    Shape updates;
    std::vector<i64> window_sizes, loose_sizes;
    for (i64 d = 0; d < rank; ++d)
        if (!has(batch, d) && !has(collapsed, d))
            window_sizes.push_back(sizes[static_cast<std::size_t>(d)]);
    for (i64 d = 0; d < static_cast<i64>(indices.size()); ++d)
        if (d != index_dim)
            loose_sizes.push_back(indices[static_cast<std::size_t>(d)]);
    std::size_t next_window = 0, next_loose = 0;
    for (i64 d = 0; d < loose + windows; ++d)
        updates.push_back(has(offset, d) ? window_sizes[next_window++] : loose_sizes[next_loose++]);
    c.in.push_back({updates});
    const i64 how = r.from(0, 4);
    if (how < 4)
        c.attrs.combine = std::vector{Combine::sum, Combine::max, Combine::min,
                                      Combine::product}[static_cast<std::size_t>(how)];
    if (how == 3) {
        c.in[0].low = c.in[2].low = -1;
        c.in[0].high = c.in[2].high = 2;
    }
    return c;
}

} // namespace

TEST_CASE("gather")
{
    check_random(80, [](Random& r) { return indexed(r, false); });
}
TEST_CASE("scatter")
{
    check_random(80, [](Random& r) { return indexed(r, true); });
}

namespace {

OpCase convolution(Random& r, OpKind kind)
{
    const auto n = static_cast<std::size_t>(r.from(1, 3));
    const i64 groups = r.from(0, 1) == 0 ? 1 : r.from(2, 3), c = r.from(1, 3), o = r.from(1, 3);
    Shape x = {r.from(1, 3), groups * c}, w = {groups * o, c};
    std::vector<i64> stride(n, 1), low(n), high(n), dilation(n, 1), base(n, 1);
    const bool plain = r.from(0, 2) == 0; // a library has it
    Shape y = {x[0], groups * o};
    for (std::size_t d = 0; d < n; ++d) {
        x.push_back(r.from(1, n == 1 ? 9 : 5));
        w.push_back(r.from(1, 3));
        stride[d] = r.from(1, 3);
        dilation[d] = r.from(1, 2);
        low[d] = r.from(plain ? 0 : -2, 2);
        high[d] = r.from(plain ? 0 : -2, 2);
        base[d] = plain ? 1 : r.from(1, 3);
        const i64 room = (x.back() - 1) * base[d] + 1 + low[d] + high[d] - (w.back() - 1) * dilation[d] - 1;
        y.push_back(room < 0 ? 0 : room / stride[d] + 1);
    }
    Attributes attrs{
        .lists = {
            {A::stride, stride}, {A::low, low}, {A::high, high}, {A::dilation, dilation}, {A::base, base}}};
    if (groups > 1)
        attrs.lists.set(A::groups, {groups});
    if (kind == K::convolution)
        return {"convolution", kind, attrs, {{x}, {w}}};
    attrs.lists.set(A::shape, kind == K::convolution_grad_x ? x : w);
    for (const i64 extent : y)
        if (extent == 0)
            y.assign(1, 1); // refused
    return {"gradient of a convolution", kind, attrs, {{y}, {kind == K::convolution_grad_x ? w : x}}};
}

OpCase pooling(Random& r, bool gradient)
{
    const auto n = static_cast<std::size_t>(r.from(1, 3));
    const Shape x = random_shape(r, n, 6);
    const auto window = r.list(n, 1, 3), stride = r.list(n, 1, 3), low = r.list(n, -1, 2),
               high = r.list(n, -1, 2), dilation = r.list(n, 1, 2), base = r.list(n, 1, r.from(1, 2));
    Attributes attrs{.lists = {{A::window, window},
                               {A::stride, stride},
                               {A::low, low},
                               {A::high, high},
                               {A::dilation, dilation},
                               {A::base, base}}};
    const i64 how = r.from(0, gradient ? 1 : 3);
    attrs.combine = std::vector{Combine::max, Combine::min, Combine::sum,
                                Combine::product}[static_cast<std::size_t>(how)];
    if (!gradient)
        return {"pool", K::pool, attrs, {{x, false, -2, 2}}};
    Shape y;
    for (std::size_t d = 0; d < n; ++d) {
        const i64 room = (x[d] - 1) * base[d] + 1 + low[d] + high[d] - (window[d] - 1) * dilation[d] - 1;
        y.push_back(room < 0 ? 0 : room / stride[d] + 1);
    }
    if (std::find(y.begin(), y.end(), 0) != y.end())
        y.assign(n + 1, 1); // refused
    return {"gradient of a pool", K::pool_grad, attrs, {{y}, {x, false, -2, 2}}};
}

} // namespace

TEST_CASE("convolutions and their gradients")
{
    for (const K kind : {K::convolution, K::convolution_grad_x, K::convolution_grad_w})
        check_random(30, [&](Random& r) { return convolution(r, kind); });
}

TEST_CASE("pools and their gradients")
{
    check_random(40, [](Random& r) { return pooling(r, false); });
    check_random(40, [](Random& r) { return pooling(r, true); });
}

TEST_CASE("gradients of bf16 weights where windows reach beyond the image")
{
    // oneDNN 2.6 sums these wrongly with whole vectors of channels; the numbers are exact in bf16 and in its
    // sums.
    const auto gradient = [](DType type) {
        Array dy{{type, {2, 16, 2, 4, 4}}, {}}, x{{type, {2, 8, 3, 8, 8}}, {}};
        for (i64 i = 0; i < dy.type.elements(); ++i)
            dy.cells.push_back(static_cast<double>(i % 5 - 2));
        for (i64 i = 0; i < x.type.elements(); ++i)
            x.cells.push_back(static_cast<double>(i % 3 - 1));
        const Attributes attrs{.lists = {{A::shape, {16, 8, 3, 3, 3}},
                                         {A::stride, {2, 2, 2}},
                                         {A::low, {1, 1, 1}},
                                         {A::high, {1, 1, 1}}}};
        return run_op(K::convolution_grad_w, attrs, {dy, x}).at(0);
    };
    Array want = gradient(DType::f64);
    want.type.dtype = DType::bf16;
    for (double& cell : want.cells)
        cell = rounded(cell, DType::bf16);
    check_equal(gradient(DType::bf16), want, 0);
}

TEST_CASE("the planned scratch is enough for a convolution with large weights")
{
    using kernels::ConvKind;
    const Graph graph = parse_graph(R"(graph large
input %x : f32[1,500,6,6,6]
input %w : f32[500,500,3,3,3]
input %dy : f32[1,500,6,6,6]
%y = convolution(%x, %w) {low="1 1 1", high="1 1 1"} : f32[1,500,6,6,6]
%dx = convolution_grad_x(%dy, %w) {shape="1 500 6 6 6", low="1 1 1", high="1 1 1"} : f32[1,500,6,6,6]
%dw = convolution_grad_w(%dy, %x) {shape="500 500 3 3 3", low="1 1 1", high="1 1 1"} : f32[500,500,3,3,3]
output %y
output %dx
output %dw
)",
                                    "large.graph");
    kernels::ConvShape shape{.spatial = 3, .b = 1, .c = 500, .o = 500};
    for (int d = 0; d < 3; ++d) {
        shape.in[d] = shape.out[d] = 6;
        shape.k[d] = 3;
        shape.low[d] = 1;
    }
    const ConvKind kinds[] = {ConvKind::forward, ConvKind::grad_x, ConvKind::grad_w};
    for (std::size_t i = 0; i < 3; ++i) {
        INFO("kind " << i);
        CHECK(kernels::Convolution(kinds[i], shape, DType::f32, 8, 0).scratch_bytes() <=
              least_scratch_of(graph, graph.ops[i]));
    }
}
