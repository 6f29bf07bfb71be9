#pragma once
// Cases of general ops: run by dispatch in every element type, whole and in parts, and compared with
// naive_ops.
#include "naive_ops.hpp"

#include <algorithm>
#include <functional>
#include <random>

namespace trivium::runs {

/// An operand of the tensors' type, or i32 with contents from `low` to `high`.
struct In {
    Shape shape;
    bool index = false;
    i64 low = -4, high = 4;
    std::vector<double> cells{}; ///< instead of random ones
};

struct OpCase {
    std::string name;
    OpKind kind{};
    Attributes attrs{};
    std::vector<In> in{};
    bool real = false; ///< not for i32
};

class Random {
public:
    explicit Random(unsigned seed) : engine_(seed) {}
    i64 from(i64 low, i64 high) { return std::uniform_int_distribution<i64>(low, high)(engine_); }
    std::vector<i64> list(std::size_t n, i64 low, i64 high)
    {
        std::vector<i64> all(n);
        for (i64& number : all)
            number = from(low, high);
        return all;
    }
    /// `count` of the numbers below n, in random order.
    std::vector<i64> some(i64 n, i64 count)
    {
        std::vector<i64> all;
        for (i64 i = 0; i < n; ++i)
            all.push_back(i);
        std::shuffle(all.begin(), all.end(), engine_);
        all.resize(static_cast<std::size_t>(count));
        return all;
    }

private:
    std::mt19937 engine_;
};

/// Runs the case in every type. Returns false if the attributes do not fit. `tolerance`: relative, ten times
/// as much for bf16.
bool check(const OpCase& c, unsigned seed, double tolerance = 0, bool in_parts = true);

/// Each must fit.
void check_all(const std::vector<OpCase>& cases, double tolerance = 0);

/// Random cases until `count` of them fit.
void check_random(int count, const std::function<OpCase(Random&)>& make);

Shape random_shape(Random& random, std::size_t rank, i64 most = 5);

} // namespace trivium::runs
