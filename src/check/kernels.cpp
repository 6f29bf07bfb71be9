#include "check/kernels.hpp"

#include "base/check.hpp"
#include "base/rng.hpp"
#include "kernels/attention.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/gemm.hpp"
#include "kernels/loss.hpp"
#include "kernels/norm.hpp"
#include "kernels/optimizer.hpp"
#include "runtime/arena.hpp"

#include <algorithm>
#include <cmath>

namespace trivium {

namespace {

using Numbers = std::vector<double>;

/// Memory where the build computes (host or device), and the kernels' execution space.
class Bench {
public:
    explicit Bench(int threads) : threads_(threads), arena_(Bytes{64} << 20), stream_(threads) {}
    const kernels::Exec& exec() const { return stream_.exec(); }
    int threads() const { return threads_; }
    void clear() { used_ = 0; }

    template <class T>
    T* room(i64 count)
    {
        std::byte* at = arena_.at(used_);
        used_ += round_up(count * static_cast<Bytes>(sizeof(T)), 256);
        TRV_CHECK(used_ <= arena_.size(), "the kernels of a check need ", used_, " bytes");
        return reinterpret_cast<T*>(at);
    }
    /// Copies `numbers` as T; rounds `numbers` to what the kernel gets.
    template <class T>
    T* put(Numbers& numbers)
    {
        T* at = room<T>(static_cast<i64>(numbers.size()));
        HostWindow window = window_of(at, numbers.size());
        T* to = reinterpret_cast<T*>(window.data());
        for (std::size_t i = 0; i < numbers.size(); ++i) {
            to[i] = T(static_cast<kernels::Acc<T>>(numbers[i]));
            numbers[i] = static_cast<double>(to[i]);
        }
        window.push();
        return at;
    }
    template <class T>
    Numbers get(T* at, i64 count)
    {
        stream_.wait();
        HostWindow window = window_of(at, static_cast<std::size_t>(count));
        window.pull();
        const T* from = reinterpret_cast<const T*>(window.data());
        return Numbers(from, from + count);
    }
    kernels::Scratch scratch(Bytes bytes) { return {room<std::byte>(bytes), bytes}; }

private:
    template <class T>
    HostWindow window_of(T* at, std::size_t count) const
    {
        return {arena_, reinterpret_cast<std::byte*>(at) - arena_.at(0),
                static_cast<Bytes>(count * sizeof(T))};
    }

