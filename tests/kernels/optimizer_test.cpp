#include "kernels/optimizer.hpp"

#include "support.hpp"

using namespace trivium;
using namespace trivium::kernels;

TEMPLATE_TEST_CASE("sum_squares of several arrays", "", TRV_STORAGE_TYPES)
{
    using T = TestType;
    std::vector<i64> sizes{0, 1, 17, 16384, 50001};
    for (int i = 0; i < 130; ++i) // more than fit in one launch
        sizes.push_back(i % 7);
    std::vector<std::vector<T>> arrays;
    Bytes size = 0;
    for (const i64 n : sizes) {
        arrays.push_back(random<T>(n, "x" + std::to_string(arrays.size()), 1e-3));
        size += sum_squares_scratch(n);
    }
    const auto [sums, alone] = stable([&](const Exec& exec) {
        const TestScratch scratch(size);
        Doubles together(arrays.size(), -1), single(arrays.size(), -1);
        {
            const auto x = lend_all(std::as_const(arrays));
            const Lent<double> out = lend(together), out_alone = lend(single);
            std::vector<SquaresOf<T>> list;
            for (std::size_t i = 0; i < arrays.size(); ++i)
                list.push_back({x[i], sizes[i], out + i});
            sum_squares<T>(exec, list, scratch);
            for (std::size_t i = 0; i < arrays.size(); i += i < 10 ? 1 : 37) {
                list[i].out = out_alone + i;
                sum_squares<T>(exec, {&list[i], 1}, scratch);
            }
        }
        return std::tuple(together, single);
    });
    for (std::size_t i = 0; i < arrays.size(); ++i)
        CHECK((alone[i] == -1 || alone[i] == sums[i]));
    for (std::size_t i = 0; i < arrays.size(); ++i)
        CHECK(sums[i] == Approx(dot(wide(arrays[i]), wide(arrays[i]))).epsilon(1e-12));
    const auto of_changes = stable([&](const Exec& exec) { // of each from the largest, whose length it has
        const TestScratch scratch(2 * sum_squares_scratch(50001));
        Doubles out(2, -1);
        const std::vector<T> short_one(arrays[4].begin(), arrays[4].begin() + 16384);
        {
            const auto x = lend_all(std::as_const(arrays));
            const auto y = lend(short_one);
            const Lent<double> to = lend(out);
            const std::vector<SquaresOf<T>> list{{x[3], 16384, to + 0, y}, {x[4], 50001, to + 1, x[4]}};
            sum_squares<T>(exec, list, scratch);
        }
        return std::tuple(out);
    });
    Doubles change = wide(arrays[3]);
    const Doubles largest = wide(arrays[4]);
    for (std::size_t i = 0; i < change.size(); ++i)
        change[i] -= largest[i];
    CHECK(std::get<0>(of_changes)[0] == Approx(dot(change, change)).epsilon(1e-12));
    CHECK(std::get<0>(of_changes)[1] == 0);
    const SquaresOf<T> array{nullptr, 5, nullptr};
    CHECK_THROWS_AS(sum_squares<T>({}, {&array, 1}, {}), InternalError);
}

TEST_CASE("global_norm clips, and propagates non-finite values")
{
    const auto norm = [](const Doubles& squares, double tokens, double clip) {
        return std::get<0>(stable([&](const Exec& exec) {
            const Doubles token_count{tokens};
            Doubles out(2);
            global_norm(exec, static_cast<i64>(squares.size()), lend(squares), lend(token_count), clip,
                        lend(out));
            return std::tuple(out);
        }));
    };
    CHECK(norm({9, 16}, 10, 1.0) == Doubles{0.5, 0.1});
    CHECK(norm({9, 16}, 10, 0.25)[1] == Approx(0.05));
    CHECK(norm({9, 16}, 10, 0)[1] == 0.1);
    CHECK(std::isnan(norm({1, NAN}, 10, 1.0)[0]));
    const auto many = random<double>(5003, "squares");
    double sum = 0;
    for (const double square : many)
        sum += square * square;
    Doubles squares;
    for (const double root : many)
        squares.push_back(root * root);
    CHECK(norm(squares, 1, 0)[0] == Approx(std::sqrt(sum)).epsilon(1e-13));
}

