// Mixtures of experts: routers, tokens as rows of their experts, and products with the experts' matrices.
#include "kernels/experts/grouped_product.hpp"
#include "kernels/experts/routing.hpp"
#include "kernels/experts/rows.hpp"
#include "support.hpp"

#include <array>
#include <numeric>
#include <set>

using namespace trivium;
using namespace trivium::kernels;

namespace {

std::size_t nth(i64 i) { return static_cast<std::size_t>(i); }

/// A router in f64, from the definitions.
struct NaiveRouter {
    RouteShape shape;
    Doubles logits, bias; // of one token; bias may be empty

    Doubles scores() const
    {
        Doubles s(logits.size());
        double sum = 0;
        for (const double l : logits)
            sum += std::exp(l);
        for (std::size_t e = 0; e < s.size(); ++e)
            s[e] = shape.routing.sigmoid ? 1 / (1 + std::exp(-logits[e])) : std::exp(logits[e]) / sum;
        return s;
    }
    std::vector<i64> chosen() const
    {
        Doubles value = scores();
        for (std::size_t e = 0; e < bias.size(); ++e)
            value[e] += bias[e];
        const i64 of_group = shape.experts / shape.routing.groups;
        Doubles of_groups;
        for (i64 g = 0; g < shape.routing.groups; ++g) {
            Doubles own(value.begin() + g * of_group, value.begin() + (g + 1) * of_group);
            std::sort(own.rbegin(), own.rend());
            of_groups.push_back(own[0] + (shape.routing.top2 && own.size() > 1 ? own[1] : 0));
        }
        const auto by = [](const Doubles& v) {
            std::vector<i64> order(v.size());
            std::iota(order.begin(), order.end(), 0);
            std::stable_sort(order.begin(), order.end(), [&](i64 a, i64 b) { return v[nth(a)] > v[nth(b)]; });
            return order;
        };
        std::vector<i64> groups = by(of_groups), experts;
        groups.resize(nth(shape.routing.top_groups));
        for (const i64 e : by(value))
            if (std::count(groups.begin(), groups.end(), e / of_group) > 0 &&
                experts.size() < nth(shape.slots))
                experts.push_back(e);
        return experts;
    }
    Doubles weights(const std::vector<i64>& experts) const
    {
        const Doubles s = scores();
        Doubles w;
        for (const i64 e : experts)
            w.push_back(s[nth(e)]);
        const double sum = shape.routing.normalised ? std::accumulate(w.begin(), w.end(), 0.0) : 1;
        for (double& x : w)
            x *= shape.scale / sum;
        return w;
    }
};

/// Slots that name experts at random, some more often than others.
Tokens random_experts(i64 tokens, i64 slots, i64 experts, const std::string& name)
{
    Tokens all = random_tokens(tokens * slots, name, 0, experts);
    for (std::size_t i = 0; i < all.size(); i += 3)
        all[i] = static_cast<std::int32_t>(experts - 1);
    return all;
}

/// dispatch from its definition: for each group and expert, the slots that name it.
struct NaiveDispatch {
    std::vector<std::int32_t> slots, counts;
    std::vector<i64> token_of_row; // -1: none

