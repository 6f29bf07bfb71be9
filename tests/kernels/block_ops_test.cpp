// What blocks other than Llama's and GPT-2's have: forms of RMSNorm, activations, factors, caps.
#include "kernels/elementwise.hpp"
#include "kernels/math.hpp"
#include "kernels/norm.hpp"
#include "reference.hpp"
#include "support.hpp"

#include <array>

using namespace trivium;
using namespace trivium::kernels;

namespace {

double activation(Activation f, double x)
{
    switch (f) {
    case Activation::silu: return x / (1 + std::exp(-x));
    case Activation::gelu: return x / 2 * std::erfc(-x / std::sqrt(2));
    case Activation::gelu_tanh: return reference::gelu(x);
    case Activation::relu2: return x > 0 ? x * x : 0;
    case Activation::clipped: break; // of two numbers
    }
    return NAN;
}

double difference_quotient(Activation f, double x)
{
    return (activation(f, x + 1e-5) - activation(f, x - 1e-5)) / 2e-5;
}

/// Normal numbers; near 0 the derivative of relu2 has a kink.
template <class T>
std::vector<T> arguments(const char* name)
{
    auto x = random<T>(3001, name, 3);
    for (const float extreme : {-20.0f, 20.0f, 1e-3f, -1e-3f, 300.0f, -300.0f})
        x.push_back(T(extreme));
    return x;
}

Doubles plus(Doubles x, double offset)
{
    for (double& value : x)
        value += offset;
    return x;
}

} // namespace

TEST_CASE("fast_tanh and fast_erfc are close to the exact functions")
{
    double tanh_error = 0, erfc_error = 0;
    for (double x = -9; x < 9; x += 0.000731) {
        const auto at = static_cast<float>(x);
        const double exact = std::tanh(static_cast<double>(at));
        tanh_error =
            std::max(tanh_error, std::abs(static_cast<double>(fast_tanh(at)) - exact) / std::abs(exact));
        erfc_error =
            std::max(erfc_error,
                     std::abs(static_cast<double>(fast_erfc(at)) / std::erfc(static_cast<double>(at)) - 1));
    }
    CHECK(tanh_error < 2e-6);
    CHECK(erfc_error < 1e-5);
    const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    CHECK(fast_tanh(0.0f) == 0);
    CHECK(fast_tanh(inf) == 1);
    CHECK(fast_tanh(-inf) == -1);
    CHECK(fast_erfc(30.0f) == 0);
    CHECK(fast_erfc(-30.0f) == 2);
    CHECK((std::isnan(fast_tanh(nan)) && std::isnan(fast_erfc(nan))));
}

TEMPLATE_TEST_CASE("activations, alone and as gates, with their gradients", "", TRV_STORAGE_TYPES)
{
    using T = TestType;
    const auto x = arguments<T>("x"), up = arguments<T>("up"), dy = arguments<T>("dy");
    const i64 n = static_cast<i64>(x.size());
    for (const Activation f :
         {Activation::silu, Activation::gelu, Activation::gelu_tanh, Activation::relu2}) {
        INFO("activation " << static_cast<int>(f));
        const auto [y, dx, z, dgate, dup, rows_z, rows_dgate, rows_dup] = stable([&](const Exec& exec) {
            std::vector<T> a(x.size()), b(a), c(a), d(a), e(a), g(a), h(a), k(a);
            gelu<T>(exec, n, lend(x), lend(a), f);
            gelu_grad<T>(exec, n, lend(dy), lend(x), lend(b), f);
            swiglu<T>(exec, 1, n, {lend(x), n}, {lend(up), n}, {lend(c), n}, f);
            swiglu_grad<T>(exec, 1, n, {lend(dy), n}, {lend(x), n}, {lend(up), n}, {lend(d), n}, {lend(e), n},
                           f);
            // As the first columns of wider rows.
            const i64 width = 31, rows = n / width;
            swiglu<T>(exec, rows, 17, {lend(x), width}, {lend(up), width}, {lend(g), width}, f);
            swiglu_grad<T>(exec, rows, 17, {lend(dy), width}, {lend(x), width}, {lend(up), width},
                           {lend(h), width}, {lend(k), width}, f);
            for (i64 i = 0; i < n; ++i) // the other columns are not written
                if (i % width >= 17 || i / width >= rows) {
                    const auto at = static_cast<std::size_t>(i);
                    REQUIRE((float(g[at]) == 0 && float(h[at]) == 0 && float(k[at]) == 0));
                    g[at] = c[at];
                    h[at] = d[at];
                    k[at] = e[at];
                }
            return std::tuple(a, b, c, d, e, g, h, k);
        });
        const Doubles wx = wide(x), wu = wide(up), wd = wide(dy);
        Doubles want_y, want_dx, want_z, want_dgate, want_dup;
        for (std::size_t i = 0; i < wx.size(); ++i) {
            want_y.push_back(activation(f, wx[i]));
            want_dx.push_back(wd[i] * difference_quotient(f, wx[i]));
            want_z.push_back(want_y[i] * wu[i]);
            want_dgate.push_back(want_dx[i] * wu[i]);
            want_dup.push_back(wd[i] * want_y[i]);
        }
        const double tol = tolerance<T>, tol_grad = std::max(tol, 1e-6);
        require_close(y, want_y, tol, "y");
        require_close(dx, want_dx, tol_grad, "dx");
        require_close(z, want_z, tol, "z");
        require_close(dgate, want_dgate, tol_grad, "dgate");
        require_close(dup, want_dup, tol, "dup");
        require_close(rows_z, wide(z), tolerance<T>, "columns of z");
        require_close(rows_dgate, wide(dgate), tolerance<T>, "columns of dgate");
        require_close(rows_dup, wide(dup), tolerance<T>, "columns of dup");
    }
}

