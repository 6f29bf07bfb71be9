#pragma once
// Constants of a StableHLO text that are computed when it is read: counters of loops, indices, predicates.
#include "stablehlo/syntax.hpp"

#include <optional>

namespace trivium {

/// Elements up to which a constant that is not a splat is computed.
inline constexpr i64 max_folded = 1024;

/// The result of `op` of constant operands, of type `type`; nothing if it is not one of those that are
/// computed here (arithmetic, comparisons, and ops that move elements). Integers wrap, reals round to the
/// type.
std::optional<HloLiteral> folded(const HloOp& op, const std::vector<const HloLiteral*>& operands,
                                 const HloType& type);

/// Element `i`, row-major.
double real_at(const HloLiteral& literal, i64 i);
i64 int_at(const HloLiteral& literal, i64 i);
/// \pre of an integer type: `number` is whole, and in the range of i64
HloLiteral splat_of(const HloType& type, double number);

/// Start, limit and stride of a slice of a tensor with `rank` dimensions, of either form; nothing if it does
/// not state as many.
struct HloSlice {
    std::vector<i64> start, limit, stride;
};
std::optional<HloSlice> slice_of(const HloOp& op, std::size_t rank);

/// The integers of a list, or of a literal; empty without attribute.
std::vector<i64> numbers_of(const HloAttribute* attribute);
/// The text of a comparison's direction, "LT", of either form.
std::string direction_of(const HloOp& op);

} // namespace trivium
