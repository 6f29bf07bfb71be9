#pragma once
// The shardings of one op's tensors by factor instead of by dimension, in which form propagation compares and
// extends them (Shardy: "propagate shardings along factors").
#include "ir/factors.hpp"
#include "passes/sharding/axis_parts.hpp"

namespace trivium {

/// The sharding of a value during propagation.
struct ValueSharding {
    struct Dim {
        PartList axes;
        bool open = true;
        int by = -1; ///< index of the op along which it got its last axis; -1: given, or none
    };
    std::vector<Dim> dims;
    PartList blocked; ///< parts that must not shard the value

    bool sharded() const;
};

/// The sharding of one tensor of an op, by factor.
class FactorShardings {
public:
    /// `shape`, `sharding` and `parts` must outlive this.
    FactorShardings(const FactorRule& rule, const FactorList& dims, const Shape& shape,
                    const ValueSharding& sharding, const AxisParts& parts);

    /// The axes that shard the factor in this tensor; null if the tensor does not have it.
    const PartList* axes_of(int factor) const;
    /// Elements of the tensor.
    i64 elements() const { return element_count(shape_); }
    /// The longest prefix of `axes` that may shard the factor in this tensor; empty unless it extends
    /// axes_of().
    PartList admissible(int factor, const PartList& axes) const;
    /// Takes over admissible(factor, axes).
    void extend(int factor, const PartList& axes);
    /// axes_of(factor) if it is a proper prefix of `axes`, otherwise `axes`.
    PartList shorter(int factor, const PartList& axes) const;
    bool changed() const { return changed_; }
    /// Writes the axes to the dimensions of `sharding`; returns whether any changed. `by`: index of the op.
    bool write(ValueSharding& sharding, int by) const;

private:
    struct Entry {
        int factor = -1;
        std::size_t dim = 0;
        PartList axes{}, overflow{}; ///< overflow: axes that do not divide the factor
        i64 size = 1;
        bool closed = false, last = false; ///< last: the minor-most factor of its dimension
    };
    const Entry* find(int factor) const;
    bool uses(PartId part, int but_factor) const;
    /// The prefix of `axes` that this factor may have, regardless of the other factors.
    PartList within(const Entry& entry, const PartList& axes) const;

    std::vector<Entry> entries_; ///< by dimension, major first
    const AxisParts& parts_;
    const PartList& blocked_;
    const Shape& shape_;
    bool changed_ = false;
};

/// The axes on which all tensors agree along a factor: the longest list of which every tensor has a prefix.
/// If propagation goes only `forward` (from operands) or `backward`, the receiving tensors can only shorten
/// it.
PartList compatible_axes(int factor, const std::vector<FactorShardings>& operands,
                         const std::vector<FactorShardings>& results, bool forward, bool backward);

/// The order in which factors get an axis that several could use: the factor whose axes the largest tensor
/// has first; of an element-wise op, then the most sharded one; then by tensor and factor (Shardy's
/// aggressive strategy).
std::vector<int> factor_order(const FactorRule& rule, bool elementwise, const std::vector<PartList>& axes,
                              const std::vector<FactorShardings>& operands,
                              const std::vector<FactorShardings>& results, const AxisParts& parts);

} // namespace trivium
