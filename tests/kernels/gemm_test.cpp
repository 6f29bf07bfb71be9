#include "gemm_cases.hpp"
#include "kernels/elementwise.hpp"

using namespace trivium;
using namespace trivium::kernels;

namespace {

/// On the host, with 1, 2 and 3 threads, which give the same bits.
template <class T, class Out>
void run_product(const ProductShape& shape, bool overwrite, ProductData<T, Out>& data)
{
    std::tie(data.c, data.pre) = stable([&](const Exec& exec) {
        const Product product(shape, exec.threads);
        const TestScratch scratch(product.scratch_bytes());
        std::vector<Out> c = data.c, pre = data.pre;
        product.run(exec, data.a.data(), data.b.data(), c.data(), overwrite, scratch,
                    {data.bias.data(), pre.data()});
        return std::tuple(c, pre);
    });
}

template <class T, class Out>
void check_here()
{
    check_products<T, Out>(run_product<T, Out>, tolerance<Out>);
}

template <class T, class Out>
void check_one(const ProductShape& shape)
{
    check_product<T, Out>(shape, run_product<T, Out>, tolerance<Out>);
}

} // namespace

TEST_CASE("products of every layout, odd sizes, batches and epilogues")
{
    check_here<double, double>();
    check_here<float, float>();
}

TEST_CASE("products in bf16 of every layout, odd sizes, batches and epilogues")
{
    check_here<bf16, float>();
    check_here<bf16, bf16>();
}

TEMPLATE_TEST_CASE("an epilogue gives the bits of separate kernels", "", TRV_STORAGE_TYPES)
{
    using T = TestType;
    start_runtime();
    ProductShape shape{37, 48, 65, false, true, dtype_of<T>, dtype_of<T>};
    const auto a = random<T>(37 * 65, "a"), b = random<T>(48 * 65, "b"), bias = random<T>(48, "bias");
    const std::size_t size = 37 * 48;
    const TestScratch scratch(Product(shape).scratch_bytes());
    std::vector<T> sum(size), biased(size), activated(size), slope(size), added(size), c(size), pre(size);
    Product(shape).run({}, a.data(), b.data(), sum.data(), true, scratch);
    bias_add<T>({}, 37, 48, sum.data(), bias.data(), biased.data());
    gelu<T>({}, 37 * 48, biased.data(), activated.data());
    gelu_grad<T>({}, 37 * 48, sum.data(), biased.data(), slope.data());
    add<T>({}, 37 * 48, biased.data(), sum.data(), added.data());
    const auto run = [&](Epilogue epilogue) {
        shape.epilogue = epilogue;
        Product(shape).run({}, a.data(), b.data(), c.data(), true, scratch, {bias.data(), pre.data()});
    };
    run(Epilogue::bias);
    CHECK(same_bits(c, biased));
    run(Epilogue::bias_gelu);
    CHECK(same_bits(c, activated));
    CHECK(same_bits(pre, biased));
    run(Epilogue::gelu_grad);
    CHECK(same_bits(c, slope));
    run(Epilogue::add);
    CHECK(same_bits(c, added));
}

TEST_CASE("long sums of a transposed product do not depend on the threads")
{
    for (const i64 n : {16, 64, 100, 192})
        check_one<float, float>({16, n, 4096, true, false});
    check_one<bf16, float>({64, 64, 8192, true, false});
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
