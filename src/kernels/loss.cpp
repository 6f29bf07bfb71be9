#include "kernels/loss.hpp"

#include "base/check.hpp"
#include "kernels/instantiate.hpp"
#include "kernels/math.hpp"
#include "softmax_stats.hpp"

namespace trivium::kernels {

template <class T>
void xent_stats(const Exec& exec, const LossShape& shape, const T* logits_rv, const std::int32_t* target_r,
                Acc<T>* lse_r, Acc<T>* picked_r)
{
    using A = Acc<T>;
    const i64 vocab = shape.vocab, offset = shape.v_offset;
    const auto share = static_cast<A>(shape.target_share), every = static_cast<A>(shape.every_share);
    for_rows<T>(
        exec, "xent_stats", shape.rows, vocab, KOKKOS_LAMBDA(const Row& row, i64 r) {
            const T* logits = logits_rv + r * vocab;
            const A lse = log_sum_exp(row, vocab, logits);
            const i64 target = target_r[r] < 0 ? -1 : target_r[r] - offset;
            A spread = 0;
            if (every != A(0) && target_r[r] >= 0)
                spread = every * row.sum<A>(
                                     vocab, [](A v) { return v; }, logits);
            row.single([=] {
                lse_r[r] = lse;
                picked_r[r] = target >= 0 && target < vocab ? share * A(logits[target]) + spread : spread;
            });
        });
}

template <class T>
void xent_stats_grad(const Exec& exec, const LossShape& shape, const T* logits_rv,
                     const std::int32_t* target_r, const Acc<T>* lse_r, const Acc<T>* dlse_r,
                     const Acc<T>* dpicked_r, T* dlogits_rv)
{
    using A = Acc<T>;
    const i64 vocab = shape.vocab, offset = shape.v_offset;
    const auto share = static_cast<A>(shape.target_share), every = static_cast<A>(shape.every_share);
    const bool smooth = share != A(1) || every != A(0);
    for_rows<T>(
        exec, "xent_stats_grad", shape.rows, vocab, KOKKOS_LAMBDA(const Row& row, i64 r) {
            const T* logits = logits_rv + r * vocab;
            T* dlogits = dlogits_rv + r * vocab;
            const A slope = dlse_r[r], lse = lse_r[r] == -A(INFINITY) ? A(0) : lse_r[r];
            const i64 target = target_r[r] < 0 ? -1 : target_r[r] - offset;
            const bool here = target >= 0 && target < vocab;
            const A logit = here ? A(logits[target]) : A(0);
            const A spread = target_r[r] < 0 ? A(0) : every * dpicked_r[r];
            row.sync(); // read before it is overwritten
            row.map(
                vocab, [=](A v) { return slope * fast_exp(v - lse) + spread; }, dlogits, logits);
            row.sync();
            if (here)
                row.single([=] {
                    const A own = smooth ? share * dpicked_r[r] + spread : dpicked_r[r];
                    dlogits[target] = T(slope * fast_exp(logit - lse) + own);
                });
        });
}

template <class Real>
void token_loss(const Exec& exec, i64 rows, double z, const Real* lse_r, const Real* picked_r,
                const std::int32_t* target_r, Real* loss_r)
{
    const auto weight = static_cast<Real>(z);
    for_each_index(
        exec, "token_loss", rows, KOKKOS_LAMBDA(i64 r) {
            const Real lse = lse_r[r], loss = lse - picked_r[r];
            loss_r[r] = target_r[r] < 0 ? Real(0) : weight == 0 ? loss : loss + weight * lse * lse;
        });
}

template <class Real>
void token_loss_grad(const Exec& exec, i64 rows, double z, const Real* dloss_r, const std::int32_t* target_r,
                     const Real* lse_r, Real* dlse_r, Real* dpicked_r)
{
    TRV_CHECK(z == 0 || lse_r, "the gradient of a z-loss reads lse");
    const auto twice = static_cast<Real>(2 * z);
    for_each_index(
        exec, "token_loss_grad", rows, KOKKOS_LAMBDA(i64 r) {
            const Real slope = target_r[r] < 0 ? Real(0) : dloss_r[r];
            dlse_r[r] = twice == 0 || target_r[r] < 0 ? slope : slope * (1 + twice * lse_r[r]);
            dpicked_r[r] = -slope;
        });
}

template <class Real>
void sum_into(const Exec& exec, i64 n, const Real* x, double* acc, bool overwrite)
{
    for_rows<Real>(
        exec, "sum_into", 1, n, KOKKOS_LAMBDA(const Row& row, i64) {
            const double sum = row.sum<double>(
                n, [](Real v) { return static_cast<double>(v); }, x);
            row.single([=] { *acc = overwrite ? sum : *acc + sum; });
        });
}

void count_valid(const Exec& exec, i64 n, const std::int32_t* target, double* acc, bool overwrite)
{
    for_rows<std::int32_t>(
        exec, "count_valid", 1, n, KOKKOS_LAMBDA(const Row& row, i64) {
            const double sum = row.sum<double>(
                n, [](std::int32_t t) { return t >= 0 ? 1.0 : 0.0; }, target);
            row.single([=] { *acc = overwrite ? sum : *acc + sum; });
        });
}

TRV_FOR_STORAGE(xent_stats)
TRV_FOR_STORAGE(xent_stats_grad)
TRV_FOR_REAL(token_loss)
TRV_FOR_REAL(token_loss_grad)
TRV_FOR_REAL(sum_into)

} // namespace trivium::kernels
