#pragma once
// Internal: integers of other types than i32, as the i32 of a graph. ui32 has the same bits; the others have
// the same numbers.
#include "stablehlo/importer.hpp"

namespace trivium {

/// Whether `op`, by name without the dialect, may have integers of `element` as operands or results: what it
/// computes is right though they are i32 in the graph. Of i64 that is so for numbers, and indices near them,
/// in the range of i32.
bool keeps_integers(std::string_view op, HloElement element);

/// The most that an integer result can be, if all integers are at least 0; -1 without a bound. It follows
/// from iota, constants, and what is computed of them.
i64 largest_result(const HloImporter& i, const HloOp& op);
/// Whether it is known, and in the range of i32.
bool fits_i32(const HloImporter& i, const HloOp& op);

// Of ui32.

/// Such numbers are in the order of those without sign.
ValueId with_flipped_sign(HloImporter& i, const HloOp& op, ValueId x);
ValueId real_of_unsigned(HloImporter& i, const HloOp& op, ValueId x, DType to);
ValueId unsigned_of_real(HloImporter& i, const HloOp& op, ValueId x);
/// Whether the result of a conversion has fewer than 32 bits, which may be too few for its operand.
bool narrows(const HloImporter& i, const HloOp& op);
/// The operand `x` of such a conversion as i32: numbers become the nearest of the type, integers keep their
/// last bits.
ValueId narrowed(HloImporter& i, const HloOp& op, ValueId x);
/// Of operands 0 and 1.
ValueId unsigned_quotient(HloImporter& i, const HloOp& op, bool remainder);

} // namespace trivium
