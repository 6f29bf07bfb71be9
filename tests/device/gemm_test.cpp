// Products on a device, alone and with their epilogues, against sums in double.
#include "kernels/fp8_cases.hpp"
#include "kernels/gemm_cases.hpp"
#include "support.hpp"

using namespace trivium;
using namespace trivium::kernels;

namespace {

/// The device objects for run_product(), made once.
struct ProductDevice {
    Stream stream{Device()};
    DeviceArray<char> scratch{usual_product_scratch};
};

/// Twice, with the same bits: directly, and captured.
template <class T, class Out>
RunProduct<T, Out> on(const ProductDevice& device)
{
    return [&device](const ProductShape& shape, bool overwrite, ProductData<T, Out>& data) {
        const Product product(shape, 1, usual_product_scratch);
        REQUIRE(product.scratch_bytes() <= usual_product_scratch);
        const DeviceArray<T> a(data.a), b(data.b), bias(data.bias.empty() ? std::vector<T>(1) : data.bias);
        std::vector<Out> first, first_pre;
        for (const bool recorded : {false, true}) {
            const DeviceArray<Out> c(data.c), pre(data.pre.empty() ? std::vector<Out>(1) : data.pre);
            const Exec exec = device.stream.exec();
            const auto work = [&] {
                product.run(exec, a.data(), b.data(), c.data(), overwrite,
                            {device.scratch.data(), usual_product_scratch}, {bias.data(), pre.data()});
            };
            if (recorded)
                run_recorded(device.stream, work);
            else
                work();
            const std::vector<Out> got = c.read(device.stream), got_pre = pre.read(device.stream);
            if (recorded) {
                REQUIRE(same_bits(got, first));
                REQUIRE(same_bits(got_pre, first_pre));
            }
            first = got;
            first_pre = got_pre;
        }
        data.c = first;
        if (!data.pre.empty())
            data.pre = first_pre;
    };
}

} // namespace

TEST_CASE("products on a device: every layout, odd sizes, batches and epilogues")
{
    if (!device_ready())
        return;
    const ProductDevice device;
    check_products<double, double>(on<double, double>(device), tolerance<double>);
    check_products<float, float>(on<float, float>(device), tolerance<float>);
    check_products<bf16, float>(on<bf16, float>(device), 1e-4);
    check_products<bf16, bf16>(on<bf16, bf16>(device), tolerance<bf16>);
}

TEST_CASE("products on a device: the sizes of training")
{
    if (!device_ready())
        return;
    const ProductDevice device;
    // Widths of GPT-2 124M; the vocabulary's rows have no alignment at all.
    const i64 tokens = 2048, some = 256, dim = 768, ffn = 3072, vocab = 50257;
    const auto forward = [&](i64 k, i64 n, Epilogue epilogue) {
        ProductShape shape{tokens, n, k};
        shape.epilogue = epilogue;
        check_product<bf16, bf16>(shape, on<bf16, bf16>(device), tolerance<bf16>);
    };
    forward(dim, ffn, Epilogue::none);
    forward(dim, ffn, Epilogue::bias);
    forward(dim, ffn, Epilogue::bias_gelu);
    forward(ffn, dim, Epilogue::bias);
    ProductShape hidden{tokens, ffn, dim, false, true}; // dY W'
    hidden.epilogue = Epilogue::gelu_grad;
    check_product<bf16, bf16>(hidden, on<bf16, bf16>(device), tolerance<bf16>);
    ProductShape sum{tokens, dim, dim, false, true};
    sum.epilogue = Epilogue::add;
    check_product<bf16, bf16>(sum, on<bf16, bf16>(device), tolerance<bf16>);
    check_product<bf16, float>({dim, ffn, tokens, true, false}, on<bf16, float>(device), 1e-4); // X' dY
    check_product<float, float>({dim, ffn, tokens, true, false}, on<float, float>(device), tolerance<float>);
    check_product<bf16, bf16>({some, vocab, dim, false, true}, on<bf16, bf16>(device), tolerance<bf16>);
    check_product<bf16, bf16>({some, dim, vocab}, on<bf16, bf16>(device), tolerance<bf16>);
    check_product<bf16, float>({vocab, dim, some, true, false}, on<bf16, float>(device), 1e-4);
}

TEST_CASE("products on a device: with no scratch at all, and empty ones")
{
    if (!device_ready())
        return;
    const ProductDevice device;
    CHECK(Product({64, 64, 8192}, 1, 0).scratch_bytes() == 0);
    const DeviceArray<float> c(std::vector<float>{1, 2, 3, 4});
    const Product none({2, 2, 0});
    none.run(device.stream.exec(), nullptr, nullptr, c.data(), false, {});
    CHECK(c.read(device.stream) == std::vector<float>{1, 2, 3, 4});
    none.run(device.stream.exec(), nullptr, nullptr, c.data(), true, {});
    CHECK(c.read(device.stream) == std::vector<float>{0, 0, 0, 0});
    Product({0, 2, 3}).run(device.stream.exec(), nullptr, nullptr, nullptr, true, {});
}

TEMPLATE_TEST_CASE(
    "products on a device in FP8: as bytes, and where an extent is no multiple of 16 as rounded numbers", "",
    float, bf16)
{
    using Out = TestType;
    if (!device_ready())
        return;
    const ProductDevice device;
    for (const auto& [fa, fb] :
         {std::pair{formats[0], formats[0]}, {formats[0], formats[1]}, {formats[1], formats[0]}})
        for (const auto& [m, n, k] :
             {std::tuple<i64, i64, i64>{32, 48, 80}, {128, 256, 192}, {33, 48, 80}, {32, 50, 7}})
            for (const bool ta : {false, true})
                for (const bool tb : {false, true})
                    for (const Epilogue epilogue : {Epilogue::none, Epilogue::bias, Epilogue::bias_gelu,
                                                    Epilogue::gelu_grad, Epilogue::add}) {
                        if (epilogue != Epilogue::none && std::is_same_v<Out, float>)
                            continue;
                        ProductShape shape{m, n, k, ta, tb, DType::bf16, dtype_of<Out>};
                        shape.epilogue = epilogue;
                        shape.fp8_a = fa.kind;
                        shape.fp8_b = fb.kind;
                        INFO(name_of(shape));
                        ProductData<bf16, Out> data;
                        data.a = random<bf16>(m * k, "a", 3);
                        data.b = random<bf16>(k * n, "b", 1e-2);
                        data.bias = random<bf16>(n, "bias");
                        data.pre = random<Out>(m * n, "pre");
                        data.c.resize(static_cast<std::size_t>(m * n));
                        const Doubles bias = wide(data.bias), pre = wide(data.pre);
                        const Doubles ra = rounded(fa, wide(data.a)), rb = rounded(fb, wide(data.b));
                        Doubles want = reference::product(m, n, k, ta, tb, ra.data(), rb.data());
                        for (std::size_t i = 0; i < want.size(); ++i) {
                            if (epilogue == Epilogue::bias || epilogue == Epilogue::bias_gelu)
                                want[i] += bias[i % static_cast<std::size_t>(n)];
                            if (epilogue == Epilogue::bias_gelu)
                                want[i] = reference::gelu(want[i]);
                            if (epilogue == Epilogue::gelu_grad)
                                want[i] *= gelu_slope(pre[i]);
                            if (epilogue == Epilogue::add)
                                want[i] += pre[i];
                        }
                        on<bf16, Out>(device)(shape, true, data);
                        // Hopper accumulates FP8 products with fewer bits than f32.
                        require_close(data.c, want, std::is_same_v<Out, float> ? 2e-3 : tolerance<bf16>, "c");
                    }
}
