#pragma once
// One op's tensors, with their axes by factor instead of by dimension: the state in which propagation
// compares and extends them (Shardy: "propagate shardings along factors").
#include "ir/factors.hpp"
#include "passes/sharding/axis_parts.hpp"

namespace trivium {

/// The sharding of a value during propagation.
struct ValueSharding {
    struct Dim {
        PartList axes;
        bool open = true;
        int by = -1; ///< the op along which it got its last axis; -1: given, or none
    };
    std::vector<Dim> dims;
    PartList blocked; ///< parts that must not shard it

    bool sharded() const;
};

/// One tensor of an op.
class FactorShardings {
public:
    /// All must outlive it.
    FactorShardings(const FactorRule& rule, const FactorList& dims, const Shape& shape,
                    const ValueSharding& sharding, const AxisParts& parts);

    /// The axes that shard the factor here; null if the tensor does not have it.
    const PartList* axes_of(int factor) const;
    /// Elements of the tensor.
    i64 elements() const { return element_count(shape_); }
    /// The longest beginning of `axes` that may shard the factor here; empty unless it extends what does.
    PartList admissible(int factor, const PartList& axes) const;
    /// Takes over admissible(factor, axes).
    void extend(int factor, const PartList& axes);
    /// `axes`, or what shards the factor here if that is the beginning of `axes`.
    PartList shorter(int factor, const PartList& axes) const;
    bool changed() const { return changed_; }
    /// Writes the axes by dimension; whether any dimension changed. `by`: the op.
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
    /// The beginning of `axes` that this factor may have, regardless of the others.
    PartList within(const Entry& entry, const PartList& axes) const;

    std::vector<Entry> entries_; ///< by dimension, major first
    const AxisParts& parts_;
    const PartList& blocked_;
    const Shape& shape_;
    bool changed_ = false;
};

/// The axes on which all tensors agree along a factor, as far as propagation may carry them forward (from
/// operands) and backward: the longest list of which every tensor has a beginning.
PartList compatible_axes(int factor, const std::vector<FactorShardings>& operands,
                         const std::vector<FactorShardings>& results, bool forward, bool backward);

/// The order in which factors get an axis that several could use: from the largest tensor that has it first,
/// element-wise the most sharded factor first, then by tensor and factor (Shardy's aggressive strategy).
std::vector<int> factor_order(const FactorRule& rule, bool elementwise, const std::vector<PartList>& axes,
                              const std::vector<FactorShardings>& operands,
                              const std::vector<FactorShardings>& results, const AxisParts& parts);

} // namespace trivium
