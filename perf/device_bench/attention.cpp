// Causal attention, forward and backward, at the shapes of training.
#include "kernels/attention.hpp"
#include "bench.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace trivium {

using namespace kernels;
using Doubles = std::vector<double>;

namespace {

struct AttentionArrays {
    AttentionArrays(const Bench& bench, const Sizes& z, int sets)
        : q(queries(bench, z, sets).random("q")), dout(queries(bench, z, sets).random("dout")),
          k(keys(bench, z, sets).random("k")), v(keys(bench, z, sets).random("v")),
          o(queries(bench, z, sets)), dq(queries(bench, z, sets)), dk(keys(bench, z, sets)),
          dv(keys(bench, z, sets)), lse(bench.bed, z.tokens() * z.kv_heads * z.q_per_kv, sets)
    {
    }
    Array<bf16> q, dout, k, v, o, dq, dk, dv;
    Array<float> lse;

private:
    static Array<bf16> queries(const Bench& bench, const Sizes& z, int sets)
    {
        return {bench.bed, z.tokens() * z.kv_heads * z.q_per_kv * z.head_dim, sets};
    }
    static Array<bf16> keys(const Bench& bench, const Sizes& z, int sets)
    {
        return {bench.bed, z.tokens() * z.kv_heads * z.head_dim, sets};
    }
};

/// Offsets of one query or key; see kernels/attention.hpp.
struct Places {
    Sizes z;
    i64 query(i64 b, i64 s, i64 g, i64 r) const
    {
        return (((b * z.seq + s) * z.kv_heads + g) * z.q_per_kv + r) * z.head_dim;
    }
    i64 key(i64 b, i64 t, i64 g) const { return ((b * z.seq + t) * z.kv_heads + g) * z.head_dim; }
    i64 lse(i64 b, i64 s, i64 g, i64 r) const { return ((b * z.kv_heads + g) * z.q_per_kv + r) * z.seq + s; }
};

double dot(const double* a, const double* b, i64 n)
{
    double sum = 0;
    for (i64 i = 0; i < n; ++i)
        sum += a[i] * b[i];
    return sum;
}

/// Row by row, because early queries see few keys and have larger results.
class RowErrors {
public:
    void add(const Doubles& got, const Doubles& want)
    {
        Errors row;
        row.add(got, want);
        largest_ = std::max(largest_, row.largest());
    }
    double largest() const { return largest_; }

private:
    double largest_ = 0;
};

/// Some queries, in double from the start.
double forward_error(const Bench& bench, const Sizes& z, const AttentionArrays& a)
{
    const Places at{z};
    const i64 e = z.head_dim;
    const double scale = 1 / std::sqrt(static_cast<double>(e));
    RowErrors o_errors;
    Errors lse_errors;
    for (const i64 place : bench.sample(z.tokens() * z.kv_heads * z.q_per_kv, 24)) {
        const i64 r = place % z.q_per_kv, g = place / z.q_per_kv % z.kv_heads,
                  token = place / z.q_per_kv / z.kv_heads;
        const i64 b = token / z.seq, s = token % z.seq;
        const Doubles q = a.q.filled(at.query(b, s, g, r), e);
        Doubles score, o(static_cast<std::size_t>(e));
        for (i64 t = 0; t <= s; ++t)
            score.push_back(scale * dot(q.data(), a.k.filled(at.key(b, t, g), e).data(), e));
        const double top = *std::max_element(score.begin(), score.end());
        double total = 0;
        for (const double x : score)
            total += std::exp(x - top);
        const double lse = top + std::log(total);
        for (i64 t = 0; t <= s; ++t)
            for (i64 i = 0; i < e; ++i)
                o[static_cast<std::size_t>(i)] +=
                    std::exp(score[static_cast<std::size_t>(t)] - lse) * a.v.at(at.key(b, t, g) + i);
        o_errors.add(a.o.read(at.query(b, s, g, r), e), o);
        lse_errors.add(a.lse.read(at.lse(b, s, g, r), 1)[0], lse);
    }
    return std::max(o_errors.largest(), lse_errors.largest() * tolerance_bf16 / 1e-4);
}

/// Some queries' and some keys' gradients, from the forward call's own o and lse.
double backward_error(const Bench& bench, const Sizes& z, const AttentionArrays& a)
{
    const Places at{z};
    const i64 e = z.head_dim;
    const double scale = 1 / std::sqrt(static_cast<double>(e));
    RowErrors errors;
    for (const i64 group : bench.sample(z.batch * z.kv_heads, 2)) {
        const i64 b = group / z.kv_heads, g = group % z.kv_heads;
        const i64 from = at.query(b, 0, 0, 0), per_token = z.kv_heads * z.q_per_kv * e;
        const Doubles o = a.o.read(from, z.seq * per_token),
                      lse = a.lse.read(at.lse(b, 0, g, 0), z.q_per_kv * z.seq);
        // p and its gradient times the scale, of a query and a key.
        const auto slopes = [&](i64 s, i64 r, i64 t, const Doubles& q, const Doubles& dout) {
            const double p = std::exp(scale * dot(q.data(), a.k.filled(at.key(b, t, g), e).data(), e) -
                                      lse[static_cast<std::size_t>(r * z.seq + s)]);
            const double mean = dot(dout.data(), o.data() + (at.query(b, s, g, r) - from), e);
            return std::pair(p,
                             scale * p * (dot(dout.data(), a.v.filled(at.key(b, t, g), e).data(), e) - mean));
        };
        for (const i64 earlier : bench.sample(z.seq - 1, 5)) {
            const i64 s = earlier + 1; // the first query's gradient is 0
            const i64 r = s % z.q_per_kv, row = at.query(b, s, g, r);
            const Doubles q = a.q.filled(row, e), dout = a.dout.filled(row, e);
            Doubles dq(q.size());
            for (i64 t = 0; t <= s; ++t) {
                const double ds = slopes(s, r, t, q, dout).second;
                for (i64 i = 0; i < e; ++i)
                    dq[static_cast<std::size_t>(i)] += ds * a.k.at(at.key(b, t, g) + i);
            }
            errors.add(a.dq.read(row, e), dq);
        }
        for (const i64 t : bench.sample(z.seq, 4)) {
            Doubles dk(static_cast<std::size_t>(e)), dv(dk);
            for (i64 s = t; s < z.seq; ++s)
                for (i64 r = 0; r < z.q_per_kv; ++r) {
                    const i64 row = at.query(b, s, g, r);
                    const Doubles q = a.q.filled(row, e), dout = a.dout.filled(row, e);
                    const auto [p, ds] = slopes(s, r, t, q, dout);
                    for (std::size_t i = 0; i < q.size(); ++i) {
                        dk[i] += ds * q[i];
                        dv[i] += p * dout[i];
                    }
                }
            errors.add(a.dk.read(at.key(b, t, g), e), dk);
            errors.add(a.dv.read(at.key(b, t, g), e), dv);
        }
    }
    return errors.largest();
}

} // namespace

