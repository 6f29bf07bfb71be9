#include "kernels/optimizer.hpp"

#include "base/check.hpp"
#include "kernels/blocks.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/instantiate.hpp"
#include "kernels/math.hpp"
#include "row_parallel.hpp"

namespace trivium::kernels {

Bytes sum_squares_scratch(i64 n) { return ceil_div(n, block_size) * static_cast<Bytes>(sizeof(double)); }

namespace {

template <class T>
using SquaresBlocks = Blocks<SquaresOf<T>, 64>;

template <class T>
void sum_squares_part(const Exec& exec, const SquaresBlocks<T>& part, double* partial)
{
    for_rows<T>(
        exec, "sum_squares", part.blocks(), block_size, KOKKOS_LAMBDA(const Row& row, i64 block) {
            const auto at = part.place(block);
            const SquaresOf<T>& array = part.item[at.array];
            const T* const x = array.x + at.begin;
            const double sum =
                array.before == nullptr
                    ? row.sum<double>(
                          at.size, [](Acc<T> v) { return static_cast<double>(v) * static_cast<double>(v); },
                          x)
                    : row.sum<double>(
                          at.size,
                          [](Acc<T> v, Acc<T> w) {
                              const double change = static_cast<double>(v) - static_cast<double>(w);
                              return change * change;
                          },
                          x, array.before + at.begin);
            row.single([=] { partial[block] = sum; });
        });
    for_rows<double>(
        exec, "sum_squares_join", part.count, 1, KOKKOS_LAMBDA(const Row& row, i64 k) {
            const double* from = partial + part.before[k];
            const double total = row.total<double>(blocks_in(part.item[k].n), [=](i64 i) { return from[i]; });
            double* const out = part.item[k].out;
            row.single([=] { *out = total; });
        });
}

} // namespace

template <class T>
void sum_squares(const Exec& exec, std::span<const SquaresOf<T>> arrays, Scratch scratch)
{
    Bytes needed = 0;
    for (const SquaresOf<T>& array : arrays)
        needed += sum_squares_scratch(array.n);
    TRV_CHECK(scratch.size >= needed, "sum_squares of ", arrays.size(), " arrays got ", scratch.size,
              " B, not ", needed);
    auto* partial = static_cast<double*>(scratch.data);
    in_parts<SquaresBlocks<T>>(arrays, [&](const SquaresBlocks<T>& part) {
        sum_squares_part(exec, part, partial);
        partial += part.blocks();
    });
}

void global_norm(const Exec& exec, i64 count, const double* squares, const double* token_count, double clip,
                 double* out)
{
    for_rows<double>(
        exec, "global_norm", 1, count, KOKKOS_LAMBDA(const Row& row, i64) {
            const double total = row.total<double>(count, [=](i64 i) { return squares[i]; });
            row.single([=] {
                const double norm = square_root(total) / *token_count;
                out[0] = norm;
                out[1] = (clip > 0 && norm > clip ? clip / norm : 1.0) / *token_count;
            });
        });
}

namespace {

/// AdamW for one number, with precomputed constants of the step and the shard.
template <class Real>
struct AdamwRule {
    using H = AdamwHyper;
    Real factor, keep1, rest1, keep2, rest2, keep, rate, floor;

    template <class Shard>
    TRV_HOST_DEVICE AdamwRule(const double* hyper, const Shard& shard, double gradient_factor)
        : factor(static_cast<Real>(gradient_factor)), keep1(static_cast<Real>(hyper[H::beta1])),
          rest1(static_cast<Real>(1 - hyper[H::beta1])), keep2(static_cast<Real>(hyper[H::beta2])),
          rest2(static_cast<Real>(1 - hyper[H::beta2])),
          keep(static_cast<Real>(1 - hyper[H::lr] * shard.rate * shard.weight_decay))
    {
        // lr m/c1 / (sqrt(v/c2) + eps) = rate m / (sqrt(v) + floor), one division.
        const double root = square_root(hyper[H::correction2]);
        rate = static_cast<Real>(hyper[H::lr] * shard.rate / hyper[H::correction1] * root);
        floor = static_cast<Real>(hyper[H::eps] * shard.eps * root);
    }