TEMPLATE_TEST_CASE("the clipped gate and its gradient", "", TRV_STORAGE_TYPES)
{
    using T = TestType;
    const auto x = arguments<T>("x"), dy = random<T>(static_cast<i64>(x.size()), "dy");
    auto up = random<T>(static_cast<i64>(x.size()), "up", 5);
    const i64 n = static_cast<i64>(x.size());
    const auto [z, dgate, dup] = stable([&](const Exec& exec) {
        std::vector<T> a(x.size()), b(a), c(a);
        swiglu<T>(exec, 1, n, {lend(x), n}, {lend(up), n}, {lend(a), n}, Activation::clipped);
        swiglu_grad<T>(exec, 1, n, {lend(dy), n}, {lend(x), n}, {lend(up), n}, {lend(b), n}, {lend(c), n},
                       Activation::clipped);
        return std::tuple(a, b, c);
    });
    const auto value = [](double gate, double u) {
        const double g = std::min(gate, 7.0);
        return g / (1 + std::exp(-1.702 * g)) * (std::clamp(u, -7.0, 7.0) + 1);
    };
    const Doubles wx = wide(x), wu = wide(up), wd = wide(dy);
    Doubles want_z, want_dgate, want_dup;
    const double step = 1e-6;
    for (std::size_t i = 0; i < wx.size(); ++i) {
        want_z.push_back(value(wx[i], wu[i]));
        // Backwards at the limits, where the slope is that of the inside.
        want_dgate.push_back(wd[i] * (value(wx[i], wu[i]) - value(wx[i] - step, wu[i])) / step);
        const double inside = wu[i] == -7 ? -step : step;
        want_dup.push_back(wd[i] * (value(wx[i], wu[i]) - value(wx[i], wu[i] - inside)) / inside);
    }
    require_close(z, want_z, tolerance<T>, "z");
    require_close(dgate, want_dgate, std::max(tolerance<T>, 1e-5), "dgate");
    require_close(dup, want_dup, std::max(tolerance<T>, 1e-5), "dup");
}

