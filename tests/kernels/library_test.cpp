// What the libraries of the host compute, and with which scratch; the teams have only plain kernels.
#include "kernels/gemm.hpp"
#include "kernels/general/convolution.hpp"
#include "kernels/norm.hpp"
#include "support.hpp"

#include <Kokkos_Core.hpp>

using namespace trivium;
using namespace trivium::kernels;

TEST_CASE("oneDNN computes the usual convolutions in f32, those of operands with gaps, and none in f64")
{
    ConvShape shape{.spatial = 2, .b = 17, .c = 12, .o = 24};
    for (int d = 0; d < 2; ++d) {
        shape.in[d] = 16;
        shape.k[d] = 3;
        shape.low[d] = 1;
        shape.stride[d] = 2;
        shape.out[d] = 8;
    }
    ConvShape larger = shape;
    for (int d = 0; d < 2; ++d) {
        std::swap(larger.stride[d], larger.base[d]);
        larger.out[d] = 31;
    }
    for (const i64 groups : {1, 4, 12})
        for (const ConvKind kind : {ConvKind::forward, ConvKind::grad_x, ConvKind::grad_w}) {
            shape.groups = groups;
            INFO("kind " << static_cast<int>(kind) << ", " << groups << " groups");
            CHECK(Convolution(kind, shape, DType::f32, 2).by_library());
            CHECK_FALSE(Convolution(kind, shape, DType::f64, 2).by_library());
            larger.groups = groups;
            CHECK(Convolution(kind, larger, DType::f32, 2).by_library());
        }
}

TEST_CASE("a product refuses too little scratch and types that do not fit")
{
    start_runtime();
    // In f64, which needs scratch on every processor.
    const ProductShape shape{64, 64, 64, true, false, DType::f64, DType::f64};
    const Product product(shape);
    REQUIRE(product.scratch_bytes() > 0);
    std::vector<double> x(64 * 64);
    CHECK_THROWS_AS(
        product.run({}, x.data(), x.data(), x.data(), true, {nullptr, product.scratch_bytes() - 1}),
        InternalError);
    CHECK_THROWS_AS(Product({4, 4, 4, false, false, DType::f32, DType::bf16}), InternalError);
    ProductShape batch{4, 4, 4, false, false, DType::f32, DType::f32, 2, 16, 16, 16};
    batch.epilogue = Epilogue::bias;
    CHECK_THROWS_AS(Product(batch), InternalError);
    ProductShape biased{4, 4, 4};
    biased.epilogue = Epilogue::bias;
    CHECK_THROWS_AS(
        Product(biased).run({}, x.data(), x.data() + 16, x.data() + 32, false, {}, {x.data(), nullptr}),
        InternalError);
}

TEST_CASE("a product uses fewer threads if the scratch is too small for all")
{
    start_runtime();
    const ProductShape shape{256, 256, 256, true, false, DType::f64, DType::f64};
    const Bytes one = Product(shape, 1).scratch_bytes(), four = Product(shape, 4).scratch_bytes();
    REQUIRE(one < four);
    CHECK(Product(shape, 4, four).scratch_bytes() == four);
    CHECK(Product(shape, 4, four - 1).scratch_bytes() < four);
    CHECK(Product(shape, 4, 0).scratch_bytes() == one); // the minimum
}

namespace {

std::vector<std::string> kernels_seen;

void see_kernel(const char* name, const std::uint32_t, std::uint64_t*) { kernels_seen.emplace_back(name); }

} // namespace

TEST_CASE("Kokkos' tools see rows and products by name, with one thread and with several")
{
    start_runtime();
    std::vector<float> x(64 * 64, 1.0f), y(64 * 64), rstd(64);
    const ProductShape shape{64, 64, 64, true, false};
    for (const int threads : {1, 2}) {
        const Product product(shape, threads);
        const TestScratch scratch(product.scratch_bytes());
        kernels_seen.clear();
        Kokkos::Tools::Experimental::set_begin_parallel_for_callback(see_kernel);
        rms_norm({threads}, {64, 64, 1e-5}, x.data(), x.data(), y.data(), rstd.data());
        product.run({threads}, x.data(), x.data(), y.data(), true, scratch);
        Kokkos::Tools::Experimental::set_begin_parallel_for_callback(nullptr);
        CHECK(kernels_seen == std::vector<std::string>{"rms_norm", "product"});
        kernels_seen.clear();
        rms_norm({threads}, {64, 64, 1e-5}, x.data(), x.data(), y.data(), rstd.data());
        CHECK(kernels_seen.empty());
    }
}