namespace {

/// The scratch of GPUs in machine files (plan/machine.cpp).
constexpr Bytes scratch_of_gpus = Bytes{576} << 20;

/// By cuDNN where it applies, unless `cudnn` is false.
void bench_attention_by(Bench& bench, const Sizes& z, bool cudnn, bool deterministic, const char* by,
                        Bytes scratch_bytes = scratch_of_gpus)
{
    const AttentionShape shape{z.batch,    z.seq, z.seq, z.kv_heads,   z.q_per_kv,
                               z.head_dim, 0,     cudnn, deterministic};
    const double heads = static_cast<double>(z.batch * z.kv_heads * z.q_per_kv),
                 seq = static_cast<double>(z.seq);
    const double flops =
        2 * heads * seq * (seq + 1) * static_cast<double>(z.head_dim); // scores and sums, the causal half
    const double queries = 2.0 * heads * seq * static_cast<double>(z.head_dim),
                 keys = queries / static_cast<double>(z.q_per_kv);
    const double bytes = 2 * queries + 2 * keys;
    const AttentionArrays a(bench, z, bench.sets(bytes));
    const int threads = bench.bed.exec().threads;
    const Bytes size =
        std::max({attention_scratch<bf16>(shape, threads), attention_grad_scratch<bf16>(shape, threads),
                  bench.tiny() ? 0 : scratch_bytes});
    const std::shared_ptr<void> memory = bench.bed.allocate(size);
    const Scratch scratch{memory.get(), size};
    const std::string at =
        fmt::format(" {}x{}x{}/{}x{}{}", z.batch, z.seq, z.kv_heads * z.q_per_kv, z.kv_heads, z.head_dim, by);
    bench.measure({"attention" + at, bytes, flops, tolerance_bf16,
                   [&](const Exec& e, int s) {
                       attention<bf16>(e, shape, a.q.get(s), a.k.get(s), a.v.get(s), nullptr, a.o.get(s),
                                       a.lse.get(s), scratch);
                   },
                   [&] { return forward_error(bench, z, a); }});
    // For every set, because there may have been fewer forward calls than sets.
    for (int s = 0; s < bench.sets(bytes); ++s)
        attention<bf16>(bench.bed.exec(), shape, a.q.get(s), a.k.get(s), a.v.get(s), nullptr, a.o.get(s),
                        a.lse.get(s), scratch);
    bench.measure({"attention_grad" + at, bytes, 2.5 * flops, 2.5 * tolerance_bf16,
                   [&](const Exec& e, int s) {
                       attention_grad<bf16>(e, shape,
                                            {a.dout.get(s), a.q.get(s), a.k.get(s), a.v.get(s), a.o.get(s),
                                             a.lse.get(s), a.dq.get(s), a.dk.get(s), a.dv.get(s)},
                                            scratch);
                   },
                   [&] { return backward_error(bench, z, a); }});
}

} // namespace

void bench_attention(Bench& bench, const Sizes& z)
{
    bench_attention_by(bench, z, true, true, "");
    bench_attention_by(bench, z, true, true, " 4 GiB of scratch", bench.tiny() ? 0 : Bytes{4} << 30);
    bench_attention_by(bench, z, true, false, " any order");
    bench_attention_by(bench, z, false, true, " own");
}

} // namespace trivium