    NaiveDispatch(const TokenShape& s, i64 experts, i64 capacity, const Tokens& named)
        : slots(named.size(), -1), token_of_row(nth(s.groups() * s.rows), -1)
    {
        for (i64 major = 0; major < s.of_sequences; ++major)
            for (i64 minor = 0; minor < s.of_tokens; ++minor) {
                i64 next = 0;
                for (i64 e = 0; e < experts; ++e) {
                    const i64 before = next;
                    for (i64 b = 0; b < s.group_sequences(); ++b) {
                        i64 of_sequence = 0;
                        for (i64 i = 0; i < s.group_tokens(); ++i)
                            for (i64 k = 0; k < s.slots; ++k) {
                                const i64 token = (major * s.group_sequences() + b) * s.tokens +
                                                  minor * s.group_tokens() + i;
                                if (named[nth(token * s.slots + k)] != e ||
                                    (capacity > 0 && of_sequence++ >= capacity))
                                    continue;
                                token_of_row[nth((major * s.of_tokens + minor) * s.rows + next)] = token;
                                slots[nth(token * s.slots + k)] = static_cast<std::int32_t>(next++);
                            }
                    }
                    counts.push_back(static_cast<std::int32_t>(next - before));
                }
            }
    }
};

const TokenShape token_shapes[] = {{1, 5, 3, 2, 10, 1, 1},
                                   {2, 70, 33, 3, 210, 2, 1},
                                   {4, 66, 16, 2, 88, 2, 3},
                                   {3, 40, 5, 1, 120, 1, 1},
                                   {2, 1, 20, 4, 4, 2, 1}};

/// Counts [outer, all_ranks, experts]; some experts have no rows, the last one of each rank many.
Tokens random_counts(const GroupedRows& s, i64 most, const std::string& name)
{
    Tokens counts = random_tokens(s.outer * s.all_ranks * s.experts, name, 0, most);
    for (std::size_t i = 0; i < counts.size(); i += 4)
        counts[i] = 0;
    return counts;
}

/// The weights of each row's expert, -1 behind the last row, by base/expert_rows.hpp.
std::vector<i64> weights_of_rows(const GroupedRows& s, const Tokens& counts)
{
    std::vector<i64> all(nth(s.all_rows()), -1);
    const std::size_t each = nth(s.all_ranks * s.experts);
    for (i64 o = 0; o < s.outer; ++o) {
        const ExpertRows rows({counts.data() + nth(o) * each, each}, s.all_ranks, s.rows);
        for (i64 rank = 0; rank < s.ranks; ++rank)
            for (i64 e = 0; e < rows.experts_of_rank(); ++e) {
                const auto range = rows.of_expert((s.first + rank) * rows.experts_of_rank() + e);
                for (i64 r = range.begin; r < range.begin + range.size; ++r)
                    all[nth((o * s.ranks + rank) * s.rows + r)] = rank * rows.experts_of_rank() + e;
            }
    }
    return all;
}

struct GroupedCase {
    GroupedRows rows;
    i64 i, j, most; // most: rows of an expert and group
};
const GroupedCase grouped_cases[] = {
    {{1, 1, 0, 1, 300, 4}, 5, 7, 90},      // one rank
    {{1, 1, 0, 1, 1500, 2}, 33, 20, 1400}, // more rows than a piece, and than a sum
    {{2, 2, 0, 2, 100, 4}, 8, 16, 20},     // of all ranks
    {{2, 2, 1, 4, 60, 8}, 12, 9, 9},       // some ranks of several, rows without places
    {{1, 1, 0, 1, 40, 3}, 300, 4, 3},      // a gradient of several blocks
    {{1, 1, 0, 1, 6, 2}, 3, 2, 1},         // no rows
};

/// NaN where nothing may be read: behind the last row of each rank.
template <class T>
std::vector<T> with_nan(std::vector<T> x, i64 columns, const std::vector<i64>& of_rows)
{
    for (std::size_t r = 0; r < of_rows.size(); ++r)
        for (i64 c = 0; c < columns && of_rows[r] < 0; ++c)
            x[r * nth(columns) + nth(c)] = T(std::numeric_limits<float>::quiet_NaN());
    return x;
}

} // namespace

TEMPLATE_TEST_CASE("a router chooses the best experts, by all of its rules", "", double, float)
{
    using R = TestType;
    const std::array<Routing, 6> rules{{{false, false, 1, 1, false},
                                        {false, true, 1, 1, false},
                                        {true, true, 4, 2, true},
                                        {true, false, 4, 3, false},
                                        {false, true, 3, 1, true},
                                        {true, true, 12, 8, true}}};
    for (const Routing& routing : rules)
        for (const bool biased : {false, true}) {
            const RouteShape s{.tokens = 37, .experts = 12, .slots = 4, .routing = routing, .scale = 1.5};
            const auto logits = random<R>(s.tokens * s.experts, "logits", 2);
            const auto bias = random<R>(s.experts, "bias", 0.3);
            const auto dweights = random<R>(s.tokens * s.slots, "dweights");
            const auto [weights, experts, dlogits] = stable([&](const Exec& exec) {
                std::vector<R> w(nth(s.tokens * s.slots)), dl = logits;
                Tokens e(w.size());
                route(exec, s, lend(logits), biased ? static_cast<const R*>(lend(bias)) : nullptr,
                      static_cast<R*>(lend(w)), lend(e));
                route_grad<R>(exec, s, lend(dweights), lend(dl), lend(e), lend(dl));
                return std::tuple(w, e, dl);
            });
            for (i64 t = 0; t < s.tokens; ++t) {
                NaiveRouter naive{s, {}, biased ? wide(bias) : Doubles{}};
                const Doubles all = wide(logits);
                naive.logits.assign(all.begin() + t * s.experts, all.begin() + (t + 1) * s.experts);
                const std::vector<i64> want = naive.chosen();
                for (i64 k = 0; k < s.slots; ++k)
                    REQUIRE(experts[nth(t * s.slots + k)] == want[nth(k)]);
                require_close(
                    std::vector<R>(weights.begin() + t * s.slots, weights.begin() + (t + 1) * s.slots),
                    naive.weights(want), tolerance<R>);
                const Doubles dw = wide(dweights);
                const Doubles slopes = slope(
                    [&](const Doubles& x) {
                        const Doubles w = NaiveRouter{s, x, {}}.weights(want);
                        return std::inner_product(w.begin(), w.end(), dw.begin() + t * s.slots, 0.0);
                    },
                    naive.logits);
                require_close(
                    std::vector<R>(dlogits.begin() + t * s.experts, dlogits.begin() + (t + 1) * s.experts),
                    slopes, 1e-4, "dlogits", 0.1);
            }
        }
}

