#pragma once
// Tensors on the test bed whose numbers the host can compute without storing them, because they repeat a
// block.
#include "test_bed.hpp"

namespace trivium {

/// `sets` tensors of n elements, used in turn so that no cache holds them. At first NaN everywhere.
template <class T>
class Array {
public:
    Array(const TestBed& bed, i64 n, int sets);

    T* get(int set = 0) const { return static_cast<T*>(memory_.get()) + set * stride_; }
    i64 size() const { return n_; }

    /// Normal numbers times `scale`, plus `centre`, rounded to T; different for each `name`.
    Array&& random(const char* name, double scale = 1, double centre = 0) &&;
    /// The same numbers in each set.
    Array&& of(const std::vector<T>& values) &&;

    /// Element i of the first set, as it was filled.
    double at(i64 i) const
    {
        return static_cast<double>(known_[static_cast<std::size_t>(i % static_cast<i64>(known_.size()))]);
    }
    /// The largest magnitude of the first set, as it was filled.
    double largest() const;
    /// [first, first + count) of the filled content, and of the current content, in the first set.
    std::vector<double> filled(i64 first, i64 count) const;
    std::vector<double> read(i64 first, i64 count) const;

private:
    const TestBed* bed_;
    i64 n_, stride_;
    int sets_;
    std::vector<T> known_;
    std::shared_ptr<void> memory_;
};

/// n tokens below `vocab`; every eighth is the same, like a frequent token.
std::vector<std::int32_t> random_tokens(i64 n, i64 vocab);

} // namespace trivium