TEMPLATE_TEST_CASE("factors and caps", "", TRV_STORAGE_TYPES)
{
    using T = TestType;
    const auto x = random<T>(5003, "x", 40), dy = random<T>(5003, "dy");
    const i64 n = static_cast<i64>(x.size());
    const auto [scaled, moved, capped, same, dx] = stable([&](const Exec& exec) {
        std::vector<T> a(x.size()), b(a), c(a), d(x), e(a);
        affine<T>(exec, n, 0.22, 0, lend(x), lend(a));
        affine<T>(exec, n, -3, 0.5, lend(x), lend(b));
        softcap<T>(exec, n, 30, lend(x), lend(c));
        softcap<T>(exec, n, 30, lend(d), lend(d));
        softcap_grad<T>(exec, n, 30, lend(dy), lend(c), lend(e));
        return std::tuple(a, b, c, d, e);
    });
    const Doubles wx = wide(x), wd = wide(dy), wy = wide(capped);
    Doubles want_scaled, want_moved, want_capped, want_dx;
    for (std::size_t i = 0; i < wx.size(); ++i) {
        want_scaled.push_back(0.22 * wx[i]);
        want_moved.push_back(0.5 - 3 * wx[i]);
        want_capped.push_back(30 * std::tanh(wx[i] / 30));
        // From the rounded result, as in PyTorch; in f64 the derivative at x.
        want_dx.push_back(std::is_same_v<T, double> ? wd[i] / std::pow(std::cosh(wx[i] / 30), 2)
                                                    : wd[i] * (1 - wy[i] * wy[i] / 900));
    }
    require_close(scaled, want_scaled, tolerance<T>, "scaled");
    require_close(moved, want_moved, tolerance<T>, "moved");
    require_close(capped, want_capped, tolerance<T>, "capped");
    require_close(dx, want_dx, tolerance<T>, "dx");
    CHECK(same_bits(capped, same));
}

TEST_CASE("an RMSNorm in bf16 rounds before its weight, or only after it")
{
    // As transformers computes them: LlamaRMSNorm is weight * x.to(bf16), Olmo2RMSNorm (weight * x).to(bf16),
    // Gemma2RMSNorm (x * (1 + weight)).to(bf16), all from x in f32.
    const i64 rows = 9, dim = 64;
    const auto x = random<bf16>(rows * dim, "x", 2), r = random<bf16>(rows * dim, "r"),
               w = random<bf16>(dim, "w");
    struct Form {
        NormShape shape;
        float (*of)(float normed, float weight);
    };
    const std::array<Form, 4> forms{{
        {{rows, dim, 1e-6, 0, true}, [](float v, float by) { return by * float(bf16(v)); }},
        {{rows, dim, 1e-6, 0, false}, [](float v, float by) { return by * v; }},
        {{rows, dim, 1e-6, 1, false}, [](float v, float by) { return v * (1 + by); }},
        {{rows, dim, 1e-6, 1, true}, [](float v, float by) { return (1 + by) * float(bf16(v)); }},
    }};
    std::vector<std::vector<bf16>> results;
    for (const Form& form : forms) {
        const auto [y, sum, fused, scaled, rstd] = stable([&](const Exec& exec) {
            std::vector<bf16> a(x.size()), s(a), n(a), c(a);
            std::vector<float> root(rows), again(rows);
            rms_norm<bf16>(exec, form.shape, lend(x), lend(w), lend(a), lend(root));
            scale_rows<bf16>(exec, form.shape, lend(x), lend(w), lend(root), lend(c));
            add_rms_norm<bf16>(exec, form.shape, lend(x), lend(r), lend(w), lend(s), lend(n), lend(again));
            return std::tuple(a, s, n, c, root);
        });
        i64 different = 0;
        for (i64 i = 0; i < rows * dim; ++i) {
            const auto at = static_cast<std::size_t>(i);
            const bf16 want(form.of(float(x[at]) * rstd[static_cast<std::size_t>(i / dim)],
                                    float(w[static_cast<std::size_t>(i % dim)])));
            different += want.bits != y[at].bits ? 1 : 0;
        }
        CHECK(different == 0);
        CHECK(same_bits(scaled, y));
        const auto [apart] = stable([&, sum = sum](const Exec& exec) {
            std::vector<bf16> a(x.size());
            std::vector<float> root(rows);
            rms_norm<bf16>(exec, form.shape, lend(sum), lend(w), lend(a), lend(root));
            return std::tuple(a);
        });
        if constexpr (!on_device)
            CHECK(same_bits(fused, apart));
        results.push_back(y);
    }
    for (std::size_t a = 0; a < results.size(); ++a) // so the test distinguishes them
        for (std::size_t b = 0; b < a; ++b)
            CHECK(!same_bits(results[a], results[b]));
}