TEST_CASE("a router takes equal experts in their order, and NaN first")
{
    start_runtime();
    const RouteShape s{.tokens = 2, .experts = 6, .slots = 3, .routing = {true, false, 1, 1, false}};
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::vector<float> logits{0, 1, 1, 0, 1, 1, 0, nan, 2, nan, nan, nan}, weights(6);
    Tokens experts(6);
    route(Exec{1}, s, static_cast<const float*>(lend(logits)), static_cast<const float*>(nullptr),
          static_cast<float*>(lend(weights)), lend(experts));
    CHECK(experts == Tokens{1, 2, 4, 1, 3, 4});
    CHECK(std::isnan(weights[3]));
    const RouteShape grouped{.tokens = 1, .experts = 6, .slots = 3, .routing = {false, true, 3, 2, true}};
    std::fill(logits.begin(), logits.end(), nan);
    route(Exec{1}, grouped, static_cast<const float*>(lend(logits)), static_cast<const float*>(nullptr),
          static_cast<float*>(lend(weights)), lend(experts));
    CHECK(Tokens(experts.begin(), experts.begin() + 3) == Tokens{0, 1, 2});
    CHECK(std::isnan(weights[0]));
}

TEMPLATE_TEST_CASE("what the losses of a router read", "", double, float)
{
    using R = TestType;
    for (const bool sigmoid : {false, true}) {
        const RouterShape s{3, 50, 10, sigmoid};
        const i64 all = s.sequences * s.tokens * s.experts;
        const auto logits = random<R>(all, "logits", 2);
        const auto dscores = random<R>(s.sequences * s.experts, "dscores"),
                   dsquares = random<R>(3, "dsquares");
        const auto [scores, squares, from_scores, from_squares] = stable([&](const Exec& exec) {
            std::vector<R> sc(nth(s.sequences * s.experts)), sq(3), ds = logits, dq = logits;
            const TestScratch scratch(s.sequences * s.tokens * static_cast<Bytes>(sizeof(R)));
            router_scores<R>(exec, s, lend(logits), lend(sc), scratch);
            router_squares<R>(exec, s, lend(logits), lend(sq), scratch);
            router_scores_grad<R>(exec, s, lend(dscores), lend(ds), lend(ds));
            router_squares_grad<R>(exec, s, lend(dsquares), lend(dq), lend(dq));
            return std::tuple(sc, sq, ds, dq);
        });
        const auto losses = [&](const Doubles& x) {
            std::pair<Doubles, Doubles> both{Doubles(nth(s.sequences * s.experts)), Doubles(3)};
            for (i64 t = 0; t < s.sequences * s.tokens; ++t) {
                double sum = 0, sigmoids = 0;
                for (i64 e = 0; e < s.experts; ++e) {
                    sum += std::exp(x[nth(t * s.experts + e)]);
                    sigmoids += 1 / (1 + std::exp(-x[nth(t * s.experts + e)]));
                }
                for (i64 e = 0; e < s.experts; ++e) {
                    const double l = x[nth(t * s.experts + e)];
                    both.first[nth(t / s.tokens * s.experts + e)] +=
                        sigmoid ? 1 / (1 + std::exp(-l)) / sigmoids : std::exp(l) / sum;
                }
                both.second[nth(t / s.tokens)] += std::pow(std::log(sum), 2);
            }
            return both;
        };
        const auto want = losses(wide(logits));
        require_close(scores, want.first, tolerance<R>);
        require_close(squares, want.second, tolerance<R>);
        // Slopes of some logits.
        Doubles x = wide(logits);
        for (i64 i = 3; i < all; i += 97) {
            const auto at_step = [&](double step) {
                Doubles moved = x;
                moved[nth(i)] += step;
                const auto both = losses(moved);
                return std::pair(dot(both.first, wide(dscores)), dot(both.second, wide(dsquares)));
            };
            const auto up = at_step(1e-4), down = at_step(-1e-4);
            CHECK(std::abs(static_cast<double>(from_scores[nth(i)]) - (up.first - down.first) / 2e-4) < 1e-5);
            CHECK(std::abs(static_cast<double>(from_squares[nth(i)]) - (up.second - down.second) / 2e-4) <
                  1e-4);
        }
    }
}

