#include "io/checkpoint/values.hpp"

#include "base/check.hpp"
#include "io/files/damaged.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trivium {

namespace {

constexpr i64 values_at_once = i64{1} << 18;

/// Counts of suspicious values in a tensor.
struct ValueCounts {
    i64 values = 0;
    i64 not_finite = 0; ///< NaN and infinities
    i64 huge = 0;       ///< finite, magnitude above 1e18: the square nearly overflows f32
    i64 subnormal = 0;  ///< not zero, magnitude below the smallest normal number of the type
};

template <class T>
void count(ValueCounts& counts, std::span<const T> values)
{
    constexpr T largest = std::numeric_limits<T>::max(), smallest = std::numeric_limits<T>::min(),
                plausible = static_cast<T>(1e18);
    for (const T value : values) { // without branches, so that it runs at memory bandwidth
        const T magnitude = std::abs(value);
        counts.not_finite += magnitude <= largest ? 0 : 1;
        counts.huge += magnitude > plausible && magnitude <= largest ? 1 : 0;
        counts.subnormal += magnitude > 0 && magnitude < smallest ? 1 : 0;
    }
    counts.values += static_cast<i64>(values.size());
}

template <class T>
ValueCounts count_tensor(const CheckpointReader& checkpoint, const CheckpointReader::Entry& entry)
{
    ValueCounts counts;
    std::vector<T> part;
    const i64 all = element_count(entry.shape);
    for (i64 begin = 0; begin < all; begin += values_at_once) {
        part.resize(static_cast<std::size_t>(std::min(values_at_once, all - begin)));
        checkpoint.read(entry.name, begin, static_cast<i64>(part.size()), entry.type, part.data());
        count<T>(counts, part);
    }
    return counts;
}

std::optional<ValueFault> value_fault(const std::string& name, const ValueCounts& counts)
{
    const auto fault = [&](i64 count, const char* are, bool not_finite) {
        return ValueFault{name, str(count, " of ", counts.values, " values ", are), not_finite};
    };
    if (counts.not_finite > 0)
        return fault(counts.not_finite, "are not finite", true);
    if (counts.huge > 0)
        return fault(counts.huge, "are larger than 1e18", false);
    if (counts.subnormal > counts.values / 100 && name.starts_with("param/"))
        return fault(counts.subnormal, "are subnormal numbers", false);
    return std::nullopt;
}

} // namespace

std::vector<ValueFault> find_value_faults(const CheckpointReader& checkpoint)
{
    std::vector<ValueFault> faults;
    for (const CheckpointReader::Entry& entry : checkpoint.tensors())
        if (const auto fault =
                value_fault(entry.name, entry.type == DType::f32 ? count_tensor<float>(checkpoint, entry)
                                                                 : count_tensor<double>(checkpoint, entry)))
            faults.push_back(*fault);
    return faults;
}

void require_finite(const CheckpointReader& checkpoint, const TensorPiece& piece)
{
    ValueCounts counts;
    const auto size = static_cast<std::size_t>(piece.count());
    if (piece.type == DType::f32)
        count<float>(counts, {static_cast<const float*>(piece.data), size});
    else
        count<double>(counts, {static_cast<const double*>(piece.data), size});
    if (counts.not_finite > 0)
        throw DamagedCheckpoint(checkpoint.path(),
                                str("tensor '", piece.name, "' has ", counts.not_finite,
                                    counts.not_finite == 1 ? " value that is" : " values that are",
                                    " not finite"));
}

} // namespace trivium
