// Throughput of the main kernels at the sizes of GPT-2 124M: 1024 tokens, width 768, hidden width 3072,
// vocabulary 50257, 12 heads of 64. Each benchmark's argument is the number of threads. GB/s counts the bytes
// that a kernel must move once; GFLOP/s its useful operations (causal attention: half).
//   perf_kernels --benchmark_filter=attention
#include "kernels/attention.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/embedding.hpp"
#include "kernels/gemm.hpp"
#include "kernels/loss.hpp"
#include "kernels/norm.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/rope.hpp"
#include "kernels/rope_table.hpp"
#include "kernels/runtime.hpp"

#include <benchmark/benchmark.h>
#include <cmath>
#include <functional>
#include <new>
#include <string>
#include <vector>

using namespace trivium;
using namespace trivium::kernels;

namespace {

constexpr i64 tokens = 1024, width = 768, hidden = 3072, vocab = 50257, heads = 12, head_dim = 64;

/// An aligned array of smooth values in (-1, 1).
template <class T>
class Buffer {
public:
    explicit Buffer(i64 n, float scale = 1.0f)
        : data_(
              static_cast<T*>(::operator new(static_cast<std::size_t>(n) * sizeof(T), std::align_val_t(64))))
    {
        for (i64 i = 0; i < n; ++i)
            data_[i] = T(scale * static_cast<float>((i * 7919) % 2003 - 1001) / 1001.0f);
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    ~Buffer() { ::operator delete(data_, std::align_val_t(64)); }
    T* get() const { return data_; }

private:
    T* data_;
};

template <class T>
std::string name(const char* kernel)
{
    return std::string(kernel) + (sizeof(T) == 2 ? "/bf16" : sizeof(T) == 4 ? "/f32" : "/f64");
}

/// Runs `call` and reports the throughput of `work`, bytes or operations, as `unit`.
void measure(benchmark::State& state, const char* unit, double work,
             const std::function<void(const Exec&)>& call)
{
    const Exec exec{static_cast<int>(state.range(0))};
    call(exec);
    for (auto _ : state)
        call(exec);
    state.counters[unit] = benchmark::Counter(work * 1e-9, benchmark::Counter::kIsIterationInvariantRate,
                                              benchmark::Counter::kIs1000);
}

using Bench = std::function<void(benchmark::State&)>;
void add_bench(const std::string& label, const Bench& bench)
{
    benchmark::RegisterBenchmark(label.c_str(), [bench](benchmark::State& state) { bench(state); })
        ->Arg(1)
        ->Arg(2)
        ->UseRealTime()
        ->MinTime(0.2)
        ->Unit(benchmark::kMicrosecond);
}

template <class T>
void add_rows()
{
    const double size = sizeof(T), cells = tokens * width;
    add_bench(name<T>("rms_norm"), [=](benchmark::State& state) {
        Buffer<T> x(tokens * width), w(width), y(tokens * width);
        Buffer<Acc<T>> rstd(tokens);
        measure(state, "GB/s", 2 * cells * size, [&](const Exec& e) {
            rms_norm(e, {tokens, width}, x.get(), w.get(), y.get(), rstd.get());
        });
    });
    add_bench(name<T>("rms_norm_grad_x"), [=](benchmark::State& state) {
        Buffer<T> x(tokens * width), w(width), y(tokens * width), dy(tokens * width);
        Buffer<Acc<T>> rstd(tokens);
        measure(state, "GB/s", 3 * cells * size, [&](const Exec& e) {
            rms_norm_grad_x(e, {tokens, width}, dy.get(), x.get(), w.get(), rstd.get(), y.get());
        });
    });
    add_bench(name<T>("rms_norm_grad_w"), [=](benchmark::State& state) {
        Buffer<T> x(tokens * width), dy(tokens * width);
        Buffer<Acc<T>> rstd(tokens), dw(width);
        measure(state, "GB/s", 2 * cells * size, [&](const Exec& e) {
            rms_norm_grad_w(e, {tokens, width}, dy.get(), x.get(), rstd.get(), dw.get(), true);
        });
    });
    add_bench(name<T>("layer_norm"), [=](benchmark::State& state) {
        Buffer<T> x(tokens * width), w(width), b(width), y(tokens * width);
        Buffer<Acc<T>> mean(tokens), rstd(tokens);
        measure(state, "GB/s", 2 * cells * size, [&](const Exec& e) {
            layer_norm(e, {tokens, width}, x.get(), w.get(), b.get(), y.get(), mean.get(), rstd.get());
        });
    });
    add_bench(name<T>("layer_norm_grad_x"), [=](benchmark::State& state) {
        Buffer<T> x(tokens * width), w(width), y(tokens * width), dy(tokens * width);
        Buffer<Acc<T>> mean(tokens), rstd(tokens);
        measure(state, "GB/s", 3 * cells * size, [&](const Exec& e) {
            layer_norm_grad_x(e, {tokens, width}, dy.get(), x.get(), w.get(), mean.get(), rstd.get(),
                              y.get());
        });
    });
    add_bench(name<T>("column_sum"), [=](benchmark::State& state) {
        Buffer<T> x(tokens * hidden);
        Buffer<Acc<T>> sum(hidden);
        measure(state, "GB/s", tokens * hidden * size,
                [&](const Exec& e) { column_sum(e, tokens, hidden, x.get(), sum.get(), true); });
    });
    add_bench(name<T>("rope"), [=](benchmark::State& state) {
        Buffer<T> x(tokens * width);
        std::vector<Acc<T>> table(tokens * head_dim);
        fill_rope_table({}, head_dim / 2, tokens, table.data());
        std::vector<std::int32_t> pos(tokens);
        for (i64 i = 0; i < tokens; ++i)
            pos[i] = static_cast<std::int32_t>(i % 256);
        measure(state, "GB/s", 2 * cells * size, [&](const Exec& e) {
            rope(e, {4, 256, heads, head_dim, head_dim / 2}, x.get(), pos.data(), table.data(), false,
                 x.get());
        });
    });
    add_bench(name<T>("embedding_grad"), [=](benchmark::State& state) {
        Buffer<T> dy(tokens * width);
        Buffer<Acc<T>> table(vocab * width);
        std::vector<std::int32_t> token(tokens);
        for (i64 i = 0; i < tokens; ++i)
            token[i] = static_cast<std::int32_t>(i * i % vocab);
        measure(state, "GB/s", cells * (size + 8), [&](const Exec& e) {
            embedding_grad(e, {tokens, vocab, width, 0}, dy.get(), token.data(), table.get(), false);
        });
    });
}

template <class T>
void add_elements()
{
    const i64 n = tokens * hidden;
    const double bytes = static_cast<double>(n) * sizeof(T);
    add_bench(name<T>("gelu"), [=](benchmark::State& state) {
        Buffer<T> x(n), y(n);
        measure(state, "GB/s", 2 * bytes, [&](const Exec& e) { gelu(e, n, x.get(), y.get()); });
    });
    add_bench(name<T>("gelu_grad"), [=](benchmark::State& state) {
        Buffer<T> x(n), y(n), z(n);
        measure(state, "GB/s", 3 * bytes, [&](const Exec& e) { gelu_grad(e, n, y.get(), x.get(), z.get()); });
    });
    add_bench(name<T>("swiglu"), [=](benchmark::State& state) {
        Buffer<T> x(n), y(n), z(n);
        measure(state, "GB/s", 3 * bytes, [&](const Exec& e) {
            swiglu<T>(e, 1, n, {x.get(), n}, {y.get(), n}, {z.get(), n});
        });
    });
    add_bench(name<T>("swiglu_grad"), [=](benchmark::State& state) {
        Buffer<T> x(n), y(n), z(n), u(n), v(n);
        measure(state, "GB/s", 5 * bytes, [&](const Exec& e) {
            swiglu_grad<T>(e, 1, n, {x.get(), n}, {y.get(), n}, {z.get(), n}, {u.get(), n}, {v.get(), n});
        });
    });
    add_bench(name<T>("add"), [=](benchmark::State& state) {
        Buffer<T> x(n), y(n), z(n);
        measure(state, "GB/s", 3 * bytes,
                [&](const Exec& e) { kernels::add(e, n, x.get(), y.get(), z.get()); });
    });
    add_bench(name<T>("bias_add"), [=](benchmark::State& state) {
        Buffer<T> x(n), b(hidden);
        measure(state, "GB/s", 2 * bytes,
                [&](const Exec& e) { bias_add(e, tokens, hidden, x.get(), b.get(), x.get()); });
    });
    add_bench(name<T>("cast to f32"), [=](benchmark::State& state) {
        Buffer<T> x(n);
        Buffer<float> y(n);
        measure(state, "GB/s", bytes + 4.0 * static_cast<double>(n),
                [&](const Exec& e) { cast(e, n, x.get(), y.get()); });
    });
    add_bench(name<T>("cast to bf16"), [=](benchmark::State& state) {
        Buffer<T> x(n);
        Buffer<bf16> y(n);
        measure(state, "GB/s", bytes + 2.0 * static_cast<double>(n),
                [&](const Exec& e) { cast(e, n, x.get(), y.get()); });
    });
    add_bench(name<T>("xent_stats"), [=](benchmark::State& state) {
        const i64 rows = 512;
        Buffer<T> logits(rows * vocab, 8);
        Buffer<Acc<T>> lse(rows), picked(rows);
        const std::vector<std::int32_t> target(rows, 17);
        measure(state, "GB/s", static_cast<double>(rows * vocab) * sizeof(T), [&](const Exec& e) {
            xent_stats(e, {rows, vocab, 0}, logits.get(), target.data(), lse.get(), picked.get());
        });
    });
    add_bench(name<T>("xent_stats_grad"), [=](benchmark::State& state) {
        const i64 rows = 512;
        Buffer<T> logits(rows * vocab, 8);
        Buffer<Acc<T>> lse(rows, 10), dlse(rows), dpicked(rows);
        const std::vector<std::int32_t> target(rows, 17);
        measure(state, "GB/s", 2.0 * static_cast<double>(rows * vocab) * sizeof(T), [&](const Exec& e) {
            xent_stats_grad(e, {rows, vocab, 0}, logits.get(), target.data(), lse.get(), dlse.get(),
                            dpicked.get(), logits.get());
        });
    });
}

template <class T>
void add_attention(i64 batch, i64 seq)
{
    const AttentionShape shape{batch, seq, seq, heads, 1, head_dim};
    const i64 n = batch * seq * heads * head_dim;
    const double flops = 2.0 * static_cast<double>(batch * heads * seq * seq * head_dim); // causal: half of 4
    const std::string at = " s=" + std::to_string(seq);
    add_bench(name<T>("attention") + at, [=](benchmark::State& state) {
        Buffer<T> q(n), k(n), v(n), o(n);
        Buffer<Acc<T>> lse(batch * heads * seq);
        const Bytes size = attention_scratch<T>(shape, 2);
        Buffer<char> scratch(size);
        measure(state, "GFLOP/s", flops, [&](const Exec& e) {
            attention(e, shape, q.get(), k.get(), v.get(), nullptr, o.get(), lse.get(),
                      {scratch.get(), size});
        });
    });
    add_bench(name<T>("attention_grad") + at, [=](benchmark::State& state) {
        Buffer<T> q(n), k(n), v(n), o(n), dout(n), dq(n), dk(n), dv(n);
        Buffer<Acc<T>> lse(batch * heads * seq);
        const Bytes size = std::max(attention_grad_scratch<T>(shape, 2), attention_scratch<T>(shape, 2));
        Buffer<char> scratch(size);
        attention<T>({2}, shape, q.get(), k.get(), v.get(), nullptr, o.get(), lse.get(),
                     {scratch.get(), size});
        measure(state, "GFLOP/s", 2.5 * flops, [&](const Exec& e) {
            attention_grad<T>(
                e, shape,
                {dout.get(), q.get(), k.get(), v.get(), o.get(), lse.get(), dq.get(), dk.get(), dv.get()},
                {scratch.get(), size});
        });
    });
}

void add_optimizer()
{
    const i64 n = 32 << 20;
    add_bench("adamw/f32", [=](benchmark::State& state) {
        Buffer<float> p(n), m(n), v(n), g(n);
        fill({2}, n, 0.5, v.get());
        const double factor = 1, hyper[AdamwHyper::count] = {1e-4, 0.9, 0.95, 1e-8, 1, 1};
        measure(state, "GB/s", 7.0 * 4 * static_cast<double>(n), [&](const Exec& e) {
            const AdamwShard<float> shard{p.get(), m.get(), v.get(), g.get(), n};
            adamw<float, float>(e, {&shard, 1}, hyper, &factor);
        });
    });
    add_bench("sum_squares/f32", [=](benchmark::State& state) {
        Buffer<float> x(n);
        const Bytes size = sum_squares_scratch(n);
        Buffer<char> scratch(size);
        double out = 0;
        measure(state, "GB/s", 4.0 * static_cast<double>(n), [&](const Exec& e) {
            const SquaresOf<float> array{x.get(), n, &out};
            sum_squares<float>(e, {&array, 1}, {scratch.get(), size});
        });
    });
}

template <class T>
void add_product(i64 m, i64 n, i64 k, bool transpose_a, bool transpose_b)
{
    const std::string label = name<T>("product") + " " + (transpose_a ? "t" : "n") +
                              (transpose_b ? "t" : "n") + " " + std::to_string(m) + "x" + std::to_string(n) +
                              "x" + std::to_string(k);
    add_bench(label, [=](benchmark::State& state) {
        Buffer<T> a(m * k), b(k * n);
        Buffer<Acc<T>> c(m * n);
        const Product product({m, n, k, transpose_a, transpose_b, dtype_of<T>, dtype_of<Acc<T>>},
                              static_cast<int>(state.range(0)));
        Buffer<char> scratch(product.scratch_bytes());
        measure(state, "GFLOP/s", 2.0 * static_cast<double>(m * n * k), [&](const Exec& e) {
            product.run(e, a.get(), b.get(), c.get(), true, {scratch.get(), product.scratch_bytes()});
        });
    });
}

template <class T>
void add_products()
{
    add_product<T>(tokens, width, width, false, false);
    add_product<T>(tokens, 3 * width, width, false, true);
    add_product<T>(tokens, hidden, width, false, true);
    add_product<T>(tokens, width, hidden, false, true);
    add_product<T>(hidden, width, tokens, true, false);
}

} // namespace

int main(int argc, char** argv)
{
    benchmark::Initialize(&argc, argv);
    const Runtime runtime(2);
    add_rows<float>();
    add_rows<bf16>();
    add_elements<float>();
    add_elements<bf16>();
    for (const i64 seq : {256, 1024, 2048})
        add_attention<float>(seq == 256 ? 4 : 1, seq);
    add_attention<bf16>(4, 256);
    add_attention<bf16>(1, 1024);
    add_attention<double>(1, 256);
    add_optimizer();
    add_products<float>();
    add_products<bf16>();
    add_product<double>(512, 512, 512, false, true);
    add_product<float>(tokens, vocab, width, false, true);
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