TEST_CASE("slots per expert are counted")
{
    const Tokens named = random_experts(60, 3, 5, "named");
    const auto [counts] = stable([&](const Exec& exec) {
        std::vector<float> c(10, 7.0f);
        expert_counts(exec, 2, 90, 5, static_cast<const std::int32_t*>(lend(named)),
                      static_cast<float*>(lend(c)), false);
        return std::tuple(c);
    });
    for (i64 g = 0; g < 2; ++g)
        for (i64 e = 0; e < 5; ++e)
            CHECK(
                counts[nth(g * 5 + e)] ==
                7 + static_cast<float>(std::count(named.begin() + g * 90, named.begin() + (g + 1) * 90, e)));
}

TEMPLATE_TEST_CASE("tokens become rows of their experts, and rows tokens", "", TRV_STORAGE_TYPES)
{
    using T = TestType;
    using W = Acc<T>;
    for (const TokenShape& s : token_shapes)
        for (const i64 capacity : {0, 2}) {
            if (capacity > 0 && s.of_tokens > 1)
                continue;
            INFO("tokens " << s.tokens << ", capacity " << capacity);
            const i64 experts = 5;
            Tokens named = random_experts(s.all(), s.slots, experts, "experts");
            named[0] = -1; // names none
            const auto tokens = random<T>(s.all() * s.dim, "tokens"),
                       dtokens = random<T>(s.all() * s.dim, "dtokens");
            const auto weights = random<W>(s.all() * s.slots, "weights");
            const auto other_rows = random<T>(s.groups() * s.rows * s.dim, "rows");
            const NaiveDispatch want(s, experts, capacity, named);
            const auto [rows, slots, counts, sums, plain, drows, dweights] = stable([&](const Exec& exec) {
                std::vector<T> r(other_rows), y(tokens.size()), z(tokens.size()), dr(other_rows);
                Tokens sl(named.size()), c(nth(s.groups() * experts));
                std::vector<W> dw(weights.size());
                const TestScratch scratch(
                    dispatch_scratch(s.sequences * s.of_tokens, s.group_tokens(), experts));
                dispatch<T>(exec, s, experts, capacity, lend(tokens), lend(named), lend(r), lend(sl), lend(c),
                            scratch);
                combine<T, W>(exec, s, lend(other_rows), lend(sl), lend(weights), lend(y));
                combine<T, W>(exec, s, lend(other_rows), lend(sl), nullptr, lend(z));
                const TestScratch few(8 * s.groups());
                combine_grad_rows<T, W>(exec, s, lend(dtokens), lend(sl), lend(weights), lend(dr), few);
                combine_grad_weights<T>(exec, s, lend(dtokens), lend(sl), lend(other_rows), lend(dw));
                return std::tuple(r, sl, c, y, z, dr, dw);
            });
            CHECK(slots == want.slots);
            CHECK(counts == want.counts);
            Doubles want_rows(rows.size()), want_sums(tokens.size()), want_plain(tokens.size()),
                want_drows(rows.size()), want_dweights(weights.size());
            const Doubles x = wide(tokens), dx = wide(dtokens), w = wide(weights), other = wide(other_rows);
            for (std::size_t r = 0; r < want.token_of_row.size(); ++r)
                for (i64 d = 0; d < s.dim && want.token_of_row[r] >= 0; ++d)
                    want_rows[r * nth(s.dim) + nth(d)] = x[nth(want.token_of_row[r] * s.dim + d)];
            for (i64 t = 0; t < s.all(); ++t)
                for (i64 k = 0; k < s.slots; ++k) {
                    const i64 slot = want.slots[nth(t * s.slots + k)];
                    const i64 group =
                        t / s.tokens / s.group_sequences() * s.of_tokens + t % s.tokens / s.group_tokens();
                    for (i64 d = 0; d < s.dim && slot >= 0; ++d) {
                        const std::size_t to = nth(t * s.dim + d),
                                          from = nth((group * s.rows + slot) * s.dim + d),
                                          weight = nth(t * s.slots + k);
                        want_sums[to] += w[weight] * other[from];
                        want_plain[to] += other[from];
                        want_drows[from] = w[weight] * dx[to];
                        want_dweights[weight] += dx[to] * other[from];
                    }
                }
            CHECK(wide(rows) == want_rows);
            require_close(sums, want_sums, tolerance<T>);
            require_close(plain, want_plain, tolerance<T>);
            require_close(drows, want_drows, tolerance<T>);
            require_close(dweights, want_dweights, tolerance<Acc<T>>);
        }
}