    /// The new p, m and v.
    TRV_HOST_DEVICE Values<Real, 3> operator()(Real p, Real m, Real v, Real g) const
    {
        const Real grad = factor * g;
        const Real mean = keep1 * m + rest1 * grad, square = keep2 * v + rest2 * grad * grad;
        return {{keep * p - rate * mean / (square_root(square) + floor), mean, square}};
    }
};

template <class Real, class Gradient>
using AdamwBlocks = Blocks<AdamwShard<Real, Gradient>, 48>;

template <class Real, class Gradient>
void adamw_part(const Exec& exec, const AdamwBlocks<Real, Gradient>& part, const double* hyper,
                const double* factor)
{
    for_rows<Real>(
        exec, "adamw", part.blocks(), block_size, KOKKOS_LAMBDA(const Row& row, i64 block) {
            const auto at = part.place(block);
            const AdamwShard<Real, Gradient>& shard = part.item[at.array];
            Real *p = shard.p + at.begin, *m = shard.m + at.begin, *v = shard.v + at.begin;
            row.map(at.size, AdamwRule<Real>(hyper, shard, *factor), Targets<Real, 3>{{p, m, v}}, p, m, v,
                    shard.g + at.begin);
        });
}

/// f(row, begin, size) for blocks of n numbers.
template <class Real, class F>
void for_blocks(const Exec& exec, const char* name, i64 n, F f)
{
    for_rows<Real>(
        exec, name, blocks_in(n), block_size, KOKKOS_LAMBDA(const Row& row, i64 block) {
            const i64 begin = block * block_size, rest = n - begin;
            f(row, begin, rest < block_size ? rest : block_size);
        });
}

using StackList = Listed<StackPart, 128>;

void stack_part(const Exec& exec, i64 n, const StackList& part, bool clear, double* y)
{
    for_rows<double>(
        exec, "stack", 1, n, KOKKOS_LAMBDA(const Row& row, i64) {
            if (clear)
                row.each(n, [=](i64 i) { y[i] = 0; });
            row.sync();
            row.each(part.count, [&](i64 i) { y[part.item[i].at] = *part.item[i].x; });
        });
}

} // namespace

template <class Real, class Gradient>
void adamw(const Exec& exec, std::span<const AdamwShard<Real, Gradient>> shards, const double* hyper,
           const double* factor)
{
    in_parts<AdamwBlocks<Real, Gradient>>(
        shards, [&](const AdamwBlocks<Real, Gradient>& part) { adamw_part(exec, part, hyper, factor); });
}

template <class Real, class Gradient>
void nesterov(const Exec& exec, i64 n, double momentum, const double* factor, const Gradient* g, Real* m,
              Real* u)
{
    const auto keep = static_cast<Real>(momentum);
    for_blocks<Real>(
        exec, "nesterov", n, KOKKOS_LAMBDA(const Row& row, i64 at, i64 size) {
            const auto mean = static_cast<Real>(*factor);
            row.map(
                size,
                [=](Real last, Acc<Gradient> gradient) {
                    const Real mine = mean * static_cast<Real>(gradient), now = keep * last + mine;
                    return Values<Real, 2>{{now, mine + keep * now}};
                },
                Targets<Real, 2>{{m + at, u + at}}, m + at, g + at);
        });
}

template <class Real>
void unit_norm(const Exec& exec, i64 count, i64 n, const double* squares, const Real* x, Real* y)
{
    const i64 blocks = blocks_in(n);
    for_rows<Real>(
        exec, "unit_norm", count * blocks, block_size, KOKKOS_LAMBDA(const Row& row, i64 block) {
            const i64 array = block / blocks, begin = block % blocks * block_size, rest = n - begin,
                      at = array * n + begin;
            const double norm = square_root(squares[array]);
            const auto inverse = static_cast<Real>(norm == 0 ? 0 : 1 / norm);
            row.map(
                rest < block_size ? rest : block_size, [=](Real v) { return inverse * v; }, y + at, x + at);
        });
}

template <class Real>
void weighted_sum(const Exec& exec, i64 n, double alpha, const Real* x, double beta, const Real* y, Real* z)
{
    const auto a = static_cast<Real>(alpha), b = static_cast<Real>(beta);
    map(
        exec, "weighted_sum", n, KOKKOS_LAMBDA(Real v, Real w) { return a * v + b * w; }, z, x, y);
}

template <class Real>
void descent(const Exec& exec, i64 n, const double* hyper, double weight_decay, double scale, const Real* x,
             Real* p)
{
    for_blocks<Real>(
        exec, "descent", n, KOKKOS_LAMBDA(const Row& row, i64 at, i64 size) {
            const double lr = hyper[AdamwHyper::lr];
            const auto keep = static_cast<Real>(1 - lr * weight_decay), rate = static_cast<Real>(lr * scale);
            row.map(
                size, [=](Real v, Real direction) { return keep * v - rate * direction; }, p + at, p + at,
                x + at);
        });
}

template <class Real>
void moving_average(const Exec& exec, i64 n, double decay, const double* count, const Real* sum, Real* p)
{
    for_blocks<Real>(
        exec, "moving_average", n, KOKKOS_LAMBDA(const Row& row, i64 at, i64 size) {
            const auto keep = static_cast<Real>(decay), weight = static_cast<Real>((1 - decay) / *count);
            row.map(
                size, [=](Real last, Real total) { return keep * last + weight * total; }, p + at, p + at,
                sum + at);
        });
}

template <class Real>
void balance(const Exec& exec, i64 n, double rate, const Real* counts, Real* p)
{
    for_rows<Real>(
        exec, "balance", 1, n, KOKKOS_LAMBDA(const Row& row, i64) {
            const double mean = row.total<double>(n, [=](i64 i) { return static_cast<double>(counts[i]); }) /
                                static_cast<double>(n);
            const auto step = static_cast<Real>(rate);
            row.map(
                n,
                [=](Real last, Real count) {
                    const auto own = static_cast<double>(count);
                    return own < mean ? last + step : own > mean ? last - step : last;
                },
                p, p, counts);
        });
}

void stack(const Exec& exec, i64 n, std::span<const StackPart> parts, double* y)
{
    for ([[maybe_unused]] const StackPart& part : parts)
        TRV_EXPECT(part.at >= 0 && part.at < n, "a part at ", part.at, " of ", n);
    if (parts.empty())
        return fill(exec, n, 0.0, y);
    bool first = true;
    in_parts<StackList>(parts, [&](const StackList& part) {
        stack_part(exec, n, part, first, y);
        first = false;
    });
}

TRV_FOR_STORAGE(sum_squares)
TRV_KERNEL(adamw<double, double>)
TRV_KERNEL(adamw<float, float>)
TRV_FOR_REAL(adamw, bf16)
TRV_KERNEL(nesterov<double, double>)
TRV_KERNEL(nesterov<float, float>)
TRV_FOR_REAL(nesterov, bf16)
TRV_FOR_REAL(unit_norm)
TRV_FOR_REAL(weighted_sum)
TRV_FOR_REAL(descent)
TRV_FOR_REAL(moving_average)
TRV_FOR_REAL(balance)

} // namespace trivium::kernels
