#include "kernels/optimizer.hpp"

#include "support.hpp"

using namespace trivium;
using namespace trivium::kernels;

TEMPLATE_TEST_CASE("sum_squares", "", double, float)
{
    for (const i64 n : {0, 1, 17, 16384, 50001}) {
        const auto x = random<TestType>(n, "x", 1e-3);
        const auto [sum] = stable([&, n = n](const Exec& exec) {
            const TestScratch scratch(sum_squares_scratch(n));
            Doubles out(1);
            sum_squares(exec, n, x.data(), out.data(), scratch);
            return std::tuple(out);
        });
        CHECK(sum[0] == Approx(dot(wide(x), wide(x))).epsilon(1e-12));
    }
    CHECK_THROWS_AS(sum_squares<float>({}, 5, nullptr, nullptr, {}), InternalError);
}

TEST_CASE("global_norm clips, and passes what is not finite on")
{
    start_runtime();
    const Doubles squares{9, 16};
    const double tokens = 10;
    double out[2];
    global_norm({}, 2, squares.data(), &tokens, 1.0, out);
    CHECK(out[0] == 0.5);
    CHECK(out[1] == 0.1);
    global_norm({}, 2, squares.data(), &tokens, 0.25, out);
    CHECK(out[1] == Approx(0.05));
    global_norm({}, 2, squares.data(), &tokens, 0, out);
    CHECK(out[1] == 0.1);
    const Doubles bad{1, NAN};
    global_norm({}, 2, bad.data(), &tokens, 1.0, out);
    CHECK(std::isnan(out[0]));
}

TEMPLATE_TEST_CASE("adamw", "", double, float)
{
    using T = TestType;
    for (const i64 n : {1, 17, 5003}) {
        const auto p = random<T>(n, "p"), g = random<T>(n, "g", 10), m = random<T>(n, "m", 0.1);
        auto v = random<T>(n, "v", 0.1);
        for (T& value : v)
            value *= value;
        const AdamwStep step{.lr = 0.01, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1,
                             .correction1 = 1 - 0.9 * 0.9, .correction2 = 1 - 0.95 * 0.95};
        const double factor = 0.07;
        const auto [new_p, new_m, new_v] = stable([&, n = n](const Exec& exec) {
            auto a = p, b = m, c = v;
            adamw<T>(exec, n, step, {a.data(), b.data(), c.data(), g.data()}, &factor);
            return std::tuple(a, b, c);
        });
        const Doubles wp = wide(p), wg = wide(g), wm = wide(m), wv = wide(v);
        Doubles want_p, want_m, want_v;
        for (i64 i = 0; i < n; ++i) {
            const double grad = factor * wg[i];
            want_m.push_back(0.9 * wm[i] + 0.1 * grad);
            want_v.push_back(0.95 * wv[i] + 0.05 * grad * grad);
            const double mean = want_m.back() / step.correction1, square = want_v.back() / step.correction2;
            want_p.push_back(wp[i] - 0.01 * (mean / (std::sqrt(square) + 1e-8) + 0.1 * wp[i]));
        }
        require_close(new_p, want_p, tolerance<T>, "p");
        require_close(new_m, want_m, tolerance<T>, "m");
        require_close(new_v, want_v, tolerance<T>, "v");
    }
}
