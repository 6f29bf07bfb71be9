// Rotary embeddings: the rotation, and the tables of its angles.
#include "kernels/rope.hpp"
#include "kernels/rope_table.hpp"
#include "reference.hpp"
#include "support.hpp"

using namespace trivium;
using namespace trivium::kernels;

namespace {

/// theta^(-j / 32), for heads of 64.
double plain_frequency(double theta, i64 j) { return std::pow(theta, -static_cast<double>(j) / 32); }

} // namespace

TEMPLATE_TEST_CASE("rope rotates heads or a part of each, of halves or of neighbours, and back", "",
                   TRV_STORAGE_TYPES)
{
    using T = TestType;
    // Whole packs of a device in every type, none, and some.
    for (const auto& [e, pairs] :
         {std::pair<i64, i64>{64, 32}, {64, 16}, {32, 4}, {10, 3}, {7, 2}, {6, 3}, {96, 36}, {5, 0}, {2, 1}})
        for (const bool interleaved : {false, true}) {
            const RopeShape shape{2, 5, 3, e, pairs, interleaved};
            const auto x = random<T>(2 * 5 * 3 * e, "x");
            const Tokens pos = random_tokens(10, "pos", 0, 40);
            std::vector<Acc<T>> table(static_cast<std::size_t>(40 * pairs * 2));
            if (pairs > 0)
                fill_rope_table({.theta = 500}, pairs, 40, table.data());
            const auto [y, same, back] = stable([&](const Exec& exec) {
                std::vector<T> out(x.size(), T(-7.0f)), in = x;
                rope<T>(exec, shape, lend(x), lend(pos), lend(table), false, lend(out));
                rope<T>(exec, shape, lend(in), lend(pos), lend(table), false, lend(in));
                std::vector<T> again = in;
                rope<T>(exec, shape, lend(again), lend(pos), lend(table), true, lend(again));
                return std::tuple(out, in, again);
            });
            INFO(pairs << " pairs of " << e << ", interleaved " << interleaved);
            require_close(y, reference::rope({10, 3, e, pairs, interleaved}, 500, pos, wide(x)),
                          tolerance<T>);
            CHECK(same_bits(y, same));
            require_close(back, wide(x), tolerance<T>);
            for (std::size_t i = 0; i < x.size(); ++i) // the others keep their bits
                if (static_cast<i64>(i) % e >= 2 * pairs)
                    REQUIRE(same_bits(std::vector{y[i]}, std::vector{x[i]}));
        }
}

TEST_CASE("Llama 3 stretches only the long wavelengths")
{
    // transformers' _compute_llama3_parameters with Llama 3.1's numbers, worked by hand at the ends.
    const RopeAngles plain{.theta = 500000};
    const RopeAngles stretched{.theta = 500000, .scaling = llama3_scaling(8, 1, 4, 8192)};
    const auto a = rope_frequencies(plain, 64, 1).frequencies,
               b = rope_frequencies(stretched, 64, 1).frequencies;
    CHECK(a[0] == 1);
    CHECK(a[1] == Approx(std::pow(500000.0, -1.0 / 64)));
    CHECK(b[0] == a[0]);
    CHECK(b[63] == Approx(a[63] / 8));
    for (std::size_t i = 0; i < 64; ++i) {
        const double wavelength = 2 * 3.14159265358979323846 / a[i];
        if (wavelength < 2048)
            CHECK(b[i] == a[i]);
        else if (wavelength > 8192)
            CHECK(b[i] == Approx(a[i] / 8));
        else {
            const double smooth = (8192 / wavelength - 1) / 3;
            CHECK(b[i] == Approx((1 - smooth) * a[i] / 8 + smooth * a[i]));
        }
    }
    CHECK_THROWS_AS(rope_frequencies({}, 0, 1), InternalError);
}

TEST_CASE("linear and dynamic scaling of rotary frequencies")
{
    const RopeAngles linear{.theta = 1e6, .scaling = {RopeKind::linear, 8, 1, 4, 100}};
    const RopeAngles none{.theta = 1e6, .scaling = {RopeKind::none, 8, 1, 4, 100}};
    RopeAngles dynamic{.theta = 1e4, .scaling = {RopeKind::dynamic, 4, 1, 4, 100}};
    // theta (4 L / 100 - 3)^(64/62), where L is at least 100.
    for (const auto& [seq, table, theta] : {std::tuple<i64, i64, double>{0, 50, 1e4},
                                            {0, 100, 1e4},
                                            {200, 10, 1e4 * std::pow(5, 64.0 / 62)},
                                            {0, 150, 1e4 * std::pow(3, 64.0 / 62)}}) {
        dynamic.seq = seq;
        for (i64 j = 0; j < 32; ++j) {
            CHECK(rope_frequencies(dynamic, 32, table).frequencies[reference::at(j)] ==
                  Approx(plain_frequency(theta, j)));
            CHECK(rope_frequencies(linear, 32, table).frequencies[reference::at(j)] ==
                  Approx(plain_frequency(1e6, j) / 8));
            CHECK(rope_frequencies(none, 32, table).frequencies[reference::at(j)] ==
                  Approx(plain_frequency(1e6, j)));
        }
        CHECK(rope_frequencies(dynamic, 32, table).attention_factor == 1);
    }
}

