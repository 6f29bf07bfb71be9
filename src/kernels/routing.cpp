#include "kernels/routing.hpp"

#include "base/check.hpp"
#include "kernels/instantiate.hpp"
#include "softmax_stats.hpp"

namespace trivium::kernels {

namespace detail { // not without a name: lambdas keep them

/// A candidate; index -1: none.
template <class R>
struct Candidate {
    R value;
    std::int32_t index;
};

/// Whether `a` is chosen before `b`: NaN, then by value, then by index.
template <class R>
TRV_HOST_DEVICE bool is_before(const Candidate<R>& a, const Candidate<R>& b)
{
    if (a.index < 0 || b.index < 0)
        return b.index < 0 && a.index >= 0;
    const bool a_nan = !(a.value == a.value), b_nan = !(b.value == b.value);
    if (a_nan != b_nan)
        return a_nan;
    if (a_nan || a.value == b.value)
        return a.index < b.index;
    return a.value > b.value;
}

/// The first of [0, n) behind `last` in that order. value(i): a Candidate. A team of a device makes the same
/// choice in all lanes.
template <class R, class F>
TRV_HOST_DEVICE Candidate<R> next_of(const Row& row, i64 n, const Candidate<R>& last, F value)
{
    return row.fold(
        n, Candidate<R>{R(0), -1},
        [=](i64 i) {
            const Candidate<R> one = value(i);
            return last.index < 0 || is_before(last, one) ? one : Candidate<R>{R(0), -1};
        },
        [](const Candidate<R>& a, const Candidate<R>& b) { return is_before(b, a) ? b : a; });
}

/// The scores of a token.
template <class R>
struct Scores {
    const R* logits;
    bool sigmoid;
    R shift; ///< softmax: log-sum-exp

