#include "kernels/loss.hpp"

#include "reference.hpp"
#include "support.hpp"

#include <limits>

using namespace trivium;
using namespace trivium::kernels;

namespace {

struct Sizes {
    i64 rows, vocab, offset;
    double scale, share = 1, every = 0;
};

} // namespace

TEMPLATE_TEST_CASE("statistics of cross entropy and their gradient", "", TRV_STORAGE_TYPES)
{
    using T = TestType;
    for (const auto& [rows, vocab, offset, scale, share, every] :
         {Sizes{1, 1, 0, 1}, Sizes{3, 17, 10, 1}, Sizes{9, 17, 10, 1, 0.7, 0.01},
          Sizes{5, 9001, 0, 2, 0.9, 1e-5}, Sizes{5, 127, 0, 80}, Sizes{7, 9001, 300, 20}, Sizes{4, 33, 0, 0},
          Sizes{3, 6152, 5, 20}, Sizes{on_device ? 400 : 2, 50257, 0, 5}}) {
        const i64 n = rows * vocab;
        const auto x = random<T>(n, "logits", scale);
        const Tokens target = random_tokens(rows, "target", offset - 3, offset + vocab + 3);
        const auto slopes = random<Acc<T>>(2 * rows, "slopes");
        const LossShape shape{rows, vocab, offset, share, every};
        const auto [lse, picked, dx, in_place] = stable([&, rows = rows, n = n](const Exec& exec) {
            std::vector<Acc<T>> a(static_cast<std::size_t>(rows)), b(a);
            std::vector<T> c(static_cast<std::size_t>(n)), d = x;
            xent_stats<T>(exec, shape, lend(x), lend(target), lend(a), lend(b));
            xent_stats_grad<T>(exec, shape, lend(x), lend(target), lend(a), lend(slopes), lend(slopes, rows),
                               lend(c));
            xent_stats_grad<T>(exec, shape, lend(d), lend(target), lend(a), lend(slopes), lend(slopes, rows),
                               lend(d));
            return std::tuple(a, b, c, d);
        });
        CHECK(same_bits(dx, in_place));
        const Doubles wx = wide(x);
        Doubles want_lse, want_picked, want_dx;
        for (i64 r = 0; r < rows; ++r) {
            const double total = reference::log_sum_exp(wx.data() + r * vocab, vocab);
            const i64 hit = target[r] < 0 ? -1 : target[r] - offset;
            want_lse.push_back(total);
            double picked_here = 0;
            for (i64 v = 0; v < vocab; ++v) {
                const double q = target[r] < 0 ? 0 : (v == hit ? share : 0) + every;
                picked_here += q * wx[r * vocab + v];
                want_dx.push_back(static_cast<double>(slopes[r]) * std::exp(wx[r * vocab + v] - total) +
                                  q * static_cast<double>(slopes[rows + r]));
            }
            want_picked.push_back(picked_here);
        }
        // The storage type rounds the logits; lse itself is of the accumulator type.
        require_close(lse, want_lse, tolerance<Acc<T>>, "lse");
        require_close(picked, want_picked, tolerance<Acc<T>>, "picked");
        require_close(dx, want_dx, scale > 10 && sizeof(T) == 4 ? 3e-5 : tolerance<T>, "dlogits");
    }
}

TEST_CASE("the gradient of the loss agrees with differences")
{
    const i64 rows = 3, vocab = 11;
    const double z = 0.03, epsilon = 0.2;
    const LossShape shape{rows, vocab, 0, 1 - epsilon, epsilon / vocab};
    const auto x = random<double>(rows * vocab, "x", 2), dloss = random<double>(rows, "dloss");
    const Tokens target{4, -1, 10};
    const auto loss_of = [&](const Doubles& at) {
        double sum = 0;
        for (i64 r = 0; r < rows; ++r)
            if (target[r] >= 0) {
                const double lse = reference::log_sum_exp(at.data() + r * vocab, vocab);
                double smooth = 0; // mean of -log p
                for (i64 v = 0; v < vocab; ++v)
                    smooth += (lse - at[r * vocab + v]) / vocab;
                sum += dloss[r] *
                       ((1 - epsilon) * (lse - at[r * vocab + target[r]]) + epsilon * smooth + z * lse * lse);
            }
        return sum;
    };
    const auto [loss, dx] = stable([&](const Exec& exec) {
        Doubles lse(rows), picked(rows), out(rows), dlse(rows), dpicked(rows), grad(x.size());
        xent_stats<double>(exec, shape, lend(x), lend(target), lend(lse), lend(picked));
        token_loss<double>(exec, rows, z, lend(lse), lend(picked), lend(target), lend(out));
        token_loss_grad<double>(exec, rows, z, lend(dloss), lend(target), lend(lse), lend(dlse),
                                lend(dpicked));
        xent_stats_grad<double>(exec, shape, lend(x), lend(target), lend(lse), lend(dlse), lend(dpicked),
                                lend(grad));
        return std::tuple(out, grad);
    });
    CHECK(loss[1] == 0);
    CHECK(dot(loss, dloss) == Approx(loss_of(x)).epsilon(1e-13));
    require_close(dx, slope(loss_of, x), 1e-6);
}