    int threads_;
    Arena arena_;
    CheckStream stream_;
    Bytes used_ = 0;
};

/// Random numbers in [-1, 1), by name.
Numbers random_numbers(std::uint64_t seed, const std::string& name, i64 count)
{
    const RandomStream stream(seed, name);
    Numbers all(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < all.size(); ++i)
        all[i] = 2 * stream.uniform_at(i) - 1;
    return all;
}

template <class In, class Out>
KernelResult product(Bench& bench, std::uint64_t seed, const std::string& name, bool transpose_a,
                     bool transpose_b)
{
    const i64 m = 136, n = 120, k = 328;
    kernels::ProductShape shape;
    shape.m = m;
    shape.n = n;
    shape.k = k;
    shape.transpose_a = transpose_a;
    shape.transpose_b = transpose_b;
    shape.in = dtype_of<In>;
    shape.out = dtype_of<Out>;
    Numbers a = random_numbers(seed, "a", m * k), b = random_numbers(seed, "b", k * n);
    const In *pa = bench.put<In>(a), *pb = bench.put<In>(b);
    Out* pc = bench.room<Out>(m * n);
    const kernels::Product made(shape, bench.threads());
    made.run(bench.exec(), pa, pb, pc, true, bench.scratch(made.scratch_bytes()));
    Numbers expected(static_cast<std::size_t>(m * n));
    for (i64 i = 0; i < m; ++i)
        for (i64 j = 0; j < n; ++j)
            for (i64 l = 0; l < k; ++l)
                expected[static_cast<std::size_t>(i * n + j)] +=
                    a[static_cast<std::size_t>(transpose_a ? l * m + i : i * k + l)] *
                    b[static_cast<std::size_t>(transpose_b ? j * k + l : l * n + j)];
    return {"product " + name, bench.get(pc, m * n), expected,
            std::is_same_v<Out, bf16>     ? 1e-2
            : std::is_same_v<Out, double> ? 1e-13
                                          : 1e-5};
}

template <class T>
KernelResult attention(Bench& bench, std::uint64_t seed, const std::string& name, double tolerance)
{
    kernels::AttentionShape shape;
    shape.batch = 2;
    shape.q_len = shape.kv_len = 72;
    shape.kv_heads = 2;
    shape.q_per_kv = 2;
    shape.head_dim = 32;
    const i64 heads = shape.kv_heads * shape.q_per_kv, e = shape.head_dim,
              queries = shape.batch * shape.q_len * heads;
    const i64 keys = shape.batch * shape.kv_len * shape.kv_heads;
    Numbers q = random_numbers(seed, "q", queries * e), k = random_numbers(seed, "k", keys * e),
            v = random_numbers(seed, "v", keys * e);
    const T *pq = bench.put<T>(q), *pk = bench.put<T>(k), *pv = bench.put<T>(v);
    T* po = bench.room<T>(queries * e);
    auto* lse = bench.room<kernels::Acc<T>>(queries);
    kernels::attention<T>(bench.exec(), shape, pq, pk, pv, nullptr, po, lse,
                          bench.scratch(kernels::attention_scratch<T>(shape, bench.threads())));
    Numbers expected(q.size());
    for (i64 row = 0; row < queries; ++row) {
        const i64 head = row % heads, s = row / heads % shape.q_len, b = row / heads / shape.q_len;
        const auto key = [&](i64 t) {
            return ((b * shape.kv_len + t) * shape.kv_heads + head / shape.q_per_kv) * e;
        };
        Numbers weight;
        double total = 0;
        for (i64 t = 0; t <= s; ++t) {
            double score = 0;
            for (i64 i = 0; i < e; ++i)
                score += q[static_cast<std::size_t>(row * e + i)] * k[static_cast<std::size_t>(key(t) + i)];
            weight.push_back(std::exp(score / std::sqrt(static_cast<double>(e))));
            total += weight.back();
        }
        for (i64 t = 0; t <= s; ++t)
            for (i64 i = 0; i < e; ++i)
                expected[static_cast<std::size_t>(row * e + i)] +=
                    weight[static_cast<std::size_t>(t)] / total * v[static_cast<std::size_t>(key(t) + i)];
    }
    return {"attention " + name, bench.get(po, queries * e), expected, tolerance};
}

constexpr i64 rows = 96, columns = 200;

KernelResult rms_norm(Bench& bench, std::uint64_t seed)
{
    Numbers x = random_numbers(seed, "x", rows * columns), w = random_numbers(seed, "w", columns);
    const float *px = bench.put<float>(x), *pw = bench.put<float>(w);
    float *py = bench.room<float>(rows * columns), *rstd = bench.room<float>(rows);
    kernels::NormShape shape;
    shape.rows = rows;
    shape.dim = columns;
    kernels::rms_norm<float>(bench.exec(), shape, px, pw, py, rstd);
    Numbers expected(x.size());
    for (std::size_t r = 0; r < rows; ++r) {
        double squares = 0;
        for (std::size_t i = 0; i < columns; ++i)
            squares += x[r * columns + i] * x[r * columns + i];
        for (std::size_t i = 0; i < columns; ++i)
            expected[r * columns + i] = x[r * columns + i] / std::sqrt(squares / columns + shape.eps) * w[i];
    }
    return {"rms_norm f32", bench.get(py, rows * columns), expected, 1e-5};
}

KernelResult swiglu(Bench& bench, std::uint64_t seed)
{
    constexpr i64 n = rows * columns;
    Numbers gate = random_numbers(seed, "gate", n), up = random_numbers(seed, "up", n);
    const float *pg = bench.put<float>(gate), *pu = bench.put<float>(up);
    float* py = bench.room<float>(n);
    kernels::swiglu<float>(bench.exec(), 1, n, {pg, n}, {pu, n}, {py, n});
    Numbers expected(gate.size());
    for (std::size_t i = 0; i < gate.size(); ++i)
        expected[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
    return {"swiglu f32", bench.get(py, n), expected, 1e-5};
}

KernelResult cross_entropy(Bench& bench, std::uint64_t seed)
{
    Numbers logits = random_numbers(seed, "logits", rows * columns),
            targets = random_numbers(seed, "targets", rows);
    for (double& target : targets)
        target = std::floor((target + 1) / 2 * columns);
    const float* px = bench.put<float>(logits);
    const std::int32_t* pt = bench.put<std::int32_t>(targets);
    float *lse = bench.room<float>(rows), *picked = bench.room<float>(rows);
    kernels::xent_stats<float>(bench.exec(), {rows, columns, 0}, px, pt, lse, picked);
    Numbers expected;
    for (std::size_t r = 0; r < rows; ++r) {
        double sum = 0;
        for (std::size_t i = 0; i < columns; ++i)
            sum += std::exp(logits[r * columns + i]);
        expected.push_back(std::log(sum));
    }
    return {"cross entropy f32", bench.get(lse, rows), expected, 1e-5};
}

KernelResult adamw(Bench& bench, std::uint64_t seed)
{
    const i64 n = rows * columns;
    Numbers p = random_numbers(seed, "p", n), m = random_numbers(seed, "m", n),
            v = random_numbers(seed, "v", n), g = random_numbers(seed, "g", n);
    for (double& x : v)
        x = (x + 1) / 2;
    Numbers hyper{0.1, 0.9, 0.95, 1e-8, 0.2, 0.1}, factor{0.5};
    kernels::AdamwShard<float> shard{
        bench.put<float>(p), bench.put<float>(m), bench.put<float>(v), bench.put<float>(g), n, 0.1};
    const double *ph = bench.put<double>(hyper), *pf = bench.put<double>(factor);
    kernels::adamw<float, float>(bench.exec(), {&shard, 1}, ph, pf);
    Numbers expected;
    for (std::size_t i = 0; i < p.size(); ++i) {
        const double grad = factor[0] * g[i], first = hyper[1] * m[i] + (1 - hyper[1]) * grad,
                     second = hyper[2] * v[i] + (1 - hyper[2]) * grad * grad;
        expected.push_back(
            p[i] - hyper[0] * (first / hyper[4] / (std::sqrt(second / hyper[5]) + hyper[3]) + 0.1 * p[i]));
    }
    return {"adamw f32", bench.get(shard.p, n), expected, 1e-5};
}

KernelResult sum_squares(Bench& bench, std::uint64_t seed)
{
    const i64 n = 5 * 16384 + 11;
    Numbers x = random_numbers(seed, "squares", n);
    const float* px = bench.put<float>(x);
    double* out = bench.room<double>(1);
    const kernels::SquaresOf<float> squares{px, n, out};
    kernels::sum_squares<float>(bench.exec(), {&squares, 1}, bench.scratch(kernels::sum_squares_scratch(n)));
    double expected = 0;
    for (const double value : x)
        expected += value * value;
    return {"sum_squares f32", bench.get(out, 1), {expected}, 1e-12};
}

} // namespace

double KernelResult::error() const
{
    double largest = 0, magnitude = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        const double difference = i < got.size() ? std::abs(got[i] - expected[i]) : INFINITY;
        largest = std::isfinite(difference) ? std::max(largest, difference) : INFINITY;
        magnitude = std::max(magnitude, std::abs(expected[i]));
    }
    return largest / magnitude;
}

void run_kernels(int threads, std::uint64_t seed, const std::function<void(KernelResult&)>& visit)
{
    Bench bench(threads);
    const auto give = [&](KernelResult result) {
        visit(result);
        bench.clear();
    };
    give(product<float, float>(bench, seed, "f32", false, false));
    give(product<float, float>(bench, seed, "f32 of a transposed matrix", true, false));
    give(product<float, float>(bench, seed, "f32 by a transposed matrix", false, true));
    give(product<bf16, bf16>(bench, seed, "bf16", false, false));
    give(product<bf16, float>(bench, seed, "bf16 to f32", true, false));
    give(product<double, double>(bench, seed, "f64", false, false));
    give(attention<float>(bench, seed, "f32", 1e-5));
    give(attention<bf16>(bench, seed, "bf16", 1e-2));
    give(rms_norm(bench, seed));
    give(swiglu(bench, seed));
    give(cross_entropy(bench, seed));
    give(adamw(bench, seed));
    give(sum_squares(bench, seed));
}

} // namespace trivium