TEMPLATE_TEST_CASE("an RMSNorm that adds an offset to its weight, with its gradients", "", TRV_STORAGE_TYPES)
{
    using T = TestType;
    const i64 rows = 7, dim = 19;
    const auto x = random<T>(rows * dim, "x"), w = random<T>(dim, "w"), dy = random<T>(rows * dim, "dy"),
               dres = random<T>(rows * dim, "dres");
    for (const bool rounded : {false, true}) {
        const NormShape shape{rows, dim, 1e-5, 1, rounded};
        const auto [y, dx, both, dw] = stable([&](const Exec& exec) {
            std::vector<T> a(x.size()), b(a), c(a);
            std::vector<Acc<T>> rstd(rows), d(dim);
            rms_norm<T>(exec, shape, lend(x), lend(w), lend(a), lend(rstd));
            rms_norm_grad_x<T>(exec, shape, lend(dy), lend(x), lend(w), lend(rstd), lend(b));
            rms_norm_grad_x_add<T>(exec, shape, lend(dy), lend(x), lend(w), lend(rstd), lend(dres), lend(c));
            rms_norm_grad_w<T>(exec, shape, lend(dy), lend(x), lend(rstd), lend(d), true);
            return std::tuple(a, b, c, d);
        });
        const Doubles gain = plus(wide(w), 1), wdres = wide(dres);
        require_close(y, reference::rms_norm(rows, dim, 1e-5, wide(x), gain), tolerance<T>);
        const Doubles want = reference::norm_grad_x(rows, dim, 1e-5, false, wide(dy), wide(x), gain);
        require_close(dx, want, tolerance<T>);
        Doubles total = want;
        for (std::size_t i = 0; i < total.size(); ++i)
            total[i] += wdres[i];
        require_close(both, total, tolerance<T>);
        const auto loss = [&](const Doubles& at) {
            return dot(wide(dy), reference::rms_norm(rows, dim, 1e-5, wide(x), at));
        };
        require_close(dw, slope(loss, gain), std::max(rounded ? tolerance<T> : 0, 1e-5));
    }
}

TEMPLATE_TEST_CASE("the parts of an RMSNorm of rows that ranks share", "", TRV_STORAGE_TYPES)
{
    using T = TestType;
    for (const auto& [rows, dim] : {std::array<i64, 2>{3, 17}, {130, 64}, {2, 1000}, {1, 1}})
        for (const double offset : {0.0, 1.0}) {
            const NormShape shape{rows, dim, 0, offset};
            const auto x = random<T>(rows * dim, "x"), w = random<T>(dim, "w"),
                       dy = random<T>(rows * dim, "dy");
            const auto rstd = random<Acc<T>>(rows, "rstd"), dsum = random<Acc<T>>(rows, "dsum");
            const auto [squares, y, drstd, dx] = stable([&, rows = rows](const Exec& exec) {
                std::vector<Acc<T>> a(static_cast<std::size_t>(rows)), c(a);
                std::vector<T> b = x, d = x;
                row_squares<T>(exec, shape, lend(x), lend(a));
                scale_rows<T>(exec, shape, lend(b), lend(w), lend(rstd), lend(b)); // in place
                scale_rows_grad_rows<T>(exec, shape, lend(dy), lend(x), lend(w), lend(c));
                row_squares_grad<T>(exec, shape, lend(dsum), lend(d), lend(d));
                return std::tuple(a, b, c, d);
            });
            const Doubles wx = wide(x), ww = plus(wide(w), offset), wd = wide(dy), wr = wide(rstd),
                          ws = wide(dsum);
            Doubles want_squares(wr.size()), want_drstd(wr.size()), sizes(wr.size()), want_y, want_dx;
            for (std::size_t i = 0; i < wx.size(); ++i) {
                const std::size_t r = i / static_cast<std::size_t>(dim),
                                  c = i % static_cast<std::size_t>(dim);
                want_squares[r] += wx[i] * wx[i];
                want_drstd[r] += wd[i] * ww[c] * wx[i];
                sizes[r] += std::abs(wd[i] * ww[c] * wx[i]);
                want_y.push_back(wx[i] * wr[r] * ww[c]);
                want_dx.push_back(2 * wx[i] * ws[r]);
            }
            require_close(squares, want_squares, tolerance<Acc<T>>, "squares");
            require_rounded(drstd, want_drstd, sizes, "drstd");
            require_close(y, want_y, tolerance<T>, "y");
            require_close(dx, want_dx, tolerance<T>, "dx");
        }
}
