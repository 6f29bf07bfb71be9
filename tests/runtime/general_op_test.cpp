// The kernels of general tensor ops through dispatch, whole and in parts, against their definitions: every
// element type, random shapes and attributes.
#include "base/check.hpp"
#include "catch.hpp"
#include "naive_ops.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <random>

using namespace trivium;
using namespace trivium::runs;

namespace {

using L = NumberLists;
using A = Attr;
using K = OpKind;

/// An operand of the tensors' type, or i32 with contents from `low` to `high`.
struct In {
    Shape shape;
    bool index = false;
    i64 low = -4, high = 4;
    std::vector<double> cells{}; ///< instead of random ones
};

struct Case {
    std::string name;
    OpKind kind{};
    Attributes attrs{};
    std::vector<In> in{};
    bool real = false; ///< not for i32
};

class Random {
public:
    explicit Random(unsigned seed) : engine_(seed) {}
    i64 from(i64 low, i64 high) { return std::uniform_int_distribution<i64>(low, high)(engine_); }
    std::vector<i64> list(std::size_t n, i64 low, i64 high)
    {
        std::vector<i64> all(n);
        for (i64& number : all)
            number = from(low, high);
        return all;
    }
    /// `count` of the numbers below n, in random order.
    std::vector<i64> some(i64 n, i64 count)
    {
        std::vector<i64> all;
        for (i64 i = 0; i < n; ++i)
            all.push_back(i);
        std::shuffle(all.begin(), all.end(), engine_);
        all.resize(static_cast<std::size_t>(count));
        return all;
    }

private:
    std::mt19937 engine_;
};

std::vector<Array> contents(const Case& c, DType type, unsigned seed)
{
    Random random(seed);
    std::vector<Array> all;
    for (const In& in : c.in) {
        Array array{{in.index ? DType::i32 : type, in.shape}, in.cells};
        while (static_cast<i64>(array.cells.size()) < array.type.elements())
            array.cells.push_back(static_cast<double>(random.from(in.low, in.high)));
        for (double& cell : array.cells)
            cell = array.type.dtype == DType::i32 ? cell : rounded(cell, array.type.dtype);
        all.push_back(std::move(array));
    }
    return all;
}

/// Appends a JSON line to the file that TRIVIUM_GENERAL_OPS names, for general_op_check.py.
void record(OpKind kind, const Attributes& attrs, const std::vector<Array>& operands,
            const std::vector<Array>& results)
{
    const char* path = std::getenv("TRIVIUM_GENERAL_OPS");
    if (!path)
        return;
    std::ofstream out(path, std::ios::app);
    out.precision(17);
    const auto list = [&](const auto& numbers) {
        out << '[';
        for (std::size_t i = 0; i < numbers.size(); ++i) {
            out << (i ? "," : "");
            if (const auto number = static_cast<double>(numbers[i]); std::isfinite(number))
                out << number;
            else
                out << (std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity");
        }
        out << ']';
    };
    const auto arrays = [&](const char* name, const std::vector<Array>& all) {
        out << ", \"" << name << "\": [";
        for (std::size_t i = 0; i < all.size(); ++i) {
            out << (i ? ", " : "") << "{\"type\": \"" << name_of(all[i].type.dtype) << "\", \"shape\": ";
            list(all[i].type.shape);
            out << ", \"cells\": ";
            list(all[i].cells);
            out << '}';
        }
        out << ']';
    };
    out << "{\"op\": \"" << info(kind).name << "\"";
    for (const L::Entry& entry : attrs.lists.entries()) {
        const auto* name = std::find_if(std::begin(list_names), std::end(list_names),
                                        [&](const ListName& l) { return l.attr == entry.attr; });
        out << ", \"" << name->name << "\": ";
        list(entry.numbers);
    }
    if (attrs.combine)
        out << ", \"combine\": \"" << name_of(*attrs.combine) << "\"";
    if (attrs.direction)
        out << ", \"direction\": \"" << *attrs.direction << "\"";
    if (attrs.value)
        out << ", \"value\": " << *attrs.value;
    arrays("operands", operands);
    arrays("results", results);
    out << "}\n";
}

/// Runs the case in every type. Returns false if the attributes do not fit.
bool check(const Case& c, unsigned seed, double tolerance = 0, bool in_parts = true)
{
    for (const DType type : {DType::f64, DType::f32, DType::bf16, DType::i32}) {
        if (type == DType::i32 && c.real)
            continue;
        INFO(c.name << " of " << name_of(type) << ", seed " << seed);
        Attributes attrs = c.attrs;
        if (c.in.empty())
            attrs.dtype = type;
        const std::vector<Array> operands = contents(c, type, seed);
        std::vector<Array> made;
        try {
            made = run_op(c.kind, attrs, operands);
        } catch (const UserError&) {
            return false;
        }
        if (type == DType::f64)
            record(c.kind, attrs, operands, made);
        std::vector<TensorType> types;
        for (const Array& array : made)
            types.push_back(array.type);
        const std::vector<Array> expected = naive_op(c.kind, attrs, operands, types);
        for (std::size_t r = 0; r < made.size(); ++r) {
            INFO("result " << r);
            check_equal(made[r], expected[r], type == DType::bf16 ? 10 * tolerance : tolerance);
        }
        if (in_parts && (type == DType::f64 || type == DType::i32))
            check_parts(c.kind, attrs, operands, made);
    }
    return true;
}

void check_all(const std::vector<Case>& cases, double tolerance = 0)
{
    unsigned seed = 1;
    for (const Case& c : cases) {
        INFO(c.name);
        CHECK(check(c, seed++, tolerance));
    }
}

/// Random cases until `count` of them fit.
void check_random(int count, const std::function<Case(Random&)>& make)
{
    int done = 0;
    for (unsigned seed = 1; done < count && seed < 50U * static_cast<unsigned>(count); ++seed) {
        Random random(seed);
        done += check(make(random), seed) ? 1 : 0;
    }
    CHECK(done == count);
}

Shape random_shape(Random& random, std::size_t rank, i64 most = 5) { return random.list(rank, 1, most); }

} // namespace

TEST_CASE("ops on elements")
{
    const Shape shape = {3, 5};
    const double inf = INFINITY, nan = NAN;
    for (const K kind : {K::negate, K::abs, K::sign, K::floor, K::ceil, K::logical_not})
        check({str("op ", static_cast<int>(kind)), kind, {}, {{shape}}}, 3);
    for (const K kind : {K::negate, K::abs, K::sign, K::floor, K::ceil})
        check({"op of fractions", kind, {}, {{{6}, false, 0, 0, {0.5, -0.5, 1.75, -1.75, inf, nan}}}, true},
              3, 0, false);
    for (const K kind : {K::exp, K::expm1, K::tanh, K::sigmoid, K::sin, K::cos, K::erf})
        check({str("op ", static_cast<int>(kind)), kind, {}, {{shape}}, true}, 4, 2e-6, true);
    for (const K kind : {K::log, K::log1p, K::sqrt, K::rsqrt})
        check({str("op ", static_cast<int>(kind)), kind, {}, {{shape, false, 1, 9}}, true}, 5, 2e-6, true);
    for (const K kind : {K::add, K::subtract, K::multiply, K::maximum, K::minimum, K::logical_and,
                         K::logical_or, K::logical_xor, K::remainder})
        check({str("op ", static_cast<int>(kind)), kind, {}, {{shape}, {shape, false, 1, 5}}}, 6);
    check({"divide", K::divide, {}, {{shape}, {shape, false, 1, 5}}}, 7, 1e-6);
    check({"divide by zero", K::divide, {}, {{{2}}, {{2}, false, 0, 0}}}, 7);
    check({"power", K::power, {}, {{shape}, {shape, false, 0, 4}}}, 8, 1e-6);
    check({"maximum of NaN",
           K::maximum,
           {},
           {{{4}, false, 0, 0, {nan, 1, 2, inf}}, {{4}, false, 0, 0, {1, nan, 3, 1}}},
           true},
          8);
    check({"minimum of NaN",
           K::minimum,
           {},
           {{{4}, false, 0, 0, {nan, 1, 2, inf}}, {{4}, false, 0, 0, {1, nan, 3, 1}}},
           true},
          8);
    for (const char* direction : {"eq", "ne", "lt", "le", "gt", "ge"})
        check({str("compare ", direction), K::compare, {.direction = direction}, {{shape}, {shape}}}, 9);
    check({"select", K::select, {}, {{shape, true, -1, 1}, {shape}, {shape}}}, 10);
    check({"a scalar", K::multiply, {}, {{{}}, {{}}}}, 11);
}

TEST_CASE("casts between the four types")
{
    for (const DType to : {DType::f64, DType::f32, DType::bf16, DType::i32}) {
        check({"cast", K::cast, {.dtype = to}, {{{4, 3}}}}, 1);
        check({"cast of fractions",
               K::cast,
               {.dtype = to},
               {{{5}, false, 0, 0, {0.75, -0.75, 2.5, -2.5, 100.25}}},
               true},
              1);
    }
}

TEST_CASE("ops of the first table on i32")
{
    const Array x{{DType::i32, {2, 3}}, {1, -2, 3, 4, 5, 1 << 30}},
        y{{DType::i32, {2, 3}}, {6, 5, 4, 3, 2, 1}};
    check_equal(run_op(K::fill, {.value = 7.0}, {x})[0], {x.type, {7, 7, 7, 7, 7, 7}}, 0);
    check_equal(run_op(K::reshard, {}, {x})[0], x, 0);
    check_equal(run_op(K::copy_into, {}, {x, y})[0], y, 0);
    check_equal(run_op(K::add, {}, {x, y})[0], {x.type, {7, 3, 7, 7, 7, (1 << 30) + 1}}, 0);
    check_equal(run_op(K::accumulate, {}, {x})[0], x, 0);
}

TEST_CASE("tensors without operands")
{
    check_all({{"constant", K::constant, {.value = 2.5, .lists = {{A::shape, {3, 4}}}}},
               {"scalar constant", K::constant, {.value = -3.0, .lists = {{A::shape, {}}}}},
               {"iota 0", K::iota, {.lists = {{A::shape, {4, 3}}, {A::dims, {0}}}}},
               {"iota 1", K::iota, {.lists = {{A::shape, {2, 5, 3}}, {A::dims, {1}}}}}});
}

TEST_CASE("shapes")
{
    check_random(30, [](Random& r) -> Case {
        const Shape shape = random_shape(r, static_cast<std::size_t>(r.from(1, 4)), 4);
        const auto rank = static_cast<i64>(shape.size());
        const Combine combine = std::vector{Combine::sum, Combine::max, Combine::min,
                                            Combine::product}[static_cast<std::size_t>(r.from(0, 3))];
        return {"reduce",
                K::reduce,
                {.combine = combine, .lists = {{A::dims, r.some(rank, r.from(0, rank))}}},
                {{shape, false, -2, 2}}};
    });
    check_random(30, [](Random& r) -> Case {
        const auto rank = r.from(0, 3), more = r.from(0, 2);
        Shape in = random_shape(r, static_cast<std::size_t>(rank)),
              out = random_shape(r, static_cast<std::size_t>(rank + more));
        const auto dims = r.some(rank + more, rank); // permuted
        for (std::size_t d = 0; d < in.size(); ++d)
            if (r.from(0, 2) == 0)
                in[d] = 1;
            else
                out[static_cast<std::size_t>(dims[d])] = in[d];
        return {"broadcast", K::broadcast, {.lists = {{A::dims, dims}, {A::shape, out}}}, {{in}}};
    });
    check_random(20, [](Random& r) -> Case {
        const auto rank = r.from(1, 4);
        return {"transpose",
                K::transpose,
                {.lists = {{A::dims, r.some(rank, rank)}}},
                {{random_shape(r, static_cast<std::size_t>(rank))}}};
    });
    check_all({{"reshape", K::reshape, {.lists = {{A::shape, {6, 4}}}}, {{{2, 3, 4}}}},
               {"reshape of odd factors", K::reshape, {.lists = {{A::shape, {4, 9}}}}, {{{6, 6}}}},
               {"reshape to a scalar", K::reshape, {.lists = {{A::shape, {}}}}, {{{1, 1}}}},
               {"reshape with ones", K::reshape, {.lists = {{A::shape, {1, 12, 1}}}}, {{{3, 1, 4}}}}});
    check_random(10, [](Random& r) -> Case {
        const auto rank = r.from(1, 3);
        return {"reverse",
                K::reverse,
                {.lists = {{A::dims, r.some(rank, r.from(1, rank))}}},
                {{random_shape(r, static_cast<std::size_t>(rank), 7)}}};
    });
}

TEST_CASE("slices and pads")
{
    check_random(40, [](Random& r) -> Case {
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
    check_random(50, [](Random& r) -> Case {
        const auto rank = static_cast<std::size_t>(r.from(1, 3));
        Attributes attrs{.value = static_cast<double>(r.from(-1, 1)),
                         .lists = {{A::low, r.list(rank, -3, 3)}, {A::high, r.list(rank, -3, 3)}}};
        if (r.from(0, 1) > 0)
            attrs.lists.set(A::interior, r.list(rank, 0, 2));
        return {"pad", K::pad, attrs, {{random_shape(r, rank, 6)}}};
    });
    check_random(15, [](Random& r) -> Case {
        Case c{"concatenate", K::concatenate};
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
    check_random(30, [](Random& r) -> Case {
        const Shape shape = random_shape(r, static_cast<std::size_t>(r.from(1, 3)), 7);
        Shape sizes;
        for (const i64 extent : shape)
            sizes.push_back(r.from(0, 2) == 0 ? extent : r.from(1, extent));
        Case c{"dynamic_slice", K::dynamic_slice, {.lists = {{A::shape, sizes}}}, {{shape}}};
        for (std::size_t d = 0; d < shape.size(); ++d)
            c.in.push_back({{}, true, -3, 9});
        return c;
    });
    check_random(30, [](Random& r) -> Case {
        const Shape shape = random_shape(r, static_cast<std::size_t>(r.from(1, 3)), 7);
        Shape sizes;
        for (const i64 extent : shape)
            sizes.push_back(r.from(0, 2) == 0 ? extent : r.from(1, extent));
        Case c{"dynamic_update_slice", K::dynamic_update_slice, {}, {{shape}, {sizes}}};
        for (std::size_t d = 0; d < shape.size(); ++d)
            c.in.push_back({{}, true, -3, 9});
        return c;
    });
}

namespace {

/// Random dimension numbers of a gather, or of a scatter.
Case indexed(Random& r, bool scatters)
{
    Case c{scatters ? "scatter" : "gather", scatters ? K::scatter : K::gather};
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

TEST_CASE("orders")
{
    const double nan = NAN;
    check_random(12, [](Random& r) -> Case {
        const Shape shape = random_shape(r, static_cast<std::size_t>(r.from(1, 3)), 7);
        Attributes attrs{.lists = {{A::dims, {r.from(0, static_cast<i64>(shape.size()) - 1)}}}};
        if (r.from(0, 1) == 1)
            attrs.lists.set(A::descending, {1});
        return {"sort with payloads", K::sort, attrs, {{shape, false, -2, 2}, {shape, true, 0, 99}, {shape}}};
    });
    check({"sort with NaN",
           K::sort,
           {.lists = {{A::dims, {0}}, {A::descending, {1}}}},
           {{{6}, false, 0, 0, {2, nan, 1, nan, 2, -1}}, {{6}, true, 0, 0, {0, 1, 2, 3, 4, 5}}},
           true},
          1);
    check({"sort with NaN",
           K::sort,
           {.lists = {{A::dims, {0}}}},
           {{{6}, false, 0, 0, {2, nan, 1, nan, 2, -1}}, {{6}, true, 0, 0, {0, 1, 2, 3, 4, 5}}},
           true},
          1);
    check_random(12, [](Random& r) -> Case {
        const Shape shape = random_shape(r, static_cast<std::size_t>(r.from(1, 3)), 9);
        return {
            "top_k", K::top_k, {.lists = {{A::count, {r.from(1, shape.back())}}}}, {{shape, false, -2, 2}}};
    });
    check_random(12, [](Random& r) -> Case {
        const Shape shape = random_shape(r, static_cast<std::size_t>(r.from(1, 3)), 7);
        Attributes attrs{.lists = {{A::dims, {r.from(0, static_cast<i64>(shape.size()) - 1)}}}};
        if (r.from(0, 1) == 1)
            attrs.lists.set(A::backwards, {1});
        return {"cumsum", K::cumsum, attrs, {{shape}}};
    });
}

namespace {

Case convolution(Random& r, OpKind kind)
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

Case pooling(Random& r, bool gradient)
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
    for (const i64 extent : y)
        if (extent == 0)
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

TEST_CASE("products that are not one matrix product")
{
    check_all(
        {{"plain", K::matmul, {.rule = "m k, k n -> m n"}, {{{3, 4}}, {{4, 5}}}},
         {"mixed factors", K::matmul, {.rule = "a k b, k c -> a c b"}, {{{2, 3, 4}}, {{3, 5}}}},
         {"summed in one operand", K::matmul, {.rule = "a b, a c -> c"}, {{{3, 4}}, {{3, 2}}}},
         {"outer product", K::matmul, {.rule = "a, b -> b a"}, {{{3}}, {{4}}}},
         {"batch in the middle", K::matmul, {.rule = "m b k, n b k -> m b n"}, {{{2, 3, 4}}, {{5, 3, 4}}}},
         {"elements", K::matmul, {.rule = "a b, b a -> a b"}, {{{3, 4}}, {{4, 3}}}},
         {"a scalar", K::matmul, {.rule = "a b, a b -> ."}, {{{3, 4}}, {{3, 4}}}}});
}

TEST_CASE("empty tensors")
{
    check_all({{"reduce", K::reduce, {.combine = Combine::max, .lists = {{A::dims, {0}}}}, {{{0, 3}}}},
               {"pad", K::pad, {.value = 2.0, .lists = {{A::low, {1, 0}}, {A::high, {2, 0}}}}, {{{0, 3}}}},
               {"concatenate", K::concatenate, {.lists = {{A::dims, {0}}}}, {{{0, 3}}, {{2, 3}}, {{0, 3}}}},
               {"product", K::matmul, {.rule = "m k, k n -> m n"}, {{{2, 0}}, {{0, 3}}}},
               {"scatter",
                K::scatter,
                {.lists = {{A::offset_dims, {1}}, {A::collapsed_dims, {0}}, {A::index_map, {0}}}},
                {{{3, 2}}, {{0}, true, 0, 2}, {{0, 2}}}},
               {"add", K::add, {}, {{{0, 3}}, {{0, 3}}}}});
}

TEST_CASE("operands of one op have one element type")
{
    const Array x{{DType::f32, {2}}, {1, 2}}, y{{DType::bf16, {2}}, {1, 2}}, i{{DType::i32, {2}}, {1, 2}};
    CHECK_THROWS_AS(run_op(K::multiply, {}, {x, y}), UserError);
    CHECK_THROWS_AS(run_op(K::add, {}, {x, i}), UserError);
    CHECK_THROWS_AS(run_op(K::select, {}, {x, x, x}), UserError);
    CHECK_THROWS_AS(run_op(K::exp, {}, {i}), UserError);
    CHECK_THROWS_AS(run_op(K::concatenate, {.lists = {{A::dims, {0}}}}, {x, i}), UserError);
    CHECK_THROWS_AS(run_op(K::matmul, {.rule = "a, a -> ."}, {x, y}), UserError);
    CHECK_THROWS_AS(run_op(K::gather,
                           {.lists = {{A::collapsed_dims, {0}}, {A::index_map, {0}}, {A::slice_sizes, {1}}}},
                           {x, x}),
                    UserError);
}