    TRV_HOST_DEVICE Scores(const Row& row, i64 n, const R* of, bool by_sigmoid)
        : logits(of), sigmoid(by_sigmoid), shift(by_sigmoid ? R(0) : log_sum_exp(row, n, of))
    {
    }
    TRV_HOST_DEVICE R operator[](i64 e) const
    {
        return sigmoid ? kernels::sigmoid(logits[e]) : fast_exp(logits[e] - shift);
    }
};

/// The largest value of a group's experts, or with `top2` the sum of the two largest.
template <class R, class Choice>
TRV_HOST_DEVICE R group_value(const Choice& choice, i64 first, i64 size, bool top2)
{
    Candidate<R> best{R(0), -1}, second{R(0), -1};
    for (i64 e = first; e < first + size; ++e) {
        const Candidate<R> one = choice(e);
        if (is_before(one, best)) {
            second = best;
            best = one;
        } else if (is_before(one, second)) {
            second = one;
        }
    }
    return top2 && second.index >= 0 ? best.value + second.value : best.value;
}

} // namespace detail
using namespace detail;

template <class R>
void route(const Exec& exec, const RouteShape& shape, const R* logits_tx, const R* bias_x, R* weights_tk,
           std::int32_t* experts_tk)
{
    const RouteShape s = shape;
    const i64 of_group = s.experts / s.routing.groups;
    const auto scale = static_cast<R>(s.scale);
    for_rows<R>(
        exec, "route", s.tokens, s.experts, KOKKOS_LAMBDA(const Row& row, i64 t) {
            const Scores<R> scores(row, s.experts, logits_tx + t * s.experts, s.routing.sigmoid);
            const auto choice = [=](i64 e) {
                return Candidate<R>{scores[e] + (bias_x ? bias_x[e] : R(0)), static_cast<std::int32_t>(e)};
            };
            u64 chosen = ~u64{0}; // groups
            if (s.routing.top_groups < s.routing.groups) {
                chosen = 0;
                Candidate<R> group{R(0), -1};
                for (i64 i = 0; i < s.routing.top_groups; ++i) {
                    group = next_of(row, s.routing.groups, group, [=](i64 g) {
                        return Candidate<R>{group_value<R>(choice, g * of_group, of_group, s.routing.top2),
                                            static_cast<std::int32_t>(g)};
                    });
                    chosen |= u64{1} << group.index;
                }
            }
            R* const weights = weights_tk + t * s.slots;
            std::int32_t* const experts = experts_tk + t * s.slots;
            Candidate<R> expert{R(0), -1};
            R sum = 0;
            for (i64 i = 0; i < s.slots; ++i) {
                expert = next_of(row, s.experts, expert, [=](i64 e) {
                    return (chosen >> (e / of_group) & 1u) != 0 ? choice(e) : Candidate<R>{R(0), -1};
                });
                const R score = scores[expert.index];
                sum += score;
                row.single([=] {
                    weights[i] = score;
                    experts[i] = expert.index;
                });
            }
            const bool normalised = s.routing.normalised;
            row.single([=] {
                for (i64 i = 0; i < s.slots; ++i)
                    weights[i] = scale * (normalised ? weights[i] / sum : weights[i]);
            });
        });
}

template <class R>
void route_grad(const Exec& exec, const RouteShape& shape, const R* dweights_tk, const R* logits_tx,
                const std::int32_t* experts_tk, R* dlogits_tx)
{
    const RouteShape s = shape;
    const auto scale = static_cast<R>(s.scale);
    for_rows<R>(
        exec, "route_grad", s.tokens, s.experts, KOKKOS_LAMBDA(const Row& row, i64 t) {
            const Scores<R> scores(row, s.experts, logits_tx + t * s.experts, s.routing.sigmoid);
            const std::int32_t* const experts = experts_tk + t * s.slots;
            const R* const dweights = dweights_tk + t * s.slots;
            R* const dlogits = dlogits_tx + t * s.experts;
            // dL/dscore of a slot is factor * (dweight - drop); `spread` is the sum of them times the scores.
            const R dot = row.total<R>(s.slots, [=](i64 i) { return dweights[i] * scores[experts[i]]; });
            R factor = scale, drop = 0, spread = scale * dot;
            if (s.routing.normalised) {
                const R sum = row.total<R>(s.slots, [=](i64 i) { return scores[experts[i]]; });
                factor = scale / sum;
                drop = dot / sum;
                spread = 0;
            }
            const bool sigmoid = s.routing.sigmoid;
            row.each(s.experts, [=](i64 e) {
                R dscore = 0;
                for (i64 i = 0; i < s.slots; ++i)
                    if (experts[i] == e)
                        dscore = factor * (dweights[i] - drop);
                const R score = scores[e];
                dlogits[e] = sigmoid ? dscore * score * (1 - score) : score * (dscore - spread);
            });
        });
}

template <class N>
void expert_counts(const Exec& exec, i64 groups, i64 slots, i64 experts, const std::int32_t* experts_gk,
                   N* counts_gx, bool overwrite)
{
    for_rows<std::int32_t>(
        exec, "expert_counts", groups * experts, slots, KOKKOS_LAMBDA(const Row& row, i64 at) {
            const std::int32_t expert = static_cast<std::int32_t>(at % experts);
            const std::int32_t* const of = experts_gk + at / experts * slots;
            const auto count = row.sum<std::int32_t>(slots, [=](i64 i) { return of[i] == expert ? 1 : 0; });
            row.single(
                [=] { counts_gx[at] = static_cast<N>((overwrite ? N(0) : counts_gx[at]) + N(count)); });
        });
}

template <class R>
void router_scores(const Exec& exec, const RouterShape& shape, const R* logits_bsx, R* scores_bx,
                   Scratch scratch)
{
    const RouterShape s = shape;
    const i64 all = s.sequences * s.tokens;
    TRV_CHECK(scratch.size >= all * static_cast<Bytes>(sizeof(R)), scratch.size, " B of scratch");
    auto* const norm_bs = static_cast<R*>(scratch.data); // log-sum-exp, or the sum of the sigmoids
    for_rows<R>(
        exec, "router_scores", all, s.experts, KOKKOS_LAMBDA(const Row& row, i64 t) {
            const Scores<R> scores(row, s.experts, logits_bsx + t * s.experts, s.sigmoid);
            const R norm = s.sigmoid ? row.sum<R>(s.experts, [=](i64 e) { return scores[e]; }) : scores.shift;
            row.single([=] { norm_bs[t] = norm; });
        });
    for (i64 b = 0; b < s.sequences; ++b) {
        const R* const norm_s = norm_bs + b * s.tokens;
        R* const scores_x = scores_bx + b * s.experts;
        for_columns<R>(
            exec, "router_scores", s.tokens, s.experts, s.experts,
            KOKKOS_LAMBDA(i64 t, R logit) {
                return s.sigmoid ? sigmoid(logit) / norm_s[t] : fast_exp(logit - norm_s[t]);
            },
            KOKKOS_LAMBDA(i64 e, R sum) { scores_x[e] = sum; }, logits_bsx + b * s.tokens * s.experts);
    }
}

template <class R>
void router_scores_grad(const Exec& exec, const RouterShape& shape, const R* dscores_bx, const R* logits_bsx,
                        R* dlogits_bsx)
{
    const RouterShape s = shape;
    for_rows<R>(
        exec, "router_scores_grad", s.sequences * s.tokens, s.experts, KOKKOS_LAMBDA(const Row& row, i64 t) {
            const Scores<R> scores(row, s.experts, logits_bsx + t * s.experts, s.sigmoid);
            const R* const dscores = dscores_bx + t / s.tokens * s.experts;
            R* const dlogits = dlogits_bsx + t * s.experts;
            const R sum = s.sigmoid ? row.sum<R>(s.experts, [=](i64 e) { return scores[e]; }) : R(1);
            const R drop = row.sum<R>(s.experts, [=](i64 e) { return dscores[e] * scores[e]; }) / sum;
            row.each(s.experts, [=](i64 e) {
                const R score = scores[e];
                dlogits[e] = score / sum * (dscores[e] - drop) * (s.sigmoid ? 1 - score : R(1));
            });
        });
}

template <class R>
void router_squares(const Exec& exec, const RouterShape& shape, const R* logits_bsx, R* squares_b,
                    Scratch scratch)
{
    const RouterShape s = shape;
    const i64 all = s.sequences * s.tokens;
    TRV_CHECK(scratch.size >= all * static_cast<Bytes>(sizeof(R)), scratch.size, " B of scratch");
    auto* const lse_bs = static_cast<R*>(scratch.data);
    for_rows<R>(
        exec, "router_squares", all, s.experts, KOKKOS_LAMBDA(const Row& row, i64 t) {
            const R lse = log_sum_exp(row, s.experts, logits_bsx + t * s.experts);
            row.single([=] { lse_bs[t] = lse; });
        });
    for_rows<R>(
        exec, "router_squares", s.sequences, s.tokens, KOKKOS_LAMBDA(const Row& row, i64 b) {
            const R* const lse_s = lse_bs + b * s.tokens;
            const R sum = row.sum<R>(s.tokens, [=](i64 i) { return lse_s[i] * lse_s[i]; });
            row.single([=] { squares_b[b] = sum; });
        });
}

template <class R>
void router_squares_grad(const Exec& exec, const RouterShape& shape, const R* dsquares_b, const R* logits_bsx,
                         R* dlogits_bsx)
{
    const RouterShape s = shape;
    for_rows<R>(
        exec, "router_squares_grad", s.sequences * s.tokens, s.experts, KOKKOS_LAMBDA(const Row& row, i64 t) {
            const R* const logits = logits_bsx + t * s.experts;
            R* const dlogits = dlogits_bsx + t * s.experts;
            const R lse = log_sum_exp(row, s.experts, logits);
            const R factor = 2 * lse * dsquares_b[t / s.tokens];
            row.each(s.experts, [=](i64 e) { dlogits[e] = factor * fast_exp(logits[e] - lse); });
        });
}

TRV_FOR_REAL(route)
TRV_FOR_REAL(route_grad)
TRV_FOR_TENSOR(expert_counts)
TRV_FOR_REAL(router_scores)
TRV_FOR_REAL(router_scores_grad)
TRV_FOR_REAL(router_squares)
TRV_FOR_REAL(router_squares_grad)

} // namespace trivium::kernels
