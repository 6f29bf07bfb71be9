// The kernels of general tensor ops through dispatch, whole and in parts, against their definitions: every
// element type, random shapes and attributes.
#include "base/check.hpp"
#include "catch.hpp"
#include "general_cases.hpp"

#include <cmath>

using namespace trivium;
using namespace trivium::runs;

namespace {

using A = Attr;
using K = OpKind;

void require_fit(const OpCase& c, unsigned seed, double tolerance = 0, bool in_parts = true)
{
    REQUIRE(check(c, seed, tolerance, in_parts));
}

} // namespace

TEST_CASE("ops on elements")
{
    const Shape shape = {3, 5};
    const double inf = INFINITY, nan = NAN;
    for (const K kind : {K::negate, K::abs, K::sign, K::floor, K::ceil, K::logical_not})
        require_fit({str("op ", static_cast<int>(kind)), kind, {}, {{shape}}}, 3);
    for (const K kind : {K::negate, K::abs, K::sign, K::floor, K::ceil})
        require_fit(
            {"op of fractions", kind, {}, {{{6}, false, 0, 0, {0.5, -0.5, 1.75, -1.75, inf, nan}}}, true}, 3,
            0, false);
    for (const K kind : {K::exp, K::expm1, K::tanh, K::sigmoid, K::sin, K::cos, K::erf})
        require_fit({str("op ", static_cast<int>(kind)), kind, {}, {{shape}}, true}, 4, 2e-6, true);
    for (const K kind : {K::log, K::log1p, K::sqrt, K::rsqrt})
        require_fit({str("op ", static_cast<int>(kind)), kind, {}, {{shape, false, 1, 9}}, true}, 5, 2e-6,
                    true);
    for (const K kind : {K::add, K::subtract, K::multiply, K::maximum, K::minimum, K::logical_and,
                         K::logical_or, K::logical_xor, K::remainder})
        require_fit({str("op ", static_cast<int>(kind)), kind, {}, {{shape}, {shape, false, 1, 5}}}, 6);
    require_fit({"divide", K::divide, {}, {{shape}, {shape, false, 1, 5}}}, 7, 1e-6);
    require_fit({"divide by zero", K::divide, {}, {{{2}}, {{2}, false, 0, 0}}}, 7);
    require_fit({"power", K::power, {}, {{shape}, {shape, false, 0, 4}}}, 8, 1e-6);
    require_fit({"maximum of NaN",
                 K::maximum,
                 {},
                 {{{4}, false, 0, 0, {nan, 1, 2, inf}}, {{4}, false, 0, 0, {1, nan, 3, 1}}},
                 true},
                8);
    require_fit({"minimum of NaN",
                 K::minimum,
                 {},
                 {{{4}, false, 0, 0, {nan, 1, 2, inf}}, {{4}, false, 0, 0, {1, nan, 3, 1}}},
                 true},
                8);
    for (const char* direction : {"eq", "ne", "lt", "le", "gt", "ge"})
        require_fit({str("compare ", direction), K::compare, {.direction = direction}, {{shape}, {shape}}},
                    9);
    require_fit({"select", K::select, {}, {{shape, true, -1, 1}, {shape}, {shape}}}, 10);
    require_fit({"a scalar", K::multiply, {}, {{{}}, {{}}}}, 11);
}

TEST_CASE("casts between the four types")
{
    for (const DType to : {DType::f64, DType::f32, DType::bf16, DType::i32}) {
        require_fit({"cast", K::cast, {.dtype = to}, {{{4, 3}}}}, 1);
        require_fit({"cast of fractions",
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
    check_random(30, [](Random& r) -> OpCase {
        const Shape shape = random_shape(r, static_cast<std::size_t>(r.from(1, 4)), 4);
        const auto rank = static_cast<i64>(shape.size());
        const Combine combine = std::vector{Combine::sum, Combine::max, Combine::min,
                                            Combine::product}[static_cast<std::size_t>(r.from(0, 3))];
        return {"reduce",
                K::reduce,
                {.combine = combine, .lists = {{A::dims, r.some(rank, r.from(0, rank))}}},
                {{shape, false, -2, 2}}};
    });
    check_random(30, [](Random& r) -> OpCase {
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
    check_random(20, [](Random& r) -> OpCase {
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
    check_random(10, [](Random& r) -> OpCase {
        const auto rank = r.from(1, 3);
        return {"reverse",
                K::reverse,
                {.lists = {{A::dims, r.some(rank, r.from(1, rank))}}},
                {{random_shape(r, static_cast<std::size_t>(rank), 7)}}};
    });
}

TEST_CASE("orders")
{
    const double nan = NAN;
    check_random(12, [](Random& r) -> OpCase {
        const Shape shape = random_shape(r, static_cast<std::size_t>(r.from(1, 3)), 7);
        Attributes attrs{.lists = {{A::dims, {r.from(0, static_cast<i64>(shape.size()) - 1)}}}};
        if (r.from(0, 1) == 1)
            attrs.lists.set(A::descending, {1});
        return {"sort with payloads", K::sort, attrs, {{shape, false, -2, 2}, {shape, true, 0, 99}, {shape}}};
    });
    require_fit({"sort with NaN",
                 K::sort,
                 {.lists = {{A::dims, {0}}, {A::descending, {1}}}},
                 {{{6}, false, 0, 0, {2, nan, 1, nan, 2, -1}}, {{6}, true, 0, 0, {0, 1, 2, 3, 4, 5}}},
                 true},
                1);
    require_fit({"sort with NaN",
                 K::sort,
                 {.lists = {{A::dims, {0}}}},
                 {{{6}, false, 0, 0, {2, nan, 1, nan, 2, -1}}, {{6}, true, 0, 0, {0, 1, 2, 3, 4, 5}}},
                 true},
                1);
    check_random(12, [](Random& r) -> OpCase {
        const Shape shape = random_shape(r, static_cast<std::size_t>(r.from(1, 3)), 9);
        return {
            "top_k", K::top_k, {.lists = {{A::count, {r.from(1, shape.back())}}}}, {{shape, false, -2, 2}}};
    });
    check_random(12, [](Random& r) -> OpCase {
        const Shape shape = random_shape(r, static_cast<std::size_t>(r.from(1, 3)), 7);
        Attributes attrs{.lists = {{A::dims, {r.from(0, static_cast<i64>(shape.size()) - 1)}}}};
        if (r.from(0, 1) == 1)
            attrs.lists.set(A::backwards, {1});
        return {"cumsum", K::cumsum, attrs, {{shape}}};
    });
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
