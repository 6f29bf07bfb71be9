#include "array.hpp"

#include "base/bf16.hpp"
#include "base/rng.hpp"

#include <algorithm>
#include <cmath>

namespace trivium {

namespace {

/// Not a multiple of any tensor's width, so that rows differ; whole cache lines, so that copies are fast.
constexpr i64 period = (1 << 20) - 256;

const std::vector<float>& normal_numbers()
{
    static const std::vector<float> numbers = [] {
        const RandomStream random(1, "perf_device");
        std::vector<float> result;
        for (i64 pair = 0; pair < period / 2; ++pair)
            for (const double x : random.normal_pair(static_cast<u64>(pair)))
                result.push_back(static_cast<float>(x));
        return result;
    }();
    return numbers;
}

} // namespace

template <class T>
Array<T>::Array(const TestBed& bed, i64 n, int sets)
    : bed_(&bed), n_(n), stride_((n + 255) / 256 * 256), sets_(sets),
      memory_(bed.allocate(stride_ * sets * static_cast<Bytes>(sizeof(T))))
{
}

template <class T>
Array<T>&& Array<T>::random(const char* name, double scale, double centre) &&
{
    const std::vector<float>& numbers = normal_numbers();
    const i64 total = stride_ * sets_,
              from = static_cast<i64>(RandomStream(2, name).bits_at(0) % static_cast<u64>(period));
    known_.resize(static_cast<std::size_t>(std::min(period, total)));
    for (i64 i = 0; i < static_cast<i64>(known_.size()); ++i)
        known_[static_cast<std::size_t>(i)] =
            T(static_cast<float>(scale * numbers[static_cast<std::size_t>((from + i) % period)] + centre));
    bed_->write(get(), known_.data(), static_cast<Bytes>(known_.size() * sizeof(T)));
    for (i64 there = static_cast<i64>(known_.size()); there < total; there *= 2)
        bed_->copy(get() + there, get(), std::min(there, total - there) * static_cast<Bytes>(sizeof(T)));
    return std::move(*this);
}

template <class T>
Array<T>&& Array<T>::of(const std::vector<T>& values) &&
{
    known_ = values;
    for (int set = 0; set < sets_; ++set)
        bed_->write(get(set), values.data(), n_ * static_cast<Bytes>(sizeof(T)));
    return std::move(*this);
}

template <class T>
double Array<T>::largest() const
{
    double result = 0;
    for (i64 i = 0; i < std::min(n_, static_cast<i64>(known_.size())); ++i)
        result = std::max(result, std::abs(at(i)));
    return result;
}

template <class T>
std::vector<double> Array<T>::filled(i64 first, i64 count) const
{
    std::vector<double> result(static_cast<std::size_t>(count));
    for (i64 i = 0; i < count; ++i)
        result[static_cast<std::size_t>(i)] = at(first + i);
    return result;
}

template <class T>
std::vector<double> Array<T>::read(i64 first, i64 count) const
{
    std::vector<T> values(static_cast<std::size_t>(count));
    bed_->read(values.data(), get() + first, count * static_cast<Bytes>(sizeof(T)));
    return {values.begin(), values.end()};
}

template class Array<bf16>;
template class Array<float>;
template class Array<double>;
template class Array<std::int32_t>;

std::vector<std::int32_t> random_tokens(i64 n, i64 vocab)
{
    const RandomStream random(3, "tokens");
    std::vector<std::int32_t> tokens;
    for (i64 i = 0; i < n; ++i)
        tokens.push_back(static_cast<std::int32_t>(
            i % 8 == 0 ? vocab / 3
                       : static_cast<i64>(random.bits_at(static_cast<u64>(i)) % static_cast<u64>(vocab))));
    return tokens;
}

} // namespace trivium
