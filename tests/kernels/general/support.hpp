#pragma once
// Shared by the tests of the general kernels: draws, loops over indices, tensors of small integers, which are
// exact in every type.
#include "../support.hpp"

#define TRV_TENSOR_TYPES double, float, trivium::bf16, std::int32_t

namespace trivium::kernels {

using Index = std::vector<i64>;

/// Repeatable draws of integers.
class Draw {
public:
    explicit Draw(const std::string& name) : stream_(44, name) {}
    /// An integer in [low, high].
    i64 operator()(i64 low, i64 high)
    {
        return low + static_cast<i64>(stream_.bits_at(next_++) % static_cast<u64>(high - low + 1));
    }
    Index list(i64 count, i64 low, i64 high)
    {
        Index result;
        for (i64 i = 0; i < count; ++i)
            result.push_back((*this)(low, high));
        return result;
    }
    template <class T>
    std::vector<T> tensor(i64 n, i64 low, i64 high)
    {
        std::vector<T> result;
        for (i64 i = 0; i < n; ++i)
            result.push_back(T(static_cast<Acc<T>>((*this)(low, high))));
        return result;
    }

private:
    RandomStream stream_;
    u64 next_ = 0;
};

inline std::size_t size(i64 n) { return static_cast<std::size_t>(n); }

inline i64 volume(const Index& extents)
{
    i64 product = 1;
    for (const i64 n : extents)
        product *= n;
    return product;
}

/// Row-major.
inline std::size_t at(const Index& extents, const Index& index)
{
    i64 offset = 0;
    for (std::size_t d = 0; d < extents.size(); ++d)
        offset = offset * extents[d] + index[d];
    return static_cast<std::size_t>(offset);
}

inline bool inside(const Index& extents, const Index& index)
{
    for (std::size_t d = 0; d < extents.size(); ++d)
        if (index[d] < 0 || index[d] >= extents[d])
            return false;
    return true;
}

/// f(index) for each index, in row-major order.
template <class F>
void each_index(const Index& extents, F f)
{
    Index index(extents.size(), 0);
    for (i64 left = volume(extents); left > 0; --left) {
        f(static_cast<const Index&>(index));
        for (std::size_t d = extents.size(); d-- > 0;) {
            if (++index[d] < extents[d])
                break;
            index[d] = 0;
        }
    }
}

template <class T>
double number(T value)
{
    return static_cast<double>(static_cast<Acc<T>>(value));
}

/// Requires equal elements.
template <class T>
void require_equal(const std::vector<T>& got, const std::vector<T>& want)
{
    REQUIRE(got.size() == want.size());
    for (std::size_t i = 0; i < want.size(); ++i)
        if (number(got[i]) != number(want[i])) {
            INFO("[" << i << "] of " << want.size() << ": got " << number(got[i]) << ", want "
                     << number(want[i]));
            REQUIRE(false);
        }
}

template <std::size_t n>
void assign(i64 (&to)[n], const Index& from)
{
    for (std::size_t d = 0; d < from.size(); ++d)
        to[d] = from[d];
}

} // namespace trivium::kernels