TEST_CASE("slots that name no row are dropped, those that name no expert skipped")
{
    const TokenShape s{1, 3, 4, 2, 4, 1, 1};
    const Tokens wild{0, 4, -1, 1'000'000'000, -2'000'000'000, 1}, tame{0, -1, -1, -1, -1, 1};
    const auto rows = random<float>(s.rows * s.dim, "rows"), weights = random<float>(6, "weights"),
               dtokens = random<float>(s.all() * s.dim, "dtokens");
    const auto computed = [&](const Tokens& slots) {
        return stable([&](const Exec& exec) {
            std::vector<float> y(dtokens.size()), dr(rows.size()), dw(weights.size());
            const TestScratch few(8);
            combine<float, float>(exec, s, lend(rows), lend(slots), lend(weights), lend(y));
            combine_grad_rows<float, float>(exec, s, lend(dtokens), lend(slots), lend(weights), lend(dr),
                                            few);
            combine_grad_weights<float>(exec, s, lend(dtokens), lend(slots), lend(rows), lend(dw));
            return std::tuple(y, dr, dw);
        });
    };
    CHECK(computed(wild) == computed(tame));

    const auto logits = random<float>(5, "logits");
    for (const Routing& routing : {Routing{false, true}, Routing{true, false}}) {
        const auto gradient = [&](const Tokens& experts, const std::vector<float>& dweights) {
            const RouteShape shape{
                .tokens = 1, .experts = 5, .slots = std::ssize(experts), .routing = routing, .scale = 1.5};
            const auto [dlogits] = stable([&](const Exec& exec) {
                std::vector<float> dl(5);
                route_grad<float>(exec, shape, lend(dweights), lend(logits), lend(experts), lend(dl));
                return std::tuple(dl);
            });
            return dlogits;
        };
        CHECK(gradient({3, 1'000'000'000, 0, -7}, {1, 2, 3, 4}) == gradient({3, 0}, {1, 3}));
    }

    const GroupedRows grouped{1, 1, 0, 1, 4, 3};
    const Tokens counts{2, -5, 1};
    const i64 of_rows[] = {0, 0, 2, -1};
    for (i64 r = 0; r < grouped.rows; ++r)
        CHECK(grouped.weight_of_row(counts.data(), r) == of_rows[r]);
    CHECK(grouped.of_weight(counts.data(), 0, 1).size == 0);
}

TEMPLATE_TEST_CASE("a bias per expert, and its gradient", "", TRV_STORAGE_TYPES)
{
    using T = TestType;
    for (const GroupedCase& c : grouped_cases) {
        const Tokens counts = random_counts(c.rows, c.most, "counts");
        const std::vector<i64> of_rows = weights_of_rows(c.rows, counts);
        const i64 n = c.rows.all_rows(), experts = c.rows.weights();
        const auto x = with_nan(random<T>(n * c.j, "x"), c.j, of_rows);
        const auto bias = random<T>(experts * c.j, "bias");
        const auto start = random<Acc<T>>(experts * c.j, "start");
        const auto [y, sums, added] = stable([&](const Exec& exec) {
            std::vector<T> out = x;
            std::vector<Acc<T>> overwritten(start), more(start);
            grouped_bias<T>(exec, c.rows, c.j, lend(out), lend(bias), lend(counts), lend(out));
            grouped_bias_grad<T>(exec, c.rows, c.j, lend(x), lend(counts), lend(overwritten), true);
            grouped_bias_grad<T>(exec, c.rows, c.j, lend(x), lend(counts), lend(more), false);
            return std::tuple(out, overwritten, more);
        });
        Doubles want(y.size()), want_sums(start.size()), want_added = wide(start);
        const Doubles xs = wide(x), biases = wide(bias);
        for (std::size_t r = 0; r < of_rows.size(); ++r)
            for (i64 j = 0; j < c.j && of_rows[r] >= 0; ++j) {
                const std::size_t from = r * nth(c.j) + nth(j), to = nth(of_rows[r] * c.j + j);
                want[from] = xs[from] + biases[to];
                want_sums[to] += xs[from];
                want_added[to] += xs[from];
            }
        require_close(y, want, tolerance<T>);
        require_close(sums, want_sums, tolerance<Acc<T>>);
        require_close(added, want_added, tolerance<Acc<T>>);
    }
}

TEMPLATE_TEST_CASE("grouped products: rows with their experts' matrices, and gradients", "",
                   TRV_STORAGE_TYPES)
{
    using T = TestType;
    for (const GroupedCase& c : grouped_cases) {
        INFO("rows " << c.rows.rows << ", experts " << c.rows.experts);
        const Tokens counts = random_counts(c.rows, c.most, "counts");
        const std::vector<i64> of_rows = weights_of_rows(c.rows, counts);
        const i64 n = c.rows.all_rows(), experts = c.rows.weights();
        const auto x = with_nan(random<T>(n * c.i, "x"), c.i, of_rows),
                   dy = with_nan(random<T>(n * c.j, "dy"), c.j, of_rows);
        const auto w = random<T>(experts * c.i * c.j, "w");
        const auto start = random<Acc<T>>(experts * c.i * c.j, "start");
        const DType type = dtype_of<T>;
        const auto [y, dx, dw, added] = stable([&](const Exec& exec) {
            const auto run = [&](GroupedKind kind, const auto& a, const auto& b, auto result,
                                 bool overwrite) {
                const DType out = kind == GroupedKind::grad_weight ? accumulator_of(type) : type;
                const GroupedProduct product(kind, {c.rows, c.i, c.j, type, out}, exec.threads);
                const TestScratch scratch(product.scratch_bytes());
                product.run(exec, lend(a), lend(b), lend(counts), lend(result), overwrite, scratch);
                return result;
            };
            return std::tuple(run(GroupedKind::forward, x, w, std::vector<T>(dy.size(), T(7.0f)), true),
                              run(GroupedKind::grad_rows, dy, w, std::vector<T>(x.size(), T(7.0f)), true),
                              run(GroupedKind::grad_weight, x, dy, start, true),
                              run(GroupedKind::grad_weight, x, dy, start, false));
        });
        Doubles want(y.size()), want_dx(dx.size()), want_dw(dw.size()), want_added = wide(start);
        const Doubles xs = wide(x), dys = wide(dy), ws = wide(w);
        for (std::size_t r = 0; r < of_rows.size(); ++r)
            for (i64 i = 0; i < c.i && of_rows[r] >= 0; ++i)
                for (i64 j = 0; j < c.j; ++j) {
                    const std::size_t row_i = r * nth(c.i) + nth(i), row_j = r * nth(c.j) + nth(j),
                                      weight = nth((of_rows[r] * c.i + i) * c.j + j);
                    want[row_j] += xs[row_i] * ws[weight];
                    want_dx[row_i] += dys[row_j] * ws[weight];
                    want_dw[weight] += xs[row_i] * dys[row_j];
                    want_added[weight] += xs[row_i] * dys[row_j];
                }
        require_close(y, want, tolerance<T>, "y");
        require_close(dx, want_dx, tolerance<T>, "dx");
        require_close(dw, want_dw, 10 * tolerance<Acc<T>>, "dw");
        require_close(added, want_added, 10 * tolerance<Acc<T>>, "dw added");
    }
}
