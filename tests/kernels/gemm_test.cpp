#include "kernels/gemm.hpp"

#include "reference.hpp"
#include "support.hpp"

using namespace trivium;
using namespace trivium::kernels;

namespace {

/// Runs a product (twice where accumulating) and compares it with the reference.
template <class T, class Out>
void check_product(ProductShape shape)
{
    INFO("m " << shape.m << " n " << shape.n << " k " << shape.k << " batch " << shape.batch << " ta "
              << shape.transpose_a << " tb " << shape.transpose_b);
    shape.in = dtype_of<T>;
    shape.out = dtype_of<Out>;
    const i64 size_a = shape.m * shape.k, size_b = shape.k * shape.n, size_c = shape.m * shape.n;
    if (shape.batch > 1)
        shape.stride_c = size_c;
    const auto a = random<T>(size_a + (shape.batch - 1) * shape.stride_a, "a");
    const auto b = random<T>(size_b + (shape.batch - 1) * shape.stride_b, "b");
    const auto before = random<Out>(size_c * shape.batch, "c");
    Doubles want;
    for (i64 i = 0; i < shape.batch; ++i) {
        const Doubles wide_a = wide(a), wide_b = wide(b);
        const Doubles part = reference::product(shape.m, shape.n, shape.k, shape.transpose_a, shape.transpose_b,
                                                wide_a.data() + i * shape.stride_a, wide_b.data() + i * shape.stride_b);
        want.insert(want.end(), part.begin(), part.end());
    }
    const auto [set, added] = stable([&](const Exec& exec) {
        const Product product(shape, exec.threads);
        const TestScratch scratch(product.scratch_bytes());
        std::vector<Out> c = before, d = before;
        product.run(exec, a.data(), b.data(), c.data(), true, scratch);
        product.run(exec, a.data(), b.data(), d.data(), false, scratch);
        return std::tuple(c, d);
    });
    require_close(set, want, tolerance<Out>, "overwrite");
    const Doubles base = wide(before);
    for (std::size_t i = 0; i < want.size(); ++i)
        want[i] += base[i];
    require_close(added, want, tolerance<Out>, "accumulate");
}

template <class T, class Out>
void check_shapes()
{
    const i64 sizes[][3] = {{1, 1, 1},   {1, 17, 3},   {17, 1, 5},    {3, 5, 1},    {127, 131, 137},
                            {64, 64, 64}, {1, 300, 64}, {128, 48, 96}, {33, 257, 50}, {2, 2, 1500}};
    for (const auto& [m, n, k] : sizes)
        for (const bool transpose_a : {false, true})
            for (const bool transpose_b : {false, true})
                check_product<T, Out>({m, n, k, transpose_a, transpose_b});
}

} // namespace

TEST_CASE("products of every layout and odd sizes")
{
    check_shapes<double, double>();
    check_shapes<float, float>();
    check_shapes<bf16, float>();
    check_shapes<bf16, bf16>();
}

TEMPLATE_TEST_CASE("batches of products, strided and shared", "", TRV_STORAGE_TYPES)
{
    for (const bool transpose_a : {false, true})
        for (const bool transpose_b : {false, true}) {
            check_product<TestType, Acc<TestType>>(
                {9, 20, 7, transpose_a, transpose_b, DType::f32, DType::f32, 3, 63, 140});
            check_product<TestType, Acc<TestType>>(
                {9, 20, 7, transpose_a, transpose_b, DType::f32, DType::f32, 3, 63, 0});
            check_product<TestType, Acc<TestType>>(
                {9, 20, 7, transpose_a, transpose_b, DType::f32, DType::f32, 3, 0, 140});
        }
}

TEST_CASE("long sums of a transposed product do not depend on the threads")
{
    for (const i64 n : {16, 64, 100, 192})
        check_product<float, float>({16, n, 4096, true, false});
    check_product<bf16, float>({64, 64, 8192, true, false});
}

TEST_CASE("empty products")
{
    start_runtime();
    std::vector<float> c{1, 2, 3, 4};
    const Product none({2, 2, 0});
    none.run({}, nullptr, nullptr, c.data(), false, {});
    CHECK(c == std::vector<float>{1, 2, 3, 4});
    none.run({}, nullptr, nullptr, c.data(), true, {});
    CHECK(c == std::vector<float>{0, 0, 0, 0});
    Product({0, 2, 3}).run({}, nullptr, nullptr, nullptr, true, {});
}

TEST_CASE("a product refuses too little scratch and types that do not fit")
{
    start_runtime();
    const ProductShape shape{64, 64, 64, true, false};
    const Product product(shape);
    REQUIRE(product.scratch_bytes() > 0);
    CHECK(product_scratch(shape, 1) == product.scratch_bytes());
    std::vector<float> x(64 * 64);
    CHECK_THROWS_AS(product.run({}, x.data(), x.data(), x.data(), true, {nullptr, product.scratch_bytes() - 1}),
                    InternalError);
    CHECK_THROWS_AS(Product({4, 4, 4, false, false, DType::f32, DType::bf16}), InternalError);
}
