// FP8 against a table of all its numbers, and products of rounded operands.
#include "fp8_cases.hpp"
#include "kernels/gemm.hpp"
#include "reference.hpp"

using namespace trivium;
using namespace trivium::kernels;

TEST_CASE("FP8: every code, numbers between two codes, and numbers beyond the range")
{
    for (const Format& f : formats) {
        const Doubles table = numbers(f);
        CHECK(table.back() == f.largest);
        CHECK(table.size() == (f.kind == Fp8::e4m3 ? 127u : 124u));
        for (std::size_t code = 0; code < table.size(); ++code) {
            const auto byte = static_cast<std::uint8_t>(code);
            const auto value = static_cast<float>(table[code]);
            REQUIRE(fp8_decode(byte, f.kind) == table[code]);
            REQUIRE(fp8_decode(byte | 0x80, f.kind) == -table[code]);
            REQUIRE(fp8_encode(value, f.kind) == byte);
            REQUIRE(fp8_encode(-value, f.kind) == (byte | 0x80));
            if (code + 1 == table.size())
                continue;
            const auto middle = static_cast<float>((table[code] + table[code + 1]) / 2);
            REQUIRE(fp8_encode(middle, f.kind) == code + code % 2);
            REQUIRE(fp8_encode(std::nextafter(middle, 0.0f), f.kind) == code);
            REQUIRE(fp8_encode(std::nextafter(middle, 1e9f), f.kind) == code + 1);
        }
        for (const float beyond : {1e9f, 3e38f, INFINITY}) {
            CHECK(fp8_decode(fp8_encode(beyond, f.kind), f.kind) == f.largest);
            CHECK(fp8_decode(fp8_encode(-beyond, f.kind), f.kind) == -f.largest);
        }
        CHECK(std::isnan(fp8_decode(fp8_encode(NAN, f.kind), f.kind)));
        for (std::uint32_t bits = 0; bits < 0x7f80; ++bits) { // every finite bf16
            const float x = __builtin_bit_cast(float, bits << 16);
            REQUIRE(fp8_decode(fp8_encode(x, f.kind), f.kind) == nearest(table, x));
        }
    }
}

TEST_CASE("a tensor in FP8: its scale, its numbers, zeros, and non-finite numbers")
{
    start_runtime();
    for (const Format& f : formats)
        for (const double size : {1.0, 1e-20, 3e30, 447.0, 449.0}) {
            INFO(size);
            const auto x = random<bf16>(1000, "x", size);
            const auto [y] = stable([&](const Exec& exec) {
                std::vector<bf16> to(x.size());
                const TestScratch scratch(fp8_scratch);
                fp8_round(exec, f.kind, 1000, x.data(), to.data(), scratch);
                return std::tuple(to);
            });
            REQUIRE(wide(y) == rounded(f, wide(x)));
        }
    const TestScratch scratch(fp8_scratch);
    std::vector<bf16> y(3);
    const std::vector<bf16> zeros(3, bf16(0));
    fp8_round({}, Fp8::e4m3, 3, zeros.data(), y.data(), scratch);
    CHECK(wide(y) == Doubles{0, 0, 0});
    for (const float bad : {INFINITY, NAN}) {
        const std::vector<bf16> x{bf16(1), bf16(bad), bf16(2)};
        fp8_round({}, Fp8::e5m2, 3, x.data(), y.data(), scratch);
        for (const double value : wide(y))
            CHECK(std::isnan(value));
    }
}

TEST_CASE("products in FP8 are those of the rounded operands")
{
    const i64 m = 32, n = 48, k = 80;
    for (const auto& [fa, fb] :
         {std::pair{formats[0], formats[0]}, {formats[0], formats[1]}, {formats[1], formats[0]}})
        for (const bool ta : {false, true})
            for (const bool tb : {false, true}) {
                ProductShape shape{m, n, k, ta, tb, DType::bf16, DType::f32};
                shape.fp8_a = fa.kind;
                shape.fp8_b = fb.kind;
                const auto a = random<bf16>(m * k, "a", 3), b = random<bf16>(k * n, "b", 1e-4);
                const auto [c] = stable([&](const Exec& exec) {
                    const Product product(shape, exec.threads);
                    const TestScratch scratch(product.scratch_bytes());
                    std::vector<float> to(static_cast<std::size_t>(m * n), 1);
                    product.run(exec, a.data(), b.data(), to.data(), true, scratch);
                    return std::tuple(to);
                });
                const Doubles ra = rounded(fa, wide(a)), rb = rounded(fb, wide(b));
                require_close(c, reference::product(m, n, k, ta, tb, ra.data(), rb.data()), tolerance<float>);
                // And they differ from those of the unrounded operands.
                const Doubles exact = reference::product(m, n, k, ta, tb, wide(a).data(), wide(b).data());
                double off = 0, size = 0;
                for (std::size_t i = 0; i < exact.size(); ++i) {
                    off += std::pow(static_cast<double>(c[i]) - exact[i], 2);
                    size += exact[i] * exact[i];
                }
                CHECK(std::sqrt(off / size) > 0.01);
                CHECK(std::sqrt(off / size) < 0.08);
            }
    ProductShape half{16, 16, 16, false, false, DType::bf16, DType::bf16};
    half.fp8_a = Fp8::e4m3;
    CHECK_THROWS_AS(Product(half), InternalError);
}
