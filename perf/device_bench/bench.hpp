#pragma once
// One measurement: a kernel is run once and compared with a reference on a sample, then timed.
#include "array.hpp"

#include <string>

namespace trivium {

/// The training sizes of a model, on one device for one microbatch.
struct Sizes {
    const char* name;
    i64 batch, seq, dim, kv_heads, q_per_kv, head_dim, ffn, vocab;

    i64 tokens() const { return batch * seq; }
};
Sizes gpt2_sizes(bool tiny);
Sizes llama_sizes(bool tiny);

/// The error of a result: the largest difference, relative to what is expected plus the root mean square of
/// all of it.
class Errors {
public:
    void add(double got, double want);
    void add(const std::vector<double>& got, const std::vector<double>& want);
    double largest() const;

private:
    std::vector<double> got_, want_;
};

struct Case {
    std::string name;
    double bytes = 0; ///< minimum bytes that a call reads and writes
    double flops = 0; ///< useful operations
    double tolerance = 0;
    std::function<void(const kernels::Exec&, int set)> call;
    /// After one call on set 0.
    std::function<double()> error;
};

inline constexpr double tolerance_bf16 = 2e-2, tolerance_f32 = 1e-5;

class Bench {
public:
    Bench(const TestBed& test_bed, bool tiny, bool json) : bed(test_bed), tiny_(tiny), json_(json) {}

    const TestBed& bed;
    bool tiny() const { return tiny_; }
    /// Number of sets of tensors for a call that uses this many bytes.
    int sets(double bytes) const;
    /// Up to `count` of [0, n): the first, the last, and some between.
    std::vector<i64> sample(i64 n, int count) const;

    /// The ceilings of which the results are fractions: bytes read and written, operations.
    void measure_copy();
    void measure_product(const Case& product);
    /// Prints a row, also for a failure.
    void measure(const Case& test);

    bool passed() const { return passed_; }

private:
    Seconds time(const Case& test, int calls = 0) const;
    void print(const std::string& name, const Case* test, double error, Seconds seconds, double share,
               bool good, const std::string& note);

    bool tiny_, json_, passed_ = true;
    double copied_ = 0, multiplied_ = 0; ///< bytes, operations per second
};

void bench_rows(Bench& bench, const Sizes& sizes);
void bench_tokens(Bench& bench, const Sizes& sizes);
void bench_attention(Bench& bench, const Sizes& sizes);
void bench_products(Bench& bench, const Sizes& sizes);
/// Each algorithm that the library offers for a product.
void bench_algorithms(Bench& bench, const Sizes& sizes);
void bench_optimizer(Bench& bench);
/// The product whose throughput is the ceiling of others.
void bench_ceilings(Bench& bench);

} // namespace trivium