TEST_CASE("logits of minus infinity, plus infinity and NaN")
{
    start_runtime();
    const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
    const i64 vocab = 5000;
    std::vector<float> x(static_cast<std::size_t>(4 * vocab), -inf);
    x[4990] = 2; // row 0: one finite logit, in the last block; row 1: none
    x[2 * vocab + 7] = inf;
    for (i64 v = 0; v < vocab; ++v)
        x[3 * vocab + v] = nan;
    const Tokens target(4, 4990);
    std::vector<float> lse(4), picked(4), dlse(4, 1.0f), dpicked(4, -1.0f), dx(x.size());
    xent_stats<float>({}, {4, vocab, 0}, lend(x), lend(target), lend(lse), lend(picked));
    CHECK(lse[0] == 2);
    CHECK(lse[1] == -inf);
    CHECK(!std::isfinite(lse[2]));
    CHECK(std::isnan(lse[3]));
    xent_stats_grad<float>({}, {4, vocab, 0}, lend(x), lend(target), lend(lse), lend(dlse), lend(dpicked),
                           lend(dx));
    CHECK(dx[4990] == 0);
    CHECK(dx[0] == 0);
    CHECK(dx[vocab] == 0);
    CHECK(dx[vocab + 4990] == -1);
}

TEST_CASE("large logits: the row maximum contributes exactly 1")
{
    start_runtime();
    // With these, 1.44 x overflows, or its rounding exceeds that of x. Equal logits: every partial sum that
    // is joined is exact.
    const i64 vocab = 4096;
    const std::vector<float> values{3e38f, -3e38f, 1001.1f, 77.7f};
    std::vector<float> x;
    for (const float value : values)
        x.insert(x.end(), static_cast<std::size_t>(vocab), value);
    const i64 rows = static_cast<i64>(values.size());
    const Tokens target(values.size(), 5);
    std::vector<float> lse(values.size()), picked(values.size());
    xent_stats<float>({}, {rows, vocab, 0}, lend(x), lend(target), lend(lse), lend(picked));
    for (std::size_t r = 0; r < values.size(); ++r) {
        INFO("logits of " << values[r]);
        CHECK(picked[r] == values[r]);
        CHECK(lse[r] == Approx(values[r] + std::log(static_cast<float>(vocab))).epsilon(1e-7));
    }
}

TEMPLATE_TEST_CASE("sums of losses and counts of targets", "", double, float)
{
    using T = TestType;
    const auto x = random<T>(1003, "x");
    const Tokens target = random_tokens(1003, "target", -2, 3);
    const auto [sums] = stable([&](const Exec& exec) {
        Doubles out{1, 1, 1, 1};
        sum_into<T>(exec, 1003, lend(x), lend(out, 0), true);
        sum_into<T>(exec, 1003, lend(x), lend(out, 1), false);
        count_valid(exec, 1003, lend(target), lend(out, 2), true);
        count_valid(exec, 1003, lend(target), lend(out, 3), false);
        return std::tuple(out);
    });
    double sum = 0, count = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        sum += static_cast<double>(x[i]);
        count += target[i] >= 0;
    }
    CHECK(sums[0] == Approx(sum).epsilon(1e-12));
    CHECK(sums[1] == Approx(sum + 1).epsilon(1e-12));
    CHECK(sums[2] == count);
    CHECK(sums[3] == count + 1);
}