TEST_CASE("YaRN keeps short wavelengths, divides long ones, and scales cos and sin")
{
    // gpt-oss: heads of 64, bounds of the blend not rounded. Its published attention factor is 1.3466.
    RopeAngles gpt_oss{
        .theta = 150000,
        .scaling = {.kind = RopeKind::yarn, .factor = 32, .original_seq = 4096, .truncate = false}};
    const auto made = rope_frequencies(gpt_oss, 32, 1);
    CHECK(made.attention_factor == Approx(1.3466).epsilon(1e-4));
    const auto at = [](double turns) {
        return 64 * std::log(4096 / (turns * 2 * 3.14159265358979323846)) / (2 * std::log(150000));
    };
    const auto check = [](const std::vector<double>& got, double theta, double factor, double low,
                          double high) {
        for (i64 j = 0; j < 32; ++j) {
            const double plain = plain_frequency(theta, j),
                         part = (static_cast<double>(j) - low) / (high - low);
            const double share = part < 0 ? 0 : part > 1 ? 1 : part;
            INFO("pair " << j << " of a blend from " << low << " to " << high);
            CHECK(got[reference::at(j)] == Approx(plain * (1 - share) + plain / factor * share));
        }
    };
    check(made.frequencies, 150000, 32, at(32), at(1));
    CHECK(at(32) == Approx(8.0928).epsilon(1e-4)); // 64 ln(20.3718) / (2 ln(150000))
    RopeScaling& s = gpt_oss.scaling;
    s.truncate = true;
    check(rope_frequencies(gpt_oss, 32, 1).frequencies, 150000, 32, 8, 18);
    s.beta_fast = 1e9;  // below pair 0
    s.beta_slow = 1e-9; // beyond the last element
    check(rope_frequencies(gpt_oss, 32, 1).frequencies, 150000, 32, 0, 63);
    s.truncate = false;
    s.beta_fast = s.beta_slow = 32; // a blend of no width
    check(rope_frequencies(gpt_oss, 32, 1).frequencies, 150000, 32, at(32), at(32) + 0.001);

    // transformers 5.24.0 for OLMo 3, heads of 64.
    const auto olmo = rope_frequencies(
        {.theta = 500000, .scaling = {.kind = RopeKind::yarn, .factor = 8, .original_seq = 8192}}, 32, 1);
    for (const auto& [pair, frequency] : {std::pair{1, 0.663601279258728},
                                          {9, 0.02495540864765644},
                                          {10, 0.014950398355722427},
                                          {14, 0.0016503263032063842},
                                          {17, 0.0002085497253574431},
                                          {31, 3.76732259610435e-07}})
        CHECK(olmo.frequencies[reference::at(pair)] == Approx(frequency).epsilon(1e-6));

    RopeAngles factors{.scaling = {.kind = RopeKind::yarn, .factor = 8}};
    CHECK(rope_frequencies(factors, 32, 1).attention_factor == Approx(1.2079).epsilon(1e-4)); // OLMo 3
    factors.scaling.factor = 40;
    factors.scaling.mscale = factors.scaling.mscale_all_dim = 1; // DeepSeek V3
    CHECK(rope_frequencies(factors, 32, 1).attention_factor == 1);
    factors.scaling.mscale = 0.707;
    CHECK(rope_frequencies(factors, 32, 1).attention_factor ==
          Approx((0.0707 * std::log(40) + 1) / (0.1 * std::log(40) + 1)));
    factors.scaling.attention_factor = 1.5;
    CHECK(rope_frequencies(factors, 32, 1).attention_factor == 1.5);

    std::vector<double> table(3 * 32 * 2);
    fill_rope_table(factors, 32, 3, table.data());
    const double angle = 2 * rope_frequencies(factors, 32, 3).frequencies[5];
    CHECK(table[(2 * 32 + 5) * 2] == Approx(1.5 * std::cos(angle)));
    CHECK(table[(2 * 32 + 5) * 2 + 1] == Approx(1.5 * std::sin(angle)));
}

TEST_CASE("longrope divides by the factors for the length of the context")
{
    RopeAngles angles{.scaling = {.kind = RopeKind::longrope, .factor = 32, .original_seq = 4096}};
    for (i64 j = 0; j < 32; ++j) {
        angles.scaling.short_factors.push_back(1 + static_cast<double>(j) / 10);
        angles.scaling.long_factors.push_back(2 + static_cast<double>(j));
    }
    for (const auto& [seq, table, is_long] : {std::tuple<i64, i64, bool>{4096, 8192, false},
                                              {4097, 16, true},
                                              {0, 4096, false},
                                              {0, 5000, true}}) {
        angles.seq = seq;
        const auto made = rope_frequencies(angles, 32, table);
        CHECK(made.attention_factor == Approx(std::sqrt(1 + std::log(32) / std::log(4096))));
        for (i64 j = 0; j < 32; ++j)
            CHECK(made.frequencies[reference::at(j)] ==
                  Approx(plain_frequency(10000, j) /
                         (is_long ? 2 + static_cast<double>(j) : 1 + static_cast<double>(j) / 10)));
    }
    angles.scaling.factor = 1;
    CHECK(rope_frequencies(angles, 32, 1).attention_factor == 1);
    angles.scaling.long_factors.pop_back();
    CHECK_THROWS_AS(rope_frequencies(angles, 32, 5000), InternalError);
}