TEMPLATE_TEST_CASE("adamw of several shards, and with gradients in bf16", "", double, float, bf16)
{
    using G = TestType;
    using T = Acc<G>;
    std::vector<i64> sizes{1, 17, 5003, 40000, 0};
    for (int i = 0; i < 50; ++i) // more than fit in one launch
        sizes.push_back(1 + i % 5);
    std::vector<std::vector<T>> p, m, v;
    std::vector<std::vector<G>> g;
    for (const i64 n : sizes) {
        const std::string name = std::to_string(p.size());
        p.push_back(random<T>(n, "p" + name));
        g.push_back(random<G>(n, "g" + name, 10));
        m.push_back(random<T>(n, "m" + name, 0.1));
        v.push_back(random<T>(n, "v" + name, 0.1));
        for (T& value : v.back())
            value *= value;
    }
    const double lr = 0.01, eps = 1e-8;
    const Doubles factor{0.07};
    const Doubles hyper{lr, 0.9, 0.95, eps, 1 - 0.9 * 0.9, 1 - 0.95 * 0.95};
    const auto decay = [](std::size_t i) { return i % 2 == 0 ? 0.1 : 0.0; };
    const auto rate = [](std::size_t i) { return i % 3 == 0 ? 0.25 : 1.0; };
    const auto floor = [](std::size_t i) { return i % 4 == 0 ? 1e6 : 1.0; };
    const auto all = stable([&](const Exec& exec) {
        auto a = p, b = m, c = v;
        {
            const auto on_p = lend_all(a), on_m = lend_all(b), on_v = lend_all(c);
            const auto on_g = lend_all(std::as_const(g));
            std::vector<AdamwShard<T, G>> shards;
            for (std::size_t i = 0; i < sizes.size(); ++i)
                shards.push_back({on_p[i], on_m[i], on_v[i], on_g[i], sizes[i], decay(i), rate(i), floor(i)});
            adamw<T, G>(exec, shards, lend(hyper), lend(factor));
        }
        std::vector<T> flat;
        for (std::size_t i = 0; i < sizes.size(); ++i)
            for (const auto* part : {&a[i], &b[i], &c[i]})
                flat.insert(flat.end(), part->begin(), part->end());
        return std::tuple(flat);
    });
    std::size_t at = 0;
    const auto next = [&](i64 n) {
        const auto begin = std::get<0>(all).begin() + static_cast<std::ptrdiff_t>(at);
        at += static_cast<std::size_t>(n);
        return std::vector<T>(begin, begin + n);
    };
    for (std::size_t k = 0; k < sizes.size(); ++k) {
        const Doubles wp = wide(p[k]), wg = wide(g[k]), wm = wide(m[k]), wv = wide(v[k]);
        Doubles want_p, want_m, want_v;
        for (std::size_t i = 0; i < wp.size(); ++i) {
            const double grad = factor[0] * wg[i];
            want_m.push_back(0.9 * wm[i] + 0.1 * grad);
            want_v.push_back(0.95 * wv[i] + 0.05 * grad * grad);
            const double mean = want_m.back() / hyper[4], square = want_v.back() / hyper[5];
            want_p.push_back(wp[i] -
                             lr * rate(k) * (mean / (std::sqrt(square) + eps * floor(k)) + decay(k) * wp[i]));
        }
        require_close(next(sizes[k]), want_p, tolerance<T>, "p");
        require_close(next(sizes[k]), want_m, tolerance<T>, "m");
        require_close(next(sizes[k]), want_v, tolerance<T>, "v");
    }
}

