#include "kernels/experts/routing.hpp"

#include "base/check.hpp"
#include "kernels/instantiate.hpp"
#include "softmax_stats.hpp"

#include <type_traits>

namespace trivium::kernels {

namespace detail { // not without a name: lambdas keep them

/// The bits of a number as an integer in the same order. NaN is the largest, -0 is 0.
TRV_HOST_DEVICE inline std::uint32_t in_order_of(float value)
{
    constexpr std::uint32_t sign = std::uint32_t{1} << 31;
    const auto bits = __builtin_bit_cast(std::uint32_t, value);
    return value != value       ? ~std::uint32_t{0}
           : bits == sign       ? sign
           : (bits & sign) != 0 ? ~bits
                                : bits | sign;
}
TRV_HOST_DEVICE inline u64 in_order_of(double value)
{
    constexpr u64 sign = u64{1} << 63;
    const auto bits = __builtin_bit_cast(u64, value);
    return value != value ? ~u64{0} : bits == sign ? sign : (bits & sign) != 0 ? ~bits : bits | sign;
}

/// A candidate: the larger one is chosen first, by value, then by index. For float a single integer, of which
/// loops over candidates are fast.
struct WideKey {
    u64 value;
    std::uint32_t rest, unused; ///< rest: the more, the smaller the index

    TRV_HOST_DEVICE friend bool operator<(const WideKey& a, const WideKey& b)
    {
        return a.value != b.value ? a.value < b.value : a.rest < b.rest;
    }
};
template <class R>
using Key = std::conditional_t<sizeof(R) == 4, u64, WideKey>;

TRV_HOST_DEVICE inline std::uint32_t rest_of(i64 index) { return ~static_cast<std::uint32_t>(index + 1); }
TRV_HOST_DEVICE inline u64 key_of(float value, i64 index)
{
    return (u64{in_order_of(value)} << 32) | rest_of(index);
}
TRV_HOST_DEVICE inline WideKey key_of(double value, i64 index)
{
    return {in_order_of(value), rest_of(index), 0};
}
TRV_HOST_DEVICE inline i64 index_of(std::uint32_t rest) { return static_cast<i64>(~rest) - 1; }
TRV_HOST_DEVICE inline i64 index_of(u64 key) { return index_of(static_cast<std::uint32_t>(key)); }
TRV_HOST_DEVICE inline i64 index_of(const WideKey& key) { return index_of(key.rest); }

/// Larger than every candidate; Key<R>{} is smaller.
template <class R>
TRV_HOST_DEVICE Key<R> above_all()
{
    if constexpr (sizeof(R) == 4)
        return ~u64{0};
    else
        return {~u64{0}, ~std::uint32_t{0}, 0};
}

/// The largest key of [0, n) below `last`. All lanes of a team get the same one.
template <class R, class F>
TRV_HOST_DEVICE Key<R> next_of(const Row& row, i64 n, const Key<R>& last, F key)
{
    return row.fold(
        n, Key<R>{},
        [=](i64 i) {
            const Key<R> one = key(i);
            return one < last ? one : Key<R>{};
        },
        [](const Key<R>& a, const Key<R>& b) { return a < b ? b : a; });
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
template <class R, class F>
TRV_HOST_DEVICE R group_value(F value, i64 first, i64 size, bool top2)
{
    R best = value(first), second = 0;
    for (i64 e = first + 1; e < first + size; ++e) {
        const R one = value(e);
        const bool is_best = in_order_of(one) > in_order_of(best);
        const R other = is_best ? best : one;
        second = e == first + 1 || in_order_of(other) > in_order_of(second) ? other : second;
        best = is_best ? one : best;
    }
    return top2 && size > 1 ? best + second : best;
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
            // Scores without bias are in the order of the logits.
            const bool by_logits = !bias_x && !s.routing.top2;
            const auto value = [=](i64 e) {
                return by_logits ? scores.logits[e] : scores[e] + (bias_x ? bias_x[e] : R(0));
            };
            u64 chosen = ~u64{0}; // groups
            if (s.routing.top_groups < s.routing.groups) {
                chosen = 0;
                Key<R> group = above_all<R>();
                for (i64 i = 0; i < s.routing.top_groups; ++i) {
                    group = next_of<R>(row, s.routing.groups, group, [=](i64 g) {
                        return key_of(group_value<R>(value, g * of_group, of_group, s.routing.top2), g);
                    });
                    chosen |= u64{1} << index_of(group);
                }
            }
            R* const weights = weights_tk + t * s.slots;
            std::int32_t* const experts = experts_tk + t * s.slots;
            Key<R> expert = above_all<R>();
            R sum = 0;
            for (i64 i = 0; i < s.slots; ++i) {
                if (chosen == ~u64{0})
                    expert = next_of<R>(row, s.experts, expert, [=](i64 e) { return key_of(value(e), e); });
                else
                    expert = next_of<R>(row, s.experts, expert, [=](i64 e) {
                        return (chosen >> (e / of_group) & 1u) != 0 ? key_of(value(e), e) : Key<R>{};
                    });
                const i64 e = index_of(expert);
                const R score = scores[e];
                sum += score;
                row.single([=] {
                    weights[i] = score;
                    experts[i] = static_cast<std::int32_t>(e);
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
            const auto score_of = [=](i64 i) { // slots that name no expert have none
                const std::int32_t e = experts[i];
                return e >= 0 && e < s.experts ? scores[e] : R(0);
            };
            // dL/dscore of a slot is factor * (dweight - drop); `spread` is the sum of them times the scores.
            const R dot = row.total<R>(s.slots, [=](i64 i) { return dweights[i] * score_of(i); });
            R factor = scale, drop = 0, spread = scale * dot;
            if (s.routing.normalised) {
                const R sum = row.total<R>(s.slots, score_of);
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
            row.single([=] {
                const auto more = static_cast<Acc<N>>(count);
                counts_gx[at] = static_cast<N>(overwrite ? more : static_cast<Acc<N>>(counts_gx[at]) + more);
            });
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