TEMPLATE_TEST_CASE("the element-wise parts of Muon", "", double, float)
{
    using T = TestType;
    for (const i64 n : {0, 1, 17, 40000}) {
        const auto p = random<T>(n, "p"), g = random<T>(n, "g", 10), m = random<T>(n, "m");
        const double momentum = 0.9, lr = 0.01, decay = 0.3, scale = 1.7;
        const Doubles factor{0.07}, hyper{lr, 0, 0, 0, 0, 0}, squares{dot(wide(g), wide(g))}, none{0};
        const auto all = stable([&](const Exec& exec) {
            auto next_p = p, next_m = m, u = g, unit = g, sum = p;
            std::vector<T> zeros = g;
            {
                const Lent<T> on_m = lend(next_m), on_u = lend(u), on_unit = lend(unit), on_p = lend(next_p),
                              on_sum = lend(sum), on_zeros = lend(zeros);
                nesterov<T, T>(exec, n, momentum, lend(factor), on_u, on_m, on_u); // u in place of g
                unit_norm<T>(exec, 1, n, lend(squares), on_unit, on_unit);
                unit_norm<T>(exec, 1, n, lend(none), on_zeros, on_zeros);
                weighted_sum<T>(exec, n, -2.5, on_sum, 0.5, lend(g), on_sum);
                descent<T>(exec, n, lend(hyper), decay, scale, lend(g), on_p);
            }
            return std::tuple(next_m, u, unit, zeros, sum, next_p);
        });
        const Doubles wp = wide(p), wg = wide(g), wm = wide(m);
        Doubles want_m, want_u, want_unit, want_sum, want_p;
        for (std::size_t i = 0; i < wp.size(); ++i) {
            want_m.push_back(momentum * wm[i] + factor[0] * wg[i]);
            want_u.push_back(factor[0] * wg[i] + momentum * want_m[i]);
            want_unit.push_back(wg[i] / std::sqrt(squares[0]));
            want_sum.push_back(0.5 * wg[i] - 2.5 * wp[i]);
            want_p.push_back(wp[i] - lr * (decay * wp[i] + scale * wg[i]));
        }
        require_close(std::get<0>(all), want_m, tolerance<T>, "m");
        require_close(std::get<1>(all), want_u, tolerance<T>, "u");
        require_close(std::get<2>(all), want_unit, tolerance<T>, "unit");
        require_close(std::get<3>(all), Doubles(wp.size()), tolerance<T>, "zeros");
        require_close(std::get<4>(all), want_sum, tolerance<T>, "sum");
        require_close(std::get<5>(all), want_p, tolerance<T>, "p");
    }
    const auto of_nan = stable([](const Exec& exec) {
        std::vector<T> x{1, 2};
        const Doubles squares{NAN};
        {
            const Lent<T> on_x = lend(x);
            unit_norm<T>(exec, 1, 2, lend(squares), on_x, on_x);
        }
        return std::tuple(x);
    });
    CHECK((std::isnan(std::get<0>(of_nan)[0]) && std::isnan(std::get<0>(of_nan)[1])));
}

TEMPLATE_TEST_CASE("each array of a stack by its own norm", "", float, double)
{
    using T = TestType;
    for (const i64 n : {0, 1, 7, 16384, 20001}) {
        const auto x = random<T>(3 * n, "x", 10);
        const Doubles squares{4, 0, 0.25};
        const auto [unit] = stable([&](const Exec& exec) {
            auto made = x;
            {
                const Lent<T> on_made = lend(made);
                unit_norm<T>(exec, 3, n, lend(squares), on_made, on_made);
            }
            return std::tuple(made);
        });
        Doubles want;
        for (std::size_t i = 0; i < x.size(); ++i)
            want.push_back(static_cast<double>(x[i]) *
                           std::array{0.5, 0.0, 2.0}[i / static_cast<std::size_t>(n)]);
        require_close(unit, want, tolerance<T>, "unit");
    }
}

TEMPLATE_TEST_CASE("moving averages", "", float, double)
{
    using T = TestType;
    const double decay = 0.9;
    const Doubles count{7};
    for (const i64 n : {0, 1, 5, 16385, 50001}) {
        const auto p = random<T>(n, "p"), sum = random<T>(n, "sum", 10);
        const auto [next] = stable([&](const Exec& exec) {
            auto kept = p;
            {
                const Lent<T> on_p = lend(kept);
                moving_average<T>(exec, n, decay, lend(count), lend(sum), on_p);
            }
            return std::tuple(kept);
        });
        Doubles want;
        for (std::size_t i = 0; i < p.size(); ++i)
            want.push_back(decay * static_cast<double>(p[i]) +
                           (1 - decay) * static_cast<double>(sum[i]) / count[0]);
        require_close(next, want, tolerance<T>, "p");
    }
}

TEST_CASE("stack writes scalars to their positions and 0 elsewhere")
{
    for (const i64 count : {0, 1, 5, 128, 300}) {
        const i64 n = 2 * count + 3;
        const Doubles x = random<double>(count, "scalars");
        const auto [y] = stable([&](const Exec& exec) {
            Doubles out(static_cast<std::size_t>(n), NAN);
            const Lent<const double> on_x = lend(x);
            std::vector<StackPart> parts;
            for (i64 i = 0; i < count; ++i)
                parts.push_back({2 * i + 1, on_x + i});
            stack(exec, n, parts, lend(out));
            return std::tuple(out);
        });
        for (i64 i = 0; i < n; ++i)
            REQUIRE(y[static_cast<std::size_t>(i)] ==
                    (i % 2 == 1 && i / 2 < count ? x[static_cast<std::size_t>(i / 2)] : 0.0));
    }
}
